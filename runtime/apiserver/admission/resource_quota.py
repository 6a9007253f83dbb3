"""ResourceQuota: add the usage of new and growing objects to the quotas of their namespace.

The object and the changed quotas are stored in one commit, and requests are executed one at a time. Concurrent writers
therefore cannot exceed a quota, and a request that fails is not charged.

A quota without limits in its status limits nothing, because the resourcequota controller has not initialized it yet. A
quota whose status has a limit but no usage for it rejects all requests that it covers.

Source: apiserver pkg/admission/plugin/resourcequota/{admission,controller}.go (v1.36). Difference: upstream writes the
usage before the object, which needs retries on conflicts and leaves charges of requests that fail later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kcm.protocols.objects import Key, Object, decode_object, name_of
from kcm.protocols.quantities import Quantity
from kcm.protocols.quota import resource_claims
from kcm.protocols.quota.amounts import (
    Amounts,
    add,
    exceeding,
    growth,
    in_words,
    masked,
    negative,
    read_amounts,
    without_zeros,
    written,
)
from kcm.protocols.quota.evaluators import IGNORED, Evaluator
from kcm.protocols.quota.pods import Pods
from kcm.protocols.quota.resource_claims import DeviceClasses, ResourceClaims
from kcm.protocols.quota.scopes import scopes_of
from kcm.protocols.quota.services import Services
from kcm.protocols.quota.volume_claims import VolumeClaims
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.registry.admission_settings import LimitedResource
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

QUOTAS = "resourcequotas"
STATUS = "status"
DEVICE_CLASSES = "deviceclasses.resource.k8s.io"


class QuotaRequest(NamedTuple):
    """Creation or update to check against the quotas of its namespace."""

    definition: ResourceDefinition
    operation: str  # CREATE or UPDATE
    subresource: str
    new: Object
    old: Object | None = None  # the object that an update replaces


class Charge(NamedTuple):
    """Change of a ResourceQuota by a request."""

    key: Key
    quota: Object  # with the usage after the request


def admit(cluster: Cluster, request: QuotaRequest) -> list[Charge]:
    """Check a request against the quotas, and return the changed quotas, without storing them.

    Raises StatusError: 403 if a quota would be exceeded.
    """
    quotas, limited = cluster.state.collection(QUOTAS), cluster.settings.admission.limited
    if not request.definition.namespaced or not (quotas.records or limited):
        return []
    keys = quotas.keys(request.new["metadata"]["namespace"])
    resource = request.definition.name
    if not (keys or limited) or resource in IGNORED:
        return []
    evaluator = _evaluator(cluster, resource)
    if not evaluator.handles(request.operation, request.subresource, request.new, request.old):
        return []
    stored = [(key, decode_object(quotas.records[key].raw)) for key in keys]
    covering = _covering_quotas(evaluator, request, stored)
    if not covering and not limited:
        return []
    used = evaluator.usage(request.new)
    below_zero = negative(used)
    if below_zero:
        raise _forbidden(request, f"quota usage is negative for resource(s): {','.join(below_zero)}")
    before = {} if request.old is None else evaluator.usage(request.old)
    grown = {}
    for key, quota in covering:
        counted_before = request.old is not None and _covers(evaluator, quota, request.old)
        grown[key] = without_zeros(growth(before, used) if counted_before else used)
    if limited and any(grown.values() if covering else without_zeros(growth(before, used))):
        _check_limited(evaluator, request, limited, used, stored, covering)
    charges = (_charge(request, key, quota, grown[key]) for key, quota in covering)
    return [change for change in charges if change is not None]


def charge(cluster: Cluster, charges: Iterable[Charge]) -> None:
    """Store the changed quotas. Must be called in the commit that stores the object."""
    for change in charges:
        cluster.state.put(QUOTAS, change.key, change.quota)


def _covering_quotas(
    evaluator: Evaluator, request: QuotaRequest, quotas: Iterable[tuple[Key, Object]]
) -> list[tuple[Key, Object]]:
    """Return the quotas that cover the object.

    Raises StatusError (403) if the object does not set a resource that a quota limits, or if a quota has no usage yet.
    """
    found = []
    for key, quota in quotas:
        if not _covers(evaluator, quota, request.new):
            continue
        names = evaluator.matching(_limits(quota))
        lacking = evaluator.lacks(request.new, names)
        if lacking:
            raise _forbidden(request, f"failed quota: {name_of(quota)}: {lacking}")
        if not names <= (_status(quota).get("used") or {}).keys():
            raise _forbidden(
                request, f"status unknown for quota: {name_of(quota)}, resources: {','.join(sorted(names))}"
            )
        found.append((key, quota))
    return found


def _check_limited(
    evaluator: Evaluator,
    request: QuotaRequest,
    limited: Iterable[LimitedResource],
    used: Amounts,
    quotas: Iterable[tuple[Key, Object]],
    covering: Iterable[tuple[Key, Object]],
) -> None:
    """Check that quotas cover all resources that may not be consumed without a quota (limitedResources).

    limited: these resources and scopes, from the admission configuration
    used: usage of the new object
    quotas: all quotas of the namespace
    covering: the quotas that cover the object

    Raises StatusError.
    """
    definition = request.definition
    texts = [
        text
        for resource in limited
        if resource[:2] == (definition.group, definition.plural)
        for text in resource.contains
    ]
    needed = {name for name, amount in used.items() if amount.value > 0 and any(text in name for text in texts)}
    covered = {name for _, quota in covering for name in evaluator.matching(_limits(quota))}
    if needed - covered:
        raise _forbidden(request, f"insufficient quota to consume: {','.join(sorted(needed - covered))}")
    met = {scope.name for _, quota in quotas for scope in scopes_of(quota) if evaluator.meets(request.new, scope)}
    uncovered = [
        scope
        for resource in limited
        for scope in resource.scopes
        if scope.name not in met and evaluator.meets(request.new, scope)
    ]
    if uncovered:
        shown = " ".join(f"{{{scope.name} {scope.operator} [{' '.join(scope.values)}]}}" for scope in uncovered)
        raise status_errors.without_reason(f"insufficient quota to match these scopes: [{shown}]")


def _covers(evaluator: Evaluator, quota: Object, obj: Object) -> bool:
    if not evaluator.matching(_limits(quota)):
        return False
    return all(evaluator.meets(obj, scope) for scope in scopes_of(quota))


def _charge(request: QuotaRequest, key: Key, quota: Object, more: Amounts) -> Charge | None:
    """Return the quota with the additional usage; None if it limits none of the resources.

    more: additional usage by resource

    Raises StatusError (403) if the quota would be exceeded.
    """
    hard, used = read_amounts(_limits(quota)), read_amounts(_status(quota).get("used"))
    added = masked(more, hard)
    if not added:
        return None
    after = add(used, added)
    too_much = exceeding(masked(after, added), hard)
    if too_much and request.subresource != STATUS:  # A status records resources that are already granted.
        requested, limited = in_words(masked(added, too_much)), in_words(masked(hard, too_much))
        words = f"requested: {requested}, used: {in_words(masked(used, too_much))}, limited: {limited}"
        raise _forbidden(request, f"exceeded quota: {name_of(quota)}, {words}")
    return Charge(key, {**quota, "status": {**_status(quota), "used": _updated_usage(quota, after, added)}})


def _updated_usage(quota: Object, after: dict[str, Quantity], changed: Amounts) -> Object:
    """Return status.used with the changed amounts. All other amounts keep their notation ("1000m", "1")."""
    return {**(_status(quota).get("used") or {}), **written(masked(after, changed))}


def _status(quota: Object) -> Object:
    return quota.get("status") or {}


def _limits(quota: Object) -> Object:
    return _status(quota).get("hard") or {}


def _forbidden(request: QuotaRequest, because: str) -> Exception:
    return forbidden(request.definition.group, request.definition.plural, request.new, because)


def _evaluator(cluster: Cluster, resource: str) -> Evaluator:
    match resource:
        case "pods":
            return Pods(cluster.clock.now)
        case "services":
            return Services()
        case "persistentvolumeclaims":
            return VolumeClaims()
        case resource_claims.RESOURCE:
            return ResourceClaims(_StoredObjects(cluster))
    return Evaluator(resource)


class _StoredObjects:
    """Reader of the stored objects that the evaluator of ResourceClaims needs: device classes, pods and claims."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._classes: DeviceClasses | None = None

    def now(self) -> float:
        return self._cluster.clock.now()

    def device_classes(self) -> DeviceClasses:
        if self._classes is None:
            self._classes = DeviceClasses(self._cluster.state.objects(DEVICE_CLASSES))
        return self._classes

    def pod(self, namespace: str, name: str) -> Object | None:
        record = self._cluster.state.get("pods", f"{namespace}/{name}")
        return None if record is None else decode_object(record.raw)

    def claims(self, namespace: str) -> Iterable[Object]:
        collection = self._cluster.state.collection(resource_claims.RESOURCE)
        return (decode_object(collection.records[key].raw) for key in collection.keys(namespace))
