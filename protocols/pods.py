"""Facts about pods: the fields that controllers read of every pod, derived once per version.

An informer's table derives PodFacts from each version of a pod (`entry.facts`), so that a sync over a thousand pods
decodes none of them. Facts are small (about 130 bytes): equal labels, times and names are shared between pods.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from kcm.protocols.bounded_cache import bounded_cache
from kcm.protocols.integers import INT32
from kcm.protocols.node_affinity import NAME_FIELD, REQUIRED
from kcm.protocols.objects import Object, shared_json
from kcm.protocols.times import parse_time

DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
# Facts by which the owner of a pod counts and replaces it, for Interest.changed: what selectors, is_active and
# is_available read.
COUNTED_FACTS = ("labels", "deleting", "phase", "ready", "ready_since")
# A minus is the only sign, and there are no leading zeros. Source: apis/core/helper, GetDeletionCostFromPodAnnotations.
_DELETION_COST = re.compile(r"-[0-9]+|0|[1-9][0-9]*")


class PodFacts(Struct, frozen=True, kw_only=True, gc=False):
    """Facts of one version of a pod. Times are Unix seconds.

    labels: pods with equal labels share one mapping, so that a result can be cached by the identity of the mapping.
    node: spec.nodeName, "" while unassigned.
    deleting: deletionTimestamp is set.
    ready: its condition Ready is True.
    ready_changed: lastTransitionTime of the condition Ready, for any status; None if it is missing.
    ips: its addresses, joined by commas; most pods have one.
    restarts: the highest restart count of its containers.
    sidecar_restarts: the highest restart count of its restartable init containers.
    deletion_cost: the value of the annotation pod-deletion-cost; 0 if it is missing or invalid.
    tolerations: spec.tolerations as JSON, for comparison; pods with equal tolerations share one bytes object.
    target: its node; while unassigned, the node that its required node affinity names, as for pods of DaemonSets.
    stopped: it is being deleted, and none of its containers runs.
    subdomain: spec.subdomain.
    """

    labels: Mapping[str, str]
    phase: str
    node: str
    deleting: bool
    ready: bool
    created: float | None
    restarts: int
    sidecar_restarts: int
    deletion_cost: int
    tolerations: bytes
    ready_changed: float | None = None
    ips: str = ""
    target: str = ""
    stopped: bool = False
    subdomain: str = ""

    @property
    def ready_since(self) -> float | None:
        """Return the time since which the pod is ready, or None if it is not ready or the time is missing."""
        return self.ready_changed if self.ready else None


def is_terminal(pod: PodFacts) -> bool:
    """Report whether the pod's phase is Failed or Succeeded: its containers never run again."""
    return pod.phase in ("Failed", "Succeeded")


def is_active(pod: PodFacts) -> bool:
    """Report whether the pod is neither terminal nor being deleted.

    Source: kubernetes v1.36 controller_utils.go, IsPodActive.
    """
    return not pod.deleting and pod.phase not in ("Failed", "Succeeded")


def is_terminating(pod: PodFacts) -> bool:
    """Report whether the pod is being deleted and not terminal.

    Source: kubernetes v1.36 controller_utils.go, IsPodTerminating.
    """
    return pod.deleting and pod.phase not in ("Failed", "Succeeded")


def is_available(pod: PodFacts, *, min_ready_seconds: int, now: float) -> bool:
    """Report whether the pod has been ready for min_ready_seconds.

    Source: kubernetes v1.36 pkg/api/v1/pod/util.go, IsPodAvailable.
    """
    if not pod.ready:
        return False
    return min_ready_seconds == 0 or (pod.ready_since is not None and pod.ready_since + min_ready_seconds <= now)


def pod_facts(pod: Object) -> PodFacts:
    """Derive the facts of one version. A missing field has its zero value.

    Raises ValueError that names the field whose type or value is wrong.
    """
    # Runs for each version of each pod. Most fields are missing, so no function is called for a missing field.
    meta, spec, status = pod.get("metadata"), pod.get("spec"), pod.get("status")
    if type(meta) is not dict:
        meta = _map(meta, "metadata")
    if type(spec) is not dict:
        spec = _map(spec, "spec")
    if type(status) is not dict:
        status = _map(status, "status")
    conditions, statuses = status.get("conditions"), status.get("containerStatuses")
    annotations, node, subdomain = meta.get("annotations"), spec.get("nodeName"), spec.get("subdomain")
    condition = _ready_condition(conditions) if conditions else None
    if condition is None:
        ready, changed = False, None
    else:
        ready = condition.get("status") == "True"
        changed = _time(condition.get("lastTransitionTime"), "status.conditions[Ready]")
    return PodFacts(
        labels=_labels(meta.get("labels")),
        phase=_shared_text(status.get("phase"), "status.phase"),
        node=_shared_text(node, "spec.nodeName") if node is not None else "",
        deleting=meta.get("deletionTimestamp") is not None,
        ready=ready,
        created=_time(meta.get("creationTimestamp"), "metadata.creationTimestamp"),
        restarts=_most_restarts(statuses, "status.containerStatuses", None) if statuses else 0,
        sidecar_restarts=_sidecar_restarts(spec, status) if spec.get("initContainers") else 0,
        deletion_cost=_deletion_cost(_map(annotations, "metadata.annotations")) if annotations is not None else 0,
        tolerations=shared_json(spec.get("tolerations")),
        ready_changed=changed,
        ips=_ips(status),
        target=_shared_text(node or _named_node(spec.get("affinity")), "spec.nodeName"),
        stopped=meta.get("deletionTimestamp") is not None and not _runs(status),
        subdomain=_shared_text(subdomain, "spec.subdomain") if subdomain is not None else "",
    )


