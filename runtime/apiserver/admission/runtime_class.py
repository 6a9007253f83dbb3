"""RuntimeClass: set the overhead and scheduling constraints of a pod from its RuntimeClass.

Source: kubernetes plugin/pkg/admission/runtimeclass/admission.go, pkg/util/tolerations/tolerations.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.admission_plugins import RUNTIME_CLASS
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors.field_errors import quoted

RUNTIME_CLASSES = "runtimeclasses.node.k8s.io"
_DIFFERS = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


def admit_create(cluster: Cluster, pod: Object) -> None:
    """Set overhead, node selector and tolerations of a new pod from its RuntimeClass, in place.

    Raises StatusError (403) if the pod conflicts with the class, or if the class does not exist.
    """
    spec = pod["spec"]
    if spec.get("runtimeClassName") is None or RUNTIME_CLASS not in cluster.settings.plugins:
        return
    found = _class(cluster, pod)
    overhead, scheduling = found.get("overhead"), found.get("scheduling")
    if overhead is not None:
        fixed = overhead.get("podFixed") or {}
        if spec.get("overhead") and not _are_equal(fixed, spec["overhead"]):
            raise forbidden("", "pods", pod, _DIFFERS)
        spec["overhead"] = dict(fixed)
    if scheduling is not None:
        _apply_scheduling(pod, scheduling)


def check_create(cluster: Cluster, pod: Object) -> None:
    """Check that the overhead of a new pod equals that of its RuntimeClass. Raises StatusError (403)."""
    spec = pod["spec"]
    if RUNTIME_CLASS not in cluster.settings.plugins:
        return
    overhead = None if spec.get("runtimeClassName") is None else _class(cluster, pod).get("overhead")
    if overhead is not None:
        if not _are_equal(overhead.get("podFixed") or {}, spec.get("overhead") or {}):
            raise forbidden("", "pods", pod, _DIFFERS)
    elif spec.get("overhead") is not None:
        because = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden("", "pods", pod, because)


def _class(cluster: Cluster, pod: Object) -> Object:
    """Return the RuntimeClass of a pod. Raises StatusError (403) if it does not exist."""
    name = pod["spec"]["runtimeClassName"]
    record = cluster.state.get(RUNTIME_CLASSES, name)
    if record is None:
        raise forbidden("", "pods", pod, f"pod rejected: RuntimeClass {quoted(name)} not found")
    return decode_object(record.raw)


def _apply_scheduling(pod: Object, scheduling: Object) -> None:
    spec, wanted = pod["spec"], scheduling.get("nodeSelector") or {}
    selector = spec.get("nodeSelector") or {}
    for key in sorted(wanted):
        if selector.get(key, wanted[key]) != wanted[key]:
            because = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted[key]}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
            raise forbidden("", "pods", pod, because)
    if wanted:
        spec["nodeSelector"] = {**selector, **wanted}
    if scheduling.get("tolerations"):
        spec["tolerations"] = _without_redundant([*(spec.get("tolerations") or ()), *scheduling["tolerations"]])


def _without_redundant(tolerations: list[Any]) -> list[Any]:
    """Return the tolerations without those that another toleration includes. Of equal ones, the first is kept."""
    kept: list[Any] = []
    for index, toleration in enumerate(tolerations):
        others = tolerations[index + 1 :]
        if any(_includes(other, toleration) for other in kept) or any(
            other != toleration and _includes(other, toleration) for other in others
        ):
            continue
        kept.append(toleration)
    return kept


def _includes(more: Object, less: Object) -> bool:
    """Report whether a toleration tolerates every taint that another tolerates. Source: isSuperset."""
    if more == less:
        return True
    everything = not more.get("key") and more.get("operator") == "Exists"
    if (more.get("key") or "") != (less.get("key") or "") and not everything:
        return False
    if more.get("effect") and more.get("effect") != less.get("effect"):
        return False
    if more.get("effect") == "NoExecute":
        seconds = more.get("tolerationSeconds")
        if seconds is not None and (less.get("tolerationSeconds") is None or less["tolerationSeconds"] > seconds):
            return False
    match more.get("operator") or "Equal":
        case "Equal":
            return less.get("operator") == "Equal" and (more.get("value") or "") == (less.get("value") or "")
        case "Exists":
            return True
    return False


def _are_equal(first: Object, other: Object) -> bool:
    return first.keys() == other.keys() and all(
        parse_quantity(first[name]) == parse_quantity(other[name]) for name in first
    )
