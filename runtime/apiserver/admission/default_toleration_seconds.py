"""DefaultTolerationSeconds: add tolerations of five minutes for nodes that are not ready or unreachable.

Source: kubernetes plugin/pkg/admission/defaulttolerationseconds/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

TOLERATION_SECONDS = 300
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def admit(definition: ResourceDefinition, pod: Object) -> None:
    """Add the default tolerations to a new or updated pod, except for taints that the pod already tolerates."""
    if definition.storage != "pods":
        return
    tolerations = pod["spec"].get("tolerations") or []
    for taint in _TAINTS:
        tolerated = any(
            toleration.get("key") in (None, "", taint) and toleration.get("effect") in (None, "", "NoExecute")
            for toleration in tolerations
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
