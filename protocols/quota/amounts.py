"""Amounts: quantities by resource name, as in a ResourceList.

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
    """Parse a ResourceList; None is an empty one. Raises ValueError if it is not a map of quantities."""
    if resources is None:
        return {}
    if not isinstance(resources, dict):
        raise ValueError(f"expected a map of quantities, got {resources!r}")
    return {name: read_quantity(quantity) for name, quantity in resources.items()}


def written(amounts: Amounts) -> Object:
    """Format as a ResourceList, sorted by name."""
    return {name: str(amounts[name]) for name in sorted(amounts)}


def plus(first: Quantity, other: Quantity) -> Quantity:
    """Return the sum in the format of the first quantity, or of the second if the first is 0, as upstream."""
    return Quantity(_EXACT.add(first.value, other.value), other.form if first.value == 0 else first.form)


def minus(first: Quantity, other: Quantity) -> Quantity:
    return Quantity(_EXACT.subtract(first.value, other.value), other.form if first.value == 0 else first.form)


def repeated(amounts: Amounts, times: int) -> dict[str, Quantity]:
    """Multiply each amount."""
    return {name: Quantity(_EXACT.multiply(amount.value, times), amount.form) for name, amount in amounts.items()}


def add(first: Amounts, other: Amounts) -> dict[str, Quantity]:
    return _combined(first, other, plus)


def highest(first: Amounts, other: Amounts) -> dict[str, Quantity]:
    """Return the larger amount of each resource."""
    return _combined(first, other, lambda a, b: b if b.value > a.value else a)


def _combined(first: Amounts, other: Amounts, both: Callable[[Quantity, Quantity], Quantity]) -> dict[str, Quantity]:
    result = dict(first)
    for name, quantity in other.items():
        result[name] = both(result[name], quantity) if name in result else quantity
    return result


def growth(before: Amounts, after: Amounts) -> dict[str, Quantity]:
    """Return the increase of each resource in either argument; 0 for a decrease."""
    result = {}
    for name in {**after, **before}:
        more = minus(after.get(name, ZERO), before[name]) if name in before else after[name]
        result[name] = more if more.value > 0 else ZERO
    return result


def masked(amounts: Amounts, names: Iterable[str]) -> dict[str, Quantity]:
    wanted = frozenset(names)
    return {name: quantity for name, quantity in amounts.items() if name in wanted}


def without_zeros(amounts: Amounts) -> dict[str, Quantity]:
    return {name: quantity for name, quantity in amounts.items() if quantity.value != 0}


def equal(first: Amounts, other: Amounts) -> bool:
    """Compare by value, regardless of the format."""
    return first.keys() == other.keys() and all(quantity.value == other[name].value for name, quantity in first.items())


def exceeding(amounts: Amounts, limits: Amounts) -> list[str]:
    """Return the sorted names whose amount exceeds the limit. Names without a limit are ignored."""
    return sorted(name for name, amount in amounts.items() if name in limits and amount.value > limits[name].value)


def negative(amounts: Amounts) -> list[str]:
    """Return the sorted names of negative amounts."""
    return sorted(name for name, quantity in amounts.items() if quantity.value < 0)


def in_words(amounts: Amounts) -> str:
    """Format for error messages: "cpu=100m,memory=1Gi"."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))
