"""LimitRanger: apply the LimitRanges of a namespace as defaults of containers and as bounds of pods and claims.

Source: kubernetes plugin/pkg/admission/limitranger/admission.go (v1.36). Difference: violations are listed in a fixed
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kcm.protocols.errors import aggregate
from kcm.protocols.objects import Object, decode_object, is_deleting
from kcm.protocols.pod_resources import pod_limits, pod_requests
from kcm.protocols.quantities import Quantity, milli_value, whole_value
from kcm.protocols.quota.amounts import ZERO, Amounts, read_amounts
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

LIMIT_RANGES, PODS, CLAIMS = "limitranges", "pods", "persistentvolumeclaims"
RESIZE = "resize"  # a subresource
ANNOTATION = "kubernetes.io/limit-ranger"
_MOST_MILLI = (2**63 - 1) // 1000  # larger amounts are compared in units


def set_defaults(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Set the requests and limits of a new pod's containers, in place, to the defaults in the LimitRanges."""
    if definition.storage != PODS:
        return
    for limit_range in _limit_ranges(cluster, obj):
        _set_defaults(limit_range, obj)


def admit_create(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Check a new pod or claim against the LimitRanges of its namespace. Raises StatusError (403)."""
    _admit(cluster, definition, obj)


def admit_update(cluster: Cluster, definition: ResourceDefinition, subresource: str, new: Object, old: Object) -> None:
    """Check an update against the LimitRanges. Raises StatusError (403).

    A pod is checked only when it is resized, since no other update changes its resources.
    """
    changed = subresource == RESIZE if definition.storage == PODS else not subresource
    if changed and not is_deleting(old):
        _admit(cluster, definition, new)


def _admit(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    if definition.storage not in (PODS, CLAIMS):
        return
    for limit_range in _limit_ranges(cluster, obj):
        violations = _pod_violations if definition.storage == PODS else _claim_violations
        texts = aggregate(text for limits in _items(limit_range) for text in violations(limits, obj))
        if texts:
            raise forbidden(definition.group, definition.plural, obj, texts)


def _limit_ranges(cluster: Cluster, obj: Object) -> Iterator[Object]:
    """Yield the LimitRanges of the object's namespace, sorted by name."""
    collection = cluster.state.collection(LIMIT_RANGES)
    if collection.records:
        for key in collection.keys(obj["metadata"]["namespace"]):
            yield decode_object(collection.records[key].raw)


def _items(limit_range: Object) -> list[Mapping[str, Any]]:
    return (limit_range.get("spec") or {}).get("limits") or []


def _containers(pod: Object) -> Iterator[tuple[str, Object]]:
    """Yield each container with its type for messages: "container" or "init container"."""
    for container in pod["spec"].get("containers") or ():
        yield "container", container
    for container in pod["spec"].get("initContainers") or ():
        yield "init container", container


def _set_defaults(limit_range: Object, pod: Object) -> None:
    limits: Object = {}
    requests: Object = {}
    for item in _items(limit_range):
        if item.get("type") == "Container":
            limits.update(item.get("default") or {})
            requests.update(item.get("defaultRequest") or {})
    messages = []
    for kind, container in _containers(pod):
        resources = container.setdefault("resources", {})
        for part, defaults in (("requests", requests), ("limits", limits)):
            given = resources.get(part) or {}
            missing = {name: defaults[name] for name in sorted(defaults) if name not in given}
            if missing:
                resources[part] = {**given, **missing}
                messages.append(f"{', '.join(missing)} {part.removesuffix('s')} for {kind} {container.get('name', '')}")
    if messages:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: f"LimitRanger plugin set: {'; '.join(messages)}"}


def _pod_violations(limits: Mapping[str, Any], pod: Object) -> Iterator[str]:
    if limits.get("type") == "Container":
        for _, container in _containers(pod):
            resources = container.get("resources") or {}
            yield from _violations(
                limits, read_amounts(resources.get("requests")), read_amounts(resources.get("limits"))
            )
    elif limits.get("type") == "Pod":
        requests = pod_requests(pod, use_status=False, overhead=False, of_pod=_is_cpu_or_memory)
        yield from _violations(
            limits, requests, pod_limits(pod, use_status=False, overhead=False, of_pod=_is_cpu_or_memory)
        )


