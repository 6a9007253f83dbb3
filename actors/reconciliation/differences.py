"""What an object lacks of what is wanted of it, as a merge patch (RFC 7386): pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcm.protocols.objects import Object
from kcm.protocols.quantities import parse_quantity

# Fields whose values, or whose maps' values, are quantities: the server writes "1000m" as "1".
_QUANTITIES = frozenset(
    {
        "capacity",
        "default",
        "defaultRequest",
        "divisor",
        "hard",
        "limits",
        "max",
        "maxLimitRequestRatio",
        "min",
        "overhead",
        "requests",
        "sizeLimit",
    }
)
# Maps that the server leaves out where they are empty.
_MAPS_OF_TEXT = frozenset({"annotations", "binaryData", "data", "labels", "matchLabels", "nodeSelector", "stringData"})
_NOTHING: Final = object()


def differences(wanted: Mapping[str, Any], present: Mapping[str, Any]) -> Object:
    """What to merge into `present` so that it is as `wanted` says; empty where it is so already.

    Maps are compared field by field: what `wanted` does not name counts as it is. None: the field is not to be there.
    A list is wanted as a whole: the same length and order; of its maps too only what `wanted` names is compared, as the
    server fills in defaults. An empty list is no list, and quantities are compared by value.
    """
    found = _difference(wanted, present, quantity=False)
    return {} if found is _NOTHING else found


def without_none(value: Any) -> Any:
    """A copy without the fields that are None, as an object is created."""
    if isinstance(value, Mapping):
        return {name: without_none(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [without_none(each) for each in value]
    return value


def _difference(wanted: Any, present: Any, *, quantity: bool) -> Any:
    """What to write; _NOTHING where it is there."""
    if wanted is None:
        return _NOTHING if present is None else None
    if isinstance(wanted, Mapping):
        return _of_maps(wanted, present, quantity=quantity)
    if isinstance(wanted, list | tuple):
        is_there = not wanted and present is None
        return _NOTHING if is_there or _has_all(present, wanted) else without_none(wanted)
    if type(wanted) is type(present) or not (isinstance(wanted, bool) or isinstance(present, bool)):
        if wanted == present or (quantity and _same_quantity(wanted, present)):
            return _NOTHING
    return wanted


def _of_maps(wanted: Mapping[str, Any], present: Any, *, quantity: bool) -> Any:
    if not isinstance(present, dict):
        rest = without_none(wanted)
        # A map of nothing but None is not wanted for its own sake.
        return _NOTHING if wanted and not rest and present is None else rest
    found = {}
    for name, value in wanted.items():
        if value == {} and name in _MAPS_OF_TEXT:
            continue
        each = _difference(value, present.get(name), quantity=quantity or name in _QUANTITIES)
        if each is not _NOTHING:
            found[name] = each
    return found or _NOTHING


def _has_all(present: Any, wanted: list[Any] | tuple[Any, ...]) -> bool:
    if not isinstance(present, list) or len(present) != len(wanted):
        return False
    return all(_difference(one, other, quantity=False) is _NOTHING for one, other in zip(wanted, present, strict=True))


def _same_quantity(one: Any, other: Any) -> bool:
    try:
        return parse_quantity(one) == parse_quantity(other)
    except (TypeError, ValueError, AttributeError):
        return False
