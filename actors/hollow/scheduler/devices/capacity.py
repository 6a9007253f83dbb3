"""Consumable capacity: how much of a device's capacity a request consumes, and whether that much is left.

Source: kubernetes v1.36 staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/
consumable_capacity.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from kcm.protocols.quantities import Quantity, QuantityFormat, read_quantity

Consumed = Mapping[str, Decimal]  # by the name of the capacity


def has_room(
    capacity: Mapping[str, Any], requested: Mapping[str, Any], *, consumed: Consumed, allocating: Consumed
) -> bool:
    """Report whether a device has enough capacity left for a request.

    capacity: the device's capacity, by name.
    requested: the requested quantities, by name.
    consumed: consumed by existing allocations.
    allocating: consumed by the allocation that is being determined.
    """
    if any(name not in capacity for name in requested):
        return False
    for name, amount in capacity.items():
        needed = consumption(amount, requested.get(name))
        if _violates(needed.value, amount.get("requestPolicy")):
            return False
        total = needed.value + consumed.get(name, Decimal(0)) + allocating.get(name, Decimal(0))
        if total > read_quantity(amount.get("value") or "0").value:
            return False
    return True


def consumptions(capacity: Mapping[str, Any], requested: Mapping[str, Any]) -> dict[str, Quantity]:
    """Return what a request consumes of each capacity."""
    return {name: consumption(amount, requested.get(name)) for name, amount in capacity.items()}


def consumption(capacity: Mapping[str, Any], requested: Any) -> Quantity:
    """Return what a request consumes of a capacity: the request rounded up as its policy requires.

    Without a request this is the policy's default, or the whole capacity.
    """
    policy = capacity.get("requestPolicy") or {}
    if requested is None:
        default = policy.get("default")
        return read_quantity(capacity.get("value") or "0" if default is None else default)
    wanted = read_quantity(requested)
    valid = policy.get("validRange") or {}
    if valid.get("min") is not None:
        least = read_quantity(valid["min"])
        if wanted.value < least.value:
            return least
        if valid.get("step") is None:
            return wanted
        start, step = _whole(least.value), _whole(read_quantity(valid["step"]).value)
        steps = -(-(_whole(wanted.value) - start) // step)
        return Quantity(Decimal(start + step * steps), QuantityFormat.BINARY_SI)
    for value in policy.get("validValues") or ():
        known = read_quantity(value)
        if wanted.value <= known.value:
            return known
    return wanted


def _violates(amount: Decimal, policy: Mapping[str, Any] | None) -> bool:
    if not policy or (policy.get("default") is not None and amount == read_quantity(policy["default"]).value):
        return False
    valid = policy.get("validRange")
    if valid is not None:
        if valid.get("max") is not None and amount > read_quantity(valid["max"]).value:
            return True
        if valid.get("step") is None:
            return False
        start = _whole(read_quantity(valid.get("min") or "0").value)
        return bool((_whole(amount) - start) % _whole(read_quantity(valid["step"]).value))
    values = policy.get("validValues") or ()
    return bool(values) and all(amount != read_quantity(value).value for value in values)


def _whole(amount: Decimal) -> int:
    """Return the amount as an integer, rounded up."""
    return int(amount.to_integral_value(rounding="ROUND_CEILING"))
