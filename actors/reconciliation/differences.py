"""Differences between a desired and a present object, as a merge patch (RFC 7386)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcm.protocols.objects import Object
from kcm.protocols.quantities import parse_quantity

# Fields whose values, or whose maps' values, are quantities: the server writes "1000m" as "1". A test compares them
# with the API types. "value" is missing, because it is a string in environment variables.
QUANTITY_FIELDS = frozenset(
    {
        "allocatable",
        "allocatedResources",
        "allocationMultiplier",
        "averageValue",
        "capacity",
        "consumedCapacity",
        "default",
        "defaultRequest",
        "divisor",
        "hard",
        "limits",
        "max",
        "maxLimitRequestRatio",
        "maximumVolumeSize",
        "min",
        "overhead",
        "podFixed",
        "requests",
        "sizeLimit",
        "step",
        "tolerance",
        "used",
    }
)
# Maps that the server omits if they are empty.
_MAPS_OF_TEXT = frozenset({"annotations", "binaryData", "data", "labels", "matchLabels", "nodeSelector", "stringData"})
_NOTHING: Final = object()


def differences(wanted: Mapping[str, Any], present: Mapping[str, Any]) -> Object:
    """Return the merge patch that changes `present` into `wanted`; empty if nothing differs.

    Maps are compared field by field, and fields that `wanted` does not name are ignored. None deletes a field. Lists
    must have the same length and order; in their maps, too, only the named fields are compared, because the server sets
    defaults. A missing list equals an empty list. Quantities are compared by value.
    """
    found = _difference(wanted, present, quantity=False)
    return {} if found is _NOTHING else found


def with_exact(wanted: Mapping[str, Any], present: Mapping[str, Any], paths: Sequence[str]) -> Object:
    """Return `wanted` with None for each key that only `present` has, in the maps at these paths ("spec.selector")."""
    for path in paths:
        wanted = _with_exact(wanted, present, path.split("."))
    return dict(wanted)


def _with_exact(wanted: Any, present: Any, path: Sequence[str]) -> Any:
    if not isinstance(present, Mapping) or not (wanted is None or isinstance(wanted, Mapping)):
        return wanted
    if not path:
        return {**dict.fromkeys(present), **(wanted or {})}
    name, rest = path[0], path[1:]
    return {**(wanted or {}), name: _with_exact((wanted or {}).get(name), present.get(name), rest)}


def without_none(value: Any) -> Any:
    """Return a copy without unset fields (None), for the creation of an object."""
    if isinstance(value, Mapping):
        return {name: without_none(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [without_none(each) for each in value]
    return value


def _difference(wanted: Any, present: Any, *, quantity: bool) -> Any:
    """Return the value to write, or _NOTHING if `present` has it."""
    if wanted is None:
        return _NOTHING if present is None else None
    if isinstance(wanted, Mapping):
        return _map_difference(wanted, present, quantity=quantity)
    if isinstance(wanted, list | tuple):
        is_there = not wanted and present is None
        return _NOTHING if is_there or _has_all(present, wanted) else without_none(wanted)
    if type(wanted) is type(present) or not (isinstance(wanted, bool) or isinstance(present, bool)):
        if wanted == present or (quantity and _same_quantity(wanted, present)):
            return _NOTHING
    return wanted


def _map_difference(wanted: Mapping[str, Any], present: Any, *, quantity: bool) -> Any:
    if not isinstance(present, dict):
        rest = without_none(wanted)
        # A map whose fields are all None need not exist.
        return _NOTHING if wanted and not rest and present is None else rest
    found = {}
    for name, value in wanted.items():
        if value == {} and name in _MAPS_OF_TEXT:
            continue
        each = _difference(value, present.get(name), quantity=quantity or name in QUANTITY_FIELDS)
        if each is not _NOTHING:
            found[name] = each
    return found or _NOTHING


def _has_all(present: Any, wanted: list[Any] | tuple[Any, ...]) -> bool:
    if not isinstance(present, list) or len(present) != len(wanted):
        return False
    return all(
        _difference(element, found, quantity=False) is _NOTHING for element, found in zip(wanted, present, strict=True)
    )


def _same_quantity(wanted: Any, present: Any) -> bool:
    try:
        return parse_quantity(wanted) == parse_quantity(present)
    except (TypeError, ValueError, AttributeError):
        return False