def _claim_violations(limits: Mapping[str, Any], claim: Object) -> Iterator[str]:
    """Yield the violations of a LimitRange item by a claim. A claim's requests are checked, its limits are not."""
    if limits.get("type") == "PersistentVolumeClaim":
        requests = read_amounts((claim["spec"].get("resources") or {}).get("requests"))
        yield from _check_bounds(limits, "min", lambda bound: _check_minimum(bound, requests, {}))
        yield from _check_bounds(limits, "max", lambda bound: _check_maximum_of_request(bound, requests))


def _violations(limits: Mapping[str, Any], requests: Amounts, given_limits: Amounts) -> Iterator[str]:
    yield from _check_bounds(limits, "min", lambda bound: _check_minimum(bound, requests, given_limits))
    yield from _check_bounds(limits, "max", lambda bound: _check_maximum(bound, requests, given_limits))
    yield from _check_bounds(limits, "maxLimitRequestRatio", lambda bound: _check_ratio(bound, requests, given_limits))


class _Bound(NamedTuple):
    """Minimum, maximum or ratio of a resource in an item of a LimitRange."""

    type: str  # of the item: Container, Pod or PersistentVolumeClaim
    name: str  # of the resource, such as cpu
    value: Quantity

    def __str__(self) -> str:
        return f"{self.name} usage per {self.type} is {self.value}"


def _check_bounds(limits: Mapping[str, Any], part: str, check: Callable[[_Bound], str]) -> Iterator[str]:
    amounts = read_amounts(limits.get(part))
    for name in sorted(amounts):
        text = check(_Bound(limits["type"], name, amounts[name]))
        if text:
            yield text


def _check_minimum(bound: _Bound, requests: Amounts, limits: Amounts) -> str:
    request, limit = requests.get(bound.name), limits.get(bound.name)
    asked, limited, least = _in_common_unit(request, limit, bound.value)
    if request is None:
        return f"minimum {bound}.  No request is specified"
    if asked < least:
        return f"minimum {bound}, but request is {request}"
    if limit is not None and limited < least:
        return f"minimum {bound}, but limit is {limit}"
    return ""


def _check_maximum(bound: _Bound, requests: Amounts, limits: Amounts) -> str:
    request, limit = requests.get(bound.name), limits.get(bound.name)
    asked, limited, most = _in_common_unit(request, limit, bound.value)
    if limit is None:
        return f"maximum {bound}.  No limit is specified"
    if limited > most:
        return f"maximum {bound}, but limit is {limit}"
    if request is not None and asked > most:
        return f"maximum {bound}, but request is {request}"
    return ""


def _check_maximum_of_request(bound: _Bound, requests: Amounts) -> str:
    request = requests.get(bound.name)
    asked, _, most = _in_common_unit(request, None, bound.value)
    if request is None:
        return f"maximum {bound}.  No request is specified"
    return f"maximum {bound}, but request is {request}" if asked > most else ""


def _check_ratio(bound: _Bound, requests: Amounts, limits: Amounts) -> str:
    asked, limited, _ = _in_common_unit(requests.get(bound.name), limits.get(bound.name), bound.value)
    message = f"{bound.name} max limit to request ratio per {bound.type} is {bound.value}"
    if asked == 0:
        return f"{message}, but no request is specified or request is 0"
    if limited == 0:
        return f"{message}, but no limit is specified or limit is 0"
    ratio = limited / asked
    if whole_value(bound.value.value) <= _MOST_MILLI:
        exceeded = ratio * 1000 > milli_value(bound.value.value)
    else:
        exceeded = ratio > whole_value(bound.value.value)
    return f"{message}, but provided ratio is {ratio:f}" if exceeded else ""


def _in_common_unit(request: Quantity | None, limit: Quantity | None, bound: Quantity) -> tuple[int, int, int]:
    """Return the request, the limit and the bound in a common unit: thousandths, or whole units if one is too large.

    A missing quantity is 0.
    """
    quantities = [ZERO.value if quantity is None else quantity.value for quantity in (request, limit, bound)]
    whole = [whole_value(quantity) for quantity in quantities]
    asked, limited, enforced = whole if max(whole) > _MOST_MILLI else [milli_value(quantity) for quantity in quantities]
    return asked, limited, enforced


def _is_cpu_or_memory(name: str) -> bool:
    return name in ("cpu", "memory")
