"""Evaluator of ResourceClaims, which counts claims, and devices by class.

A container may request devices by an extended resource that a DeviceClass names. The scheduler then creates a claim for
the pod; the devices that the pod already counts are not counted again for this claim.

Source: kubernetes v1.36 pkg/quota/v1/evaluator/core/resource_claims.go,
staging/src/k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache. Difference: the choice between
several classes with one extended resource depends on the classes alone, not on the order of their events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from kcm.protocols.objects import Object, annotations_of, controller_of, metadata, name_of, namespace_of, uid_of
from kcm.protocols.quantities import Quantity
from kcm.protocols.quota.amounts import ONE, ZERO, Amounts, count, highest, minus, plus
from kcm.protocols.quota.evaluators import CREATE, UPDATE, Evaluator
from kcm.protocols.quota.names import DEVICE_CLASS, REQUESTS, count_of, is_request_of_extended
from kcm.protocols.quota.pods import pod_usage

RESOURCE = "resourceclaims.resource.k8s.io"
OF_CLASS = ".deviceclass.resource.k8s.io/devices"
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
MOST_DEVICES = 32  # of one allocation; counted for the mode "All"


class DeviceClasses:
    """DeviceClasses and their extended resources."""

    def __init__(self, classes: Iterable[Object] = ()) -> None:
        self._extended: dict[str, str] = {}  # by the class's name
        self._known: set[str] = set()  # resource names by which a container can request devices
        for device_class in classes:
            self._known.add(DEVICE_CLASS + name_of(device_class))
            extended = (device_class.get("spec") or {}).get("extendedResourceName")
            if extended:
                self._extended[name_of(device_class)] = extended
                self._known.add(extended)

    def extended_resource(self, device_class: str) -> str:
        """Return the extended resource of a DeviceClass, or ""."""
        return self._extended.get(device_class, "")

    def has(self, extended_resource: str) -> bool:
        """Report whether a DeviceClass has this extended resource."""
        return extended_resource in self._known


class ClaimContext(Protocol):
    """Access to the other objects that the usage of a ResourceClaim depends on."""

    def now(self) -> float:
        """Return Unix seconds."""

    def device_classes(self) -> DeviceClasses: ...

    def pod(self, namespace: str, name: str) -> Object | None: ...

    def claims(self, namespace: str) -> Iterable[Object]:
        """Return all ResourceClaims of a namespace."""


class ResourceClaims(Evaluator):
    needs_objects = True

    def __init__(self, context: ClaimContext) -> None:
        super().__init__(RESOURCE)
        self._context = context

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        classes: DeviceClasses | None = None
        found = set()
        for name in names:
            if name == count_of(RESOURCE) or name.endswith(OF_CLASS):
                found.add(name)
            elif is_request_of_extended(name):
                classes = self._context.device_classes() if classes is None else classes
                if classes.has(name.removeprefix(REQUESTS)):
                    found.add(name)
        return frozenset(found)

    def usage(self, obj: Object, /) -> Amounts:
        used = {count_of(RESOURCE): ONE}
        for request in ((obj.get("spec") or {}).get("devices") or {}).get("requests") or ():
            for name, quantity in _devices(request).items():
                used[name] = plus(used.get(name, ZERO), quantity)
        used.update(self._extended(used, obj))
        return used

    def handles(self, operation: str, subresource: str, _new: Object, _old: Object | None, /) -> bool:
        return operation in (CREATE, UPDATE) and not subresource

    def _extended(self, devices: Amounts, claim: Object) -> dict[str, Quantity]:
        """Return the devices by extended resource, without those that the pod counts."""
        classes = self._context.device_classes()
        of_pod: Amounts | None = None
        found: dict[str, Quantity] = {}
        for name, quantity in devices.items():
            device_class = name.removesuffix(OF_CLASS)
            if device_class in ("", name):
                continue
            if of_pod is None:
                of_pod = self._counted_by_pod(claim)
            extended = classes.extended_resource(device_class)
            for other in (DEVICE_CLASS + device_class, *((extended,) if extended else ())):
                rest = minus(quantity, of_pod.get(REQUESTS + other, ZERO))
                if rest.value > 0:
                    found[REQUESTS + other] = rest
        return found

    def _counted_by_pod(self, claim: Object) -> Amounts:
        """Return the usage of the pod for which the claim was created, or nothing if that is uncertain."""
        owner = _pod_of(claim)
        if owner is None:
            return {}
        name, uid = owner
        pod = self._context.pod(namespace_of(claim), name)
        if pod is None or uid_of(pod) != uid:
            return {}
        status = (pod.get("status") or {}).get("extendedResourceClaimStatus")
        if status is not None and status.get("resourceClaimName") != name_of(claim):
            return {}
        if status is None:
            others = (other for other in self._context.claims(namespace_of(claim)) if _pod_of(other) == owner)
            if any(_age(other) < _age(claim) for other in others):
                return {}
        return pod_usage(pod, self._context.now())


def _devices(request: Mapping[str, Any]) -> dict[str, Quantity]:
    """Return the devices by resource name; of alternatives, the largest number of each class."""
    alternatives = request.get("firstAvailable")
    if alternatives:
        most: dict[str, Quantity] = {}
        for alternative in alternatives:
            most = highest(most, {(alternative.get("deviceClassName") or "") + OF_CLASS: _number(alternative)})
        return {name: quantity for name, quantity in most.items() if quantity.value > 0}
    exactly = request.get("exactly")
    return {} if exactly is None else {(exactly.get("deviceClassName") or "") + OF_CLASS: _number(exactly)}


def _number(request: Mapping[str, Any]) -> Quantity:
    match request.get("allocationMode"):
        case "ExactCount":
            return count(request.get("count") or 0)
        case "All":
            return count(MOST_DEVICES)
    return ZERO  # a mode of a later release


def _pod_of(claim: Object) -> tuple[str, str] | None:
    """Return (name, uid) of the pod for whose extended resources the claim was created, or None."""
    if annotations_of(claim).get(EXTENDED_CLAIM) != "true":
        return None
    owner = controller_of(claim)
    return (owner.name, owner.uid) if owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod") else None


def _age(claim: Object) -> tuple[str, str]:
    """Return a sort key, the oldest claim first; RFC 3339 in UTC sorts as text."""
    return metadata(claim).get("creationTimestamp") or "", name_of(claim)
