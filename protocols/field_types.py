"""Type checks of the fields of an object.

An API server guarantees the types. An older server, or a proxy, may not, and a controller's reaction to a string in
place of a number is undefined. So controllers check the fields first, and report the invalid one.

A shape is one of
    TEXT, FLAG, NUMBER, COUNT, TIME, QUANTITY, MAP
    {"name": shape, ...}    a map; other names are not checked
    [shape]                 a list
    CompiledShape(shape)    the same, checked faster; for shapes that many values are checked against
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import GenericAlias
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, ValidationError, convert, defstruct

from kcm.protocols.quantities import parse_quantity
from kcm.protocols.times import parse_time


class Kind(NamedTuple):
    """Type of a single value. words: completes "is ..." in the error."""

    words: str
    fits: Callable[[Any], bool]


class CompiledShape:
    """Shape with a type of msgspec that accepts the same values."""

    __slots__ = ("_type", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._type: Any = None

    def fits(self, value: Any) -> bool:
        """Report whether all types are correct."""
        if self._type is None:  # most programs check few of all shapes
            self._type = _type_of(self.shape)
        try:
            convert(value, self._type, dec_hook=_read)
        except (ValidationError, ValueError):
            return False
        return True


Shape = Kind | Mapping[str, Any] | list[Any] | CompiledShape


def _reads(read: Callable[[Any], object]) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        try:
            read(value)
        except ValueError:
            return False
        return True

    return fits


TEXT = Kind("a string", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("a number", lambda value: type(value) is int)
COUNT = Kind("a number from 0 on", lambda value: type(value) is int and value >= 0)
TIME = Kind("an RFC 3339 time", _reads(parse_time))
QUANTITY = Kind("a quantity", _reads(parse_quantity))
MAP = Kind("a map", lambda value: isinstance(value, dict))


class _Time:
    """Type of a TIME, for convert()."""


class _Quantity:
    """Type of a QUANTITY, for convert()."""


_TYPES: dict[Kind, Any] = {
    TEXT: str,
    FLAG: bool,
    NUMBER: int,
    COUNT: Annotated[int, Meta(ge=0)],
    TIME: _Time,
    QUANTITY: _Quantity,
    MAP: dict,
}
_A_TIME, _A_QUANTITY = _Time(), _Quantity()


def _read(kind: type, value: Any) -> object:
    """Check a value of a type that is not built into msgspec. Raises ValueError."""
    if kind is _Time:
        parse_time(value)
        return _A_TIME
    parse_quantity(value)
    return _A_QUANTITY


def _type_of(shape: Shape) -> Any:
    """Return the type whose values are of this shape."""
    if isinstance(shape, CompiledShape):
        return _type_of(shape.shape)
    if isinstance(shape, Kind):
        return _TYPES[shape]
    if isinstance(shape, list):
        return GenericAlias(list, (_type_of(shape[0]),))
    fields = [(f"f{number}", _type_of(inner) | None, None) for number, inner in enumerate(shape.values())]
    names = {f"f{number}": name for number, name in enumerate(shape)}
    return defstruct("Checked", fields, rename=names, gc=False)


class _Wrong(NamedTuple):
    """A value of another type. path: relative to the checked value. words: the expected type."""

    path: str
    words: str
    value: Any

    def within(self, path: str) -> _Wrong:
        return self._replace(path=path + self.path)


def check(value: Any, shape: Shape, at: str = "") -> None:
    """Check the types within a value.

    at: path of the value, for the error: "spec.template".
    Missing fields and nulls are accepted. Raises ValueError that names the first field of another type:
    "spec.rules[1].count is a number, got 'x'".
    """
    if isinstance(shape, CompiledShape) and shape.fits(value):
        return
    wrong = _wrong_in(value, shape)
    if wrong is not None:
        raise ValueError(f"{(at + wrong.path).removeprefix('.')} is {wrong.words}, got {wrong.value!r:.80}")


def _wrong_in(value: Any, shape: Shape) -> _Wrong | None:
    """Return the first value of another type. Paths are built on errors only, because errors are rare."""
    if isinstance(shape, CompiledShape):
        return _wrong_in(value, shape.shape)
    if isinstance(shape, Kind):
        return None if shape.fits(value) else _Wrong("", shape.words, value)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _Wrong("", "a list", value)
        for number, item in enumerate(value):
            wrong = _wrong_in(item, shape[0])
            if wrong is not None:
                return wrong.within(f"[{number}]")
        return None
    if not isinstance(value, dict):
        return _Wrong("", "a map", value)
    for name, inner in shape.items():
        found = value.get(name)
        if found is not None:
            wrong = _wrong_in(found, inner)
            if wrong is not None:
                return wrong.within(f".{name}")
    return None
