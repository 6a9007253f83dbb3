"""What is decided about a request before the object is stored, across kinds.

Source: apiserver pkg/admission/plugin/namespace/lifecycle; kubernetes plugin/pkg/admission/{serviceaccount,
defaulttolerationseconds,priority} (v1.36).
"""

from __future__ import annotations

from protocols.objects import Key, Object, decode_object
from runtime.apiserver.core.cluster import Cluster
from runtime.apiserver.core.service_addresses import allocate_addresses
from runtime.apiserver.errors import status_errors
from runtime.apiserver.registry.definitions import ResourceDefinition

NAMESPACES, PODS, SERVICES = "namespaces", "pods", "services"
PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
_IMMORTAL = ("default", "kube-system", "kube-public")

# Every cluster has these two classes, whether or not they are stored.
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NODE_TROUBLES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
TOLERATION_SECONDS = 300


def admit_create(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Change a new object as admission plugins do. Raises StatusError (403, 404)."""
    if definition.namespaced:
        _admit_to_namespace(cluster, definition, obj)
    if definition.storage == PODS:
        spec = obj["spec"]
        _default_account(spec)
        _default_tolerations(spec)
        _settle_priority(cluster, obj)
    elif definition.storage == SERVICES:
        allocate_addresses(cluster, obj)


def admit_update(definition: ResourceDefinition, new: Object, old: Object) -> None:
    """The same for a change: a pod keeps what was decided about it when it was made."""
    if definition.storage == PODS:
        _default_tolerations(new["spec"])
        for part in ("priority", "preemptionPolicy"):
            if part in old["spec"]:
                new["spec"].setdefault(part, old["spec"][part])


def admit_delete(definition: ResourceDefinition, key: Key) -> None:
    """Raises StatusError (403)."""
    if definition.storage == NAMESPACES and key in _IMMORTAL:
        raise status_errors.forbidden("", NAMESPACES, key, "this namespace may not be deleted")


def _admit_to_namespace(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Objects are made only in namespaces that are there and stay."""
    name = obj["metadata"]["namespace"]
    record = cluster.state.get(NAMESPACES, name)
    if record is None:
        raise status_errors.not_found("", NAMESPACES, name)
    if cluster.is_deleting(record):
        because = f"unable to create new content in namespace {name} because it is being terminated"
        error = status_errors.forbidden(definition.group, definition.plural, obj["metadata"].get("name", ""), because)
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        error.details = (error.details or {}) | {"causes": [cause]}
        raise error


def _default_account(spec: Object) -> None:
    """Upstream also mounts the account's token; nothing here issues tokens yet."""
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"


def _default_tolerations(spec: Object) -> None:
    """A pod stays for five minutes on a node that is not ready or not reachable, unless it says otherwise."""
    tolerations = spec.get("tolerations") or []
    for trouble in _NODE_TROUBLES:
        tolerated = any(
            one.get("key") in (None, "", trouble) and one.get("effect") in (None, "", "NoExecute")
            for one in tolerations
        )
        if not tolerated:
            toleration = {
                "key": trouble,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": TOLERATION_SECONDS,
            }
            tolerations = [*tolerations, toleration]
    spec["tolerations"] = tolerations


def _settle_priority(cluster: Cluster, pod: Object) -> None:
    spec = pod["spec"]
    priority, policy = _priority(cluster, pod)
    given = spec.get("priority")
    if given is not None and given != priority:
        raise _forbidden_pod(
            pod,
            f"the integer value of priority ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name",
        )
    spec["priority"] = priority
    given = spec.get("preemptionPolicy")
    if given is not None and given != policy:
        raise _forbidden_pod(
            pod,
            f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["preemptionPolicy"] = policy


def _priority(cluster: Cluster, pod: Object) -> tuple[int, str]:
    """The priority and preemption policy of a pod's class; writes the class that is the default into the pod."""
    name = pod["spec"].get("priorityClassName")
    classes = cluster.state.collection(PRIORITY_CLASSES)
    if not name:
        defaults = [one for one in map(decode_object, classes.raw_objects()) if one.get("globalDefault")]
        if not defaults:
            return 0, "PreemptLowerPriority"
        chosen = min(defaults, key=lambda one: one.get("value", 0))
        pod["spec"]["priorityClassName"] = chosen["metadata"]["name"]
    elif record := classes.get(name):
        chosen = decode_object(record.raw)
    elif name in _SYSTEM_CLASSES:
        return _SYSTEM_CLASSES[name], "PreemptLowerPriority"
    else:
        raise _forbidden_pod(pod, f"no PriorityClass with name {name} was found")
    return chosen.get("value", 0), chosen.get("preemptionPolicy", "PreemptLowerPriority")


def _forbidden_pod(pod: Object, because: str) -> status_errors.StatusError:
    return status_errors.forbidden("", PODS, pod["metadata"].get("name", ""), because)