def _runs(status: Mapping[str, Any]) -> bool:
    """Report whether a container of a pod may run. Source: kubernetes v1.36 pkg/volume/util/util.go, notRunning."""
    return any(
        not _map(container.get("state"), f"status.{kind}").keys() & {"terminated", "waiting"}
        for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        for container in _maps(status.get(kind), f"status.{kind}")
    )


def _named_node(affinity: Any) -> Any:
    """Return the only node in the first required term that selects nodes by name, or "".

    Source: kubernetes v1.36 pkg/controller/daemon/util/daemonset_util.go, GetTargetNodeName.
    """
    if affinity is None:
        return ""
    required = _map(_map(affinity, "spec.affinity").get("nodeAffinity"), "spec.affinity.nodeAffinity").get(REQUIRED)
    for term in _maps(_map(required, REQUIRED).get("nodeSelectorTerms"), "nodeSelectorTerms"):
        for field in _maps(term.get("matchFields"), "matchFields"):
            if field.get("key") == NAME_FIELD and field.get("operator") == "In":
                names = field.get("values")
                return names[0] if isinstance(names, list) and len(names) == 1 else ""
    return ""


def _ready_condition(conditions: Any) -> Mapping[str, Any] | None:
    for condition in _maps(conditions, "status.conditions"):
        if condition.get("type") == "Ready":
            return condition
    return None


def _ips(status: Mapping[str, Any]) -> str:
    """Return status.podIPs, or status.podIP if they are missing."""
    several = status.get("podIPs")
    if not several:
        return _text(status.get("podIP"), "status.podIP")
    return ",".join([_text(entry.get("ip"), "status.podIPs") for entry in _maps(several, "status.podIPs")])


def _sidecar_restarts(spec: Mapping[str, Any], status: Mapping[str, Any]) -> int:
    containers = _maps(spec.get("initContainers"), "spec.initContainers")
    if not containers:
        return 0
    sidecars = {container.get("name") for container in containers if container.get("restartPolicy") == "Always"}
    if not sidecars:
        return 0
    return _most_restarts(status.get("initContainerStatuses"), "status.initContainerStatuses", sidecars)


def _most_restarts(statuses: Any, field: str, names: set[Any] | None) -> int:
    """Return the highest restart count. names: the containers to consider; None for all."""
    most = 0
    for container in _maps(statuses, field):
        if names is None or container.get("name") in names:
            count = container.get("restartCount", 0)
            if type(count) is not int:
                raise ValueError(f"{field}: restartCount is a number, got {count!r}")
            most = max(most, count)
    return most


def _deletion_cost(annotations: Mapping[str, Any]) -> int:
    value = annotations.get(DELETION_COST_ANNOTATION)
    if not isinstance(value, str) or len(value) > 11 or not _DELETION_COST.fullmatch(value):
        return 0
    cost = int(value)
    return cost if cost in INT32 else 0


def _labels(labels: Any) -> Mapping[str, str]:
    try:
        return _shared_labels(tuple(_map(labels, "metadata.labels").items()))
    except TypeError:  # a value that is a list or a map
        raise ValueError(f"metadata.labels is a map of strings, got {labels!r}") from None


@bounded_cache(1024, longest=64)  # pods of one template follow each other
def _shared_labels(labels: tuple[tuple[str, Any], ...]) -> Mapping[str, str]:
    for key, value in labels:
        if not isinstance(value, str):
            raise ValueError(f"metadata.labels is a map of strings, got {value!r} for {key}")
    return MappingProxyType(dict(labels))


_shared_time = bounded_cache(1024, longest=64)(parse_time)  # pods of one burst are created within the same second


def _time(text: Any, field: str) -> float | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"{field} is a time, got {text!r}")
    try:
        return _shared_time(text)
    except ValueError as err:
        raise ValueError(f"{field}: {err}") from None


def _shared_text(text: Any, field: str) -> str:
    return sys.intern(_text(text, field))


def _text(text: Any, field: str) -> str:
    if text is None:
        return ""
    if not isinstance(text, str):
        raise ValueError(f"{field} is a string, got {text!r}")
    return text


def _map(value: Any, field: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{field} is a map, got {value!r}")
    return value


def _maps(value: Any, field: str) -> list[Mapping[str, Any]]:
    if not value:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{field} is a list of maps, got {value!r}")
    for element in value:
        if not isinstance(element, dict):
            raise ValueError(f"{field} is a list of maps, got {element!r} in it")
    return value
