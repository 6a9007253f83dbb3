"""Priority: set a pod's priority and preemption policy from its PriorityClass.

Source: kubernetes plugin/pkg/admission/priority/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.storage.state import to_read

PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
# System classes, which exist in every cluster even if they are not stored.
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPT = "PreemptLowerPriority"


def admit_create(cluster: Cluster, definition: ResourceDefinition, pod: Object) -> None:
    """Set the priority and preemption policy of a new pod, in place.

    Raises StatusError (403) if the pod has another value, or if its class does not exist.
    """
    if definition.storage != "pods":
        return
    spec = pod["spec"]
    priority, policy = _class_values(cluster, pod)
    given = spec.get("priority")
    if given is not None and given != priority:
        raise forbidden(
            "",
            "pods",
            pod,
            f"the integer value of priority ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name",
        )
    spec["priority"] = priority
    given = spec.get("preemptionPolicy")
    if given is not None and given != policy:
        raise forbidden(
            "",
            "pods",
            pod,
            f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["preemptionPolicy"] = policy


def admit_update(definition: ResourceDefinition, new: Object, old: Object) -> None:
    """Copy priority and preemption policy from the old pod if an update omits them."""
    if definition.storage == "pods":
        for field in ("priority", "preemptionPolicy"):
            if field in old["spec"]:
                new["spec"].setdefault(field, old["spec"][field])


def _class_values(cluster: Cluster, pod: Object) -> tuple[int, str]:
    """Return (priority, preemption policy) of the pod's class. Raises StatusError (403) if the class does not exist.

    A pod that names no class is assigned the default class, in place.
    """
    name = pod["spec"].get("priorityClassName")
    if not name:
        classes = map(to_read, cluster.state.collection(PRIORITY_CLASSES).raw_objects())
        defaults = [class_ for class_ in classes if class_.get("globalDefault")]
        if not defaults:
            return 0, _PREEMPT
        chosen = min(defaults, key=lambda class_: class_.get("value", 0))
        pod["spec"]["priorityClassName"] = chosen["metadata"]["name"]
    elif record := cluster.state.get(PRIORITY_CLASSES, name):
        chosen = to_read(record.raw)
    elif name in _SYSTEM_CLASSES:
        return _SYSTEM_CLASSES[name], _PREEMPT
    else:
        raise forbidden("", "pods", pod, f"no PriorityClass with name {name} was found")
    return chosen.get("value", 0), chosen.get("preemptionPolicy", _PREEMPT)
