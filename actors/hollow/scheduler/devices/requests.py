"""Requests and constraints of ResourceClaims.

Source: kubernetes v1.36 staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/
{allocator_incubating,constraint}.go, resourceclaim/devicetoleration.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from kcm.actors.hollow.scheduler.devices.inventory import Device, DeviceId, Pool
from kcm.protocols.objects import Object, key_of


class AllocationError(Exception):
    """The claims cannot be allocated on any node, because a claim, class or slice is invalid."""


class NodeAllocationError(Exception):
    """The claims cannot be allocated on this node."""


class DeviceRequest(Struct, eq=False):
    """Request for devices of a ResourceClaim: an `exactly` request, or one alternative of a `firstAvailable` request.

    claim: index of the claim among those that are allocated together.
    name: name of the request, or of the alternative.
    parent: name of the request whose alternative it is, or "".
    demand: the `exactly` of a request, or the alternative.
    number: number of devices to allocate.
    every: all devices that match, if the allocation mode is All; otherwise None.
    chosen: index of the chosen alternative; set for the first alternative of a request.
    selectors: expressions, each with the text that names it in errors.
    selectable: cached result for each device: whether the selectors match it and it is usable on the node.
    """

    claim: int
    name: str
    parent: str
    demand: Mapping[str, Any]
    device_class: Object
    selectors: Sequence[tuple[str, str]]
    number: int = 0
    every: list[Candidate] | None = None
    chosen: int = 0
    selectable: dict[DeviceId, bool] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def is_admin(self) -> bool:
        return bool(self.demand.get("adminAccess")) and not self.parent

    @property
    def capacities(self) -> Mapping[str, Any]:
        return (self.demand.get("capacity") or {}).get("requests") or {}

    def tolerates(self, taint: Mapping[str, Any]) -> bool:
        return any(tolerates(toleration, taint) for toleration in self.demand.get("tolerations") or ())

    def selects(self, device: Device) -> bool:
        """Report whether all selectors match. Raises AllocationError."""
        return all(_matches(device, where, text) for where, text in self.selectors)


class Candidate(Struct, eq=False):
    device: Device
    pool: Pool


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Report whether a toleration of a request tolerates a device taint. Its tolerationSeconds are ignored."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    same = (toleration.get("value") or "") == (taint.get("value") or "")
    return operator == "Exists" or (operator == "Equal" and same)


class Constraint:
    """Constraint on an attribute of the devices of a claim: equal values (match), or different ones."""

    def __init__(self, attribute: str, requests: Sequence[str], *, match: bool) -> None:
        self._attribute, self._requests, self._match = attribute, frozenset(requests), match
        self._count = 0
        self._first: tuple[str, Any] | None = None
        self._values: dict[str, tuple[str, Any]] = {}  # by request; upstream keeps only the last value of a request

    def add(self, request: DeviceRequest, device: Device) -> bool:
        """Report whether the device fits, and count it if it does."""
        if not self._concerns(request):
            return True
        value = attribute_of(device, self._attribute)
        if value is None:
            return False
        if self._match:
            if self._count == 0:
                self._first = value
            elif value[0] == "" or value != self._first:
                return False
        elif self._count > 0 and (value[0] == "" or value in self._values.values()):
            return False
        self._values[request.parent or request.name] = value
        self._count += 1
        return True

    def remove(self, request: DeviceRequest) -> None:
        if self._concerns(request):
            self._values.pop(request.parent or request.name, None)
            self._count -= 1

    def _concerns(self, request: DeviceRequest) -> bool:
        names = self._requests
        return not names or request.full_name in names or (request.parent or request.name) in names


def attribute_of(device: Device, name: str) -> tuple[str, Any] | None:
    """Return the type and the value of an attribute by its qualified name; None if the device does not have it.

    The type is "" if it is unknown.
    """
    attributes = device.raw.get("attributes") or {}
    found = attributes.get(name)
    if found is None:
        domain, slash, id_ = name.partition("/")
        if not slash or domain != device.id.driver:
            return None
        found = attributes.get(id_)
        if found is None:
            return None
    for kind in ("string", "int", "bool", "version"):
        if found.get(kind) is not None:
            return kind, found[kind]
    return "", None


def constraints_of(claim: Object, constraints: Sequence[Mapping[str, Any]]) -> Iterator[Constraint]:
    for number, constraint in enumerate(constraints):
        for kind in ("matchAttribute", "distinctAttribute"):
            if constraint.get(kind) is not None:
                yield Constraint(constraint[kind], constraint.get("requests") or (), match=kind == "matchAttribute")
                break
        else:
            raise AllocationError(
                f"claim {key_of(claim)}, constraint #{number}: empty constraint (unsupported constraint type?)"
            )


def selectors_of(whose: str, of: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each expression, with the text that names its selector in errors."""
    for number, selector in enumerate(of.get("selectors") or ()):
        yield f"{whose}: selector #{number}", (selector.get("cel") or {}).get("expression") or ""


def _matches(device: Device, where: str, text: str) -> bool:
    known = device.matched.get(text)
    if known is None:
        from kcm.runtime.cel.devices import SelectorError, compiled_selector, device_variable

        selector = compiled_selector(text)
        if selector.problem is not None:
            raise AllocationError(f"{where}: CEL compile error: {selector.problem}")
        try:
            if device.variable is None:
                device.variable = device_variable(device.id.driver, device.raw)
            known = device.matched[text] = selector.matches(device.variable)
        except SelectorError as err:
            raise AllocationError(f"{where}: CEL runtime error: {err}") from err
    return known
