"""Amounts: how much of each resource, as a ResourceList has it.

Source: kubernetes v1.36 staging/src/k8s.io/apiserver/pkg/quota/v1/resources.go; apimachinery pkg/api/resource,
Quantity.Add and Sub.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.quantities import Quantity, read_quantity

Amounts = Mapping[str, Quantity]

_EXACT = Context(prec=400)  # digits: more than any sum of quantities has
ZERO = Quantity(Decimal(0))
ONE = Quantity(Decimal(1))


def count(number: int) -> Quantity:
    return Quantity(Decimal(number))


def read_amounts(resources: Any) -> dict[str, Quantity]:
    """A ResourceList of an object. None has none. Raises ValueError on what is no map of quantities."""
    if resources is None:
        return {}
    if not isinstance(resources, dict):
        raise ValueError(f"expected a map of quantities, got {resources!r}")
    return {name: read_quantity(quantity) for name, quantity in resources.items()}


def written(amounts: Amounts) -> Object:
    """As a ResourceList, in the order of names."""
    return {name: str(amounts[name]) for name in sorted(amounts)}


def plus(one: Quantity, other: Quantity) -> Quantity:
    """The sum has the first one's format, but the other's where the first is 0."""
    return Quantity(_EXACT.add(one.value, other.value), other.form if one.value == 0 else one.form)


def minus(one: Quantity, other: Quantity) -> Quantity:
    return Quantity(_EXACT.subtract(one.value, other.value), other.form if one.value == 0 else one.form)


def repeated(amounts: Amounts, times: int) -> dict[str, Quantity]:
    """So many times as much of each."""
    return {name: Quantity(_EXACT.multiply(one.value, times), one.form) for name, one in amounts.items()}


def add(one: Amounts, other: Amounts) -> dict[str, Quantity]:
    return _combined(one, other, plus)


def highest(one: Amounts, other: Amounts) -> dict[str, Quantity]:
    """Of each resource the larger amount."""
    return _combined(one, other, lambda a, b: b if b.value > a.value else a)


def _combined(one: Amounts, other: Amounts, both: Callable[[Quantity, Quantity], Quantity]) -> dict[str, Quantity]:
    result = dict(one)
    for name, quantity in other.items():
        result[name] = both(result[name], quantity) if name in result else quantity
    return result


def growth(before: Amounts, after: Amounts) -> dict[str, Quantity]:
    """What is more than before, of all resources of both; 0 where it is less."""
    result = {}
    for name in {**after, **before}:
        more = minus(after.get(name, ZERO), before[name]) if name in before else after[name]
        result[name] = more if more.value > 0 else ZERO
    return result


def masked(amounts: Amounts, names: Iterable[str]) -> dict[str, Quantity]:
    """Those of these names."""
    wanted = frozenset(names)
    return {name: quantity for name, quantity in amounts.items() if name in wanted}


def without_zeros(amounts: Amounts) -> dict[str, Quantity]:
    return {name: quantity for name, quantity in amounts.items() if quantity.value != 0}


def equal(one: Amounts, other: Amounts) -> bool:
    """Whether they are the same, whatever their formats."""
    return one.keys() == other.keys() and all(quantity.value == other[name].value for name, quantity in one.items())


def exceeding(amounts: Amounts, limits: Amounts) -> list[str]:
    """The names of which there is more than the limit, in order. What has no limit does not exceed it."""
    return sorted(name for name, one in amounts.items() if name in limits and one.value > limits[name].value)


def negative(amounts: Amounts) -> list[str]:
    """The names of which there is less than nothing, in order."""
    return sorted(name for name, quantity in amounts.items() if quantity.value < 0)


def in_words(amounts: Amounts) -> str:
    """As refusals name them: "cpu=100m,memory=1Gi"."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))
