"""DefaultTolerationSeconds: a pod tolerates a node that is not ready or unreachable for five minutes.

Source: kubernetes plugin/pkg/admission/defaulttolerationseconds/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

TOLERATION_SECONDS = 300
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def admit(definition: ResourceDefinition, pod: Object) -> None:
    """For new and updated pods alike; a toleration of its own for a taint replaces ours."""
    if definition.storage != "pods":
        return
    tolerations = pod["spec"].get("tolerations") or []
    for taint in _TAINTS:
        tolerated = any(
            one.get("key") in (None, "", taint) and one.get("effect") in (None, "", "NoExecute") for one in tolerations
        )
        if not tolerated:
            toleration = {
                "key": taint,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": TOLERATION_SECONDS,
            }
            tolerations = [*tolerations, toleration]
    pod["spec"]["tolerations"] = tolerations
