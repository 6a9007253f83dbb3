"""JSON patches from two states of an object, and changes of models carried over to the whole object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kcm.protocols.objects import Object

_MISSING: Final = object()


def json_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Object]:
    """Return the operations of a JSON patch (RFC 6902) that changes `before` into `after`; empty if they are equal.

    Maps are compared field by field. A list that differs is replaced as a whole: positions in a list are not stable
    when several webhooks change it.
    """
    return list(_operations(before, after, ""))


def _operations(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[Object]:
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
    for name, value in after.items():
        present = before.get(name, _MISSING)
        place = f"{path}/{_escaped(name)}"
        if present is _MISSING:
            yield {"op": "add", "path": place, "value": value}
        elif isinstance(present, Mapping) and isinstance(value, Mapping):
            yield from _operations(present, value, place)
        elif not _is_equal(present, value):
            yield {"op": "replace", "path": place, "value": value}


def _escaped(name: str) -> str:
    """Escape a name for a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def _is_equal(first: Any, second: Any) -> bool:
    """Compare JSON values. Unlike in Python, true is not 1."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(_is_equal(value, second[name]) for name, value in first.items())
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(_is_equal, first, second))
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


def carried_over(whole: Any, before: Any, after: Any) -> Any:
    """Return `whole` with the changes from `before` to `after`.

    A model lacks the fields that it does not define, and has defaults that the object lacks. So only what the function
    has changed in the model is changed in the object.

    whole: the object as the API server sent it.
    before: the object as its model writes it.
    after: the changed model, written in the same way.
    """
    if _is_equal(before, after):
        return whole
    if all(isinstance(value, Mapping) for value in (whole, before, after)):
        return _carried_over_map(whole, before, after)
    if all(isinstance(value, Sequence) and not isinstance(value, str) for value in (whole, before, after)):
        return _carried_over_list(whole, before, after)
    return after


def _carried_over_map(whole: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> Object:
    result = {name: value for name, value in whole.items() if name in after or name not in before}
    for name, value in after.items():
        if name not in before:
            result[name] = value
        elif not _is_equal(before[name], value):
            result[name] = carried_over(whole.get(name), before[name], value)
    return result


def _carried_over_list(whole: Sequence[Any], before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    """Carry changes of a list over. Elements correspond by their name, else by their value, else by their position."""
    if len(whole) != len(before):
        return list(after)
    places = {_name(value): place for place, value in enumerate(before)}
    has_names = None not in places and len(places) == len(before)
    result = []
    for place, value in enumerate(after):
        if has_names:
            origin = places.get(_name(value))
        else:
            origin = next((i for i, other in enumerate(before) if _is_equal(other, value)), None)
            if origin is None and len(after) == len(before):
                origin = place
        result.append(value if origin is None else carried_over(whole[origin], before[origin], value))
    return result


def _name(value: Any) -> str | None:
    name = value.get("name") if isinstance(value, Mapping) else None
    return name if isinstance(name, str) else None
