"""Requests and limits of a whole pod.

They are the sum over its containers, but at least the need of each init container with the restartable init containers
before it. Pod-level resources replace the sum. The overhead of the runtime class is added.

Source: kubernetes v1.36 staging/src/k8s.io/component-helpers/resource/helpers.go (PodRequests, PodLimits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.quantities import Quantity
from kcm.protocols.quota.amounts import Amounts, add, highest, plus, read_amounts
from kcm.protocols.quota.names import is_huge_pages

OfPod = Callable[[str], bool]
RESIZE_PENDING = "PodResizePending"  # a condition


def is_of_pods(name: str) -> bool:
    """Report whether a pod may specify this resource at pod level."""
    return name in ("cpu", "memory") or is_huge_pages(name)


def says_for_itself(pod: Object) -> bool:
    """Report whether the pod has pod-level resources."""
    resources = (pod.get("spec") or {}).get("resources") or {}
    return any(is_of_pods(name) for part in ("requests", "limits") for name in resources.get(part) or ())


def pod_requests(
    pod: Object, *, use_status: bool = True, overhead: bool = True, of_pod: OfPod = is_of_pods
) -> dict[str, Quantity]:
    """Return the requests of a pod. Raises ValueError for an invalid quantity.

    use_status: during an in-place resize, count the largest of the requested, allocated and actual resources.
    of_pod: reports which resources count at pod level.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    total = _of_containers(pod, "requests", use_status=use_status)
    own = spec.get("resources") or {}
    wanted = read_amounts(own.get("requests"))
    effective: Amounts = wanted
    if use_status and status.get("resources") is not None and any(map(is_of_pods, wanted)):
        has = read_amounts(status["resources"].get("requests"))
        allocated = read_amounts(status.get("allocatedResources"))
        effective = _effective(pod, wanted, has, allocated)
    total.update({name: effective[name] for name in wanted if of_pod(name) and name in effective})
    return add(total, read_amounts(spec.get("overhead"))) if overhead else total


def pod_limits(
    pod: Object, *, use_status: bool = True, overhead: bool = True, of_pod: OfPod = is_of_pods
) -> dict[str, Quantity]:
    """Return the limits of a pod, as pod_requests; overhead is added only to existing limits."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    total = _of_containers(pod, "limits", use_status=use_status)
    own = spec.get("resources") or {}
    wanted = read_amounts(own.get("limits"))
    effective: Amounts = wanted
    if use_status and status.get("resources") is not None and wanted:
        has = read_amounts(status["resources"].get("limits"))
        effective = has if _is_infeasible(pod) else highest(wanted, has)
    total.update({name: effective[name] for name in wanted if of_pod(name) and name in effective})
    if overhead:
        for name, quantity in read_amounts(spec.get("overhead")).items():
            if name in total and total[name].value != 0:
                total[name] = plus(total[name], quantity)
    return total


def _of_containers(pod: Object, part: str, *, use_status: bool) -> dict[str, Quantity]:
    spec = pod.get("spec") or {}
    statuses = dict(_statuses(pod)) if use_status else {}

    def amounts(container: Mapping[str, Any]) -> Amounts:
        wanted = read_amounts((container.get("resources") or {}).get(part))
        seen = statuses.get(container.get("name") or "")
        if seen is None or seen.get("resources") is None:
            return wanted
        has = read_amounts(seen["resources"].get(part))
        if part == "requests":
            return _effective(pod, wanted, has, read_amounts(seen.get("allocatedResources")))
        return has if _is_infeasible(pod) else highest(wanted, has)

    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        total = add(total, amounts(container))
    restartable: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            needs = amounts(container)
            total, restartable = add(total, needs), add(restartable, needs)
            starting = highest(starting, restartable)
        else:
            needs = read_amounts((container.get("resources") or {}).get(part))
            starting = highest(starting, add(needs, restartable))
    return highest(total, starting)


def _effective(pod: Object, wanted: Amounts, has: Amounts, allocated: Amounts) -> dict[str, Quantity]:
    given = highest(has, allocated)
    return given if _is_infeasible(pod) else highest(wanted, given)


def _is_infeasible(pod: Object) -> bool:
    """Report whether the pod has a pending resize that its node can never perform."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == RESIZE_PENDING:
            return bool(condition.get("reason") == "Infeasible")
    return False


def _statuses(pod: Object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    status = pod.get("status") or {}
    for part in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(part) or ():
            yield container.get("name") or "", container
