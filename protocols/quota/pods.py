"""Evaluator of pods.

A pod that has terminated, or whose grace period has expired, only counts as a stored object (count/pods).

Source: kubernetes v1.36 pkg/quota/v1/evaluator/core/pods.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kcm.protocols.objects import Object, metadata
from kcm.protocols.pod_resources import RESIZE_PENDING, pod_limits, pod_requests, says_for_itself
from kcm.protocols.quality_of_service import BEST_EFFORT, quality_of_service
from kcm.protocols.quantities import Quantity
from kcm.protocols.quota import scopes
from kcm.protocols.quota.amounts import ONE, Amounts, read_amounts
from kcm.protocols.quota.evaluators import CREATE, UPDATE, Evaluator
from kcm.protocols.quota.names import (
    LIMITS,
    REQUESTS,
    count_of,
    is_counted_in_pods,
    is_huge_pages,
    is_quota_of_huge_pages,
    is_request_of_extended,
)
from kcm.protocols.quota.scopes import ScopeRequirement
from kcm.protocols.times import parse_time

COMPUTE = ("cpu", "memory", "ephemeral-storage")
NAMES = frozenset(
    {count_of("pods"), "pods", *COMPUTE, *(f"{part}{name}" for part in (REQUESTS, LIMITS) for name in COMPUTE)}
)
# If a quota limits one of these resources, each container must specify it.
DEMANDED = frozenset(f"{part}{name}" for part in ("", REQUESTS, LIMITS) for name in ("cpu", "memory"))

# The fields that the usage of a pod depends on.
_OF_METADATA = ("deletionTimestamp", "deletionGracePeriodSeconds")
_OF_SPEC = ("resources", "overhead", "activeDeadlineSeconds", "priorityClassName", "affinity")
_OF_STATUS = ("phase", "qosClass", "resources", "allocatedResources")
_OF_CONTAINER = ("name", "restartPolicy", "resources", "allocatedResources")


class Pods(Evaluator):
    needs_objects = has_essence = True

    def __init__(self, now: Callable[[], float]) -> None:
        """Create an evaluator. now: returns Unix seconds."""
        super().__init__("pods")
        self._now = now

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(
            name for name in names if name in NAMES or is_quota_of_huge_pages(name) or is_request_of_extended(name)
        )

    def usage(self, obj: Object, /) -> Amounts:
        return pod_usage(obj, self._now())

    def essence(self, obj: Object, /) -> Object:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        resizing = [each for each in status.get("conditions") or () if each.get("type") == RESIZE_PENDING]
        return {
            "metadata": _parts(metadata(obj), _OF_METADATA),
            "spec": _parts(spec, _OF_SPEC) | _lists(spec, ("containers", "initContainers")),
            "status": _parts(status, _OF_STATUS)
            | _lists(status, ("containerStatuses", "initContainerStatuses"))
            | ({"conditions": [_parts(each, ("type", "reason")) for each in resizing]} if resizing else {}),
        }

    def meets(self, obj: Object, scope: ScopeRequirement, /) -> bool:
        spec = obj.get("spec") or {}
        match scope.name:
            case scopes.TERMINATING:
                return is_terminating(obj)
            case scopes.NOT_TERMINATING:
                return not is_terminating(obj)
            case scopes.BEST_EFFORT:
                return _is_best_effort(obj)
            case scopes.NOT_BEST_EFFORT:
                return not _is_best_effort(obj)
            case scopes.PRIORITY_CLASS:
                name = spec.get("priorityClassName")
                return scope.selects([name] if name else [])
            case scopes.CROSS_NAMESPACE_POD_AFFINITY:
                return _looks_into_other_namespaces(spec.get("affinity") or {})
        return False

    def lacks(self, obj: Object, names: Iterable[str], /) -> str:
        demanded = DEMANDED.intersection(names)
        if not demanded or says_for_itself(obj):
            return ""
        spec = obj.get("spec") or {}
        lacking: dict[str, set[str]] = {}
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            resources = container.get("resources") or {}
            given = _counted(read_amounts(resources.get("requests")), read_amounts(resources.get("limits")))
            for name in demanded - given.keys():
                lacking.setdefault(name, set()).add(container.get("name") or "")
        if not lacking:
            return ""
        return "must specify " + "; ".join(f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking))

    def handles(self, operation: str, subresource: str, new: Object, old: Object | None, /) -> bool:
        if subresource == "resize":
            return operation == UPDATE
        if subresource:
            return False
        if operation == UPDATE:
            return old is not None and is_terminating(old) != is_terminating(new)
        return operation == CREATE


def pod_usage(pod: Object, now: float) -> dict[str, Quantity]:
    """Return the usage of a pod at this Unix time. Raises ValueError for an invalid pod."""
    used = {count_of("pods"): ONE}
    if counts(pod, now):
        used.update(_counted(pod_requests(pod), pod_limits(pod)))
    return used


def counts(pod: Object, now: float) -> bool:
    """Report whether a pod counts at this Unix time, other than as a stored object."""
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return False
    gone = gone_at(pod)
    return gone is None or now <= gone


def gone_at(pod: Object) -> float | None:
    """Return the end of the grace period in Unix seconds, or None. Pods of a lost node do not count after it."""
    meta = metadata(pod)
    deleted, grace = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
    return None if deleted is None or grace is None else parse_time(deleted) + grace


def is_terminating(pod: Object) -> bool:
    """Report whether the pod has a deadline (activeDeadlineSeconds), as the scope Terminating requires."""
    deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _parts(whole: Mapping[str, Any], names: Iterable[str]) -> Object:
    return {name: whole[name] for name in names if whole.get(name) is not None}


def _lists(whole: Object, names: Iterable[str]) -> Object:
    # Lists of containers, or of container statuses.
    return {name: [_parts(container, _OF_CONTAINER) for container in whole[name]] for name in names if whole.get(name)}


def _counted(requests: Amounts, limits: Amounts) -> dict[str, Quantity]:
    used = {"pods": ONE}
    for name in COMPUTE:
        if name in requests:
            used[name] = used[REQUESTS + name] = requests[name]
        if name in limits:
            used[LIMITS + name] = limits[name]
    for name, quantity in requests.items():
        if is_huge_pages(name):
            used[name] = used[REQUESTS + name] = quantity
        if is_counted_in_pods(name):
            used[REQUESTS + name] = quantity
    return used


def _is_best_effort(pod: Object) -> bool:
    quality = (pod.get("status") or {}).get("qosClass") or quality_of_service(pod.get("spec") or {})
    return bool(quality == BEST_EFFORT)


def _looks_into_other_namespaces(affinity: Object) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms: list[Any] = [*(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())]
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [term.get("podAffinityTerm") or {} for term in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
