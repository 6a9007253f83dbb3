"""Values of expressions, and the operations that all kinds of values have.

 bool, int, double, string, bytes, null, list, map  bool, int (64 bits), float, str, bytes, None, list, dict
 uint, duration, timestamp, optional, type          Uint, Duration, Timestamp, Optional, TypeValue
 a library's own                                    an Opaque

A DefaultMap is a map as well: access to a missing key returns an empty map.

Lists and maps are immutable; those of an object are shared with the object.

Source: cel-go common/types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from kcm.runtime.cel.effort import spend
from kcm.runtime.cel.errors import EvaluationError

Value = Any

LARGEST, SMALLEST, LARGEST_UINT = 2**63 - 1, -(2**63), 2**64 - 1


class Uint(int):
    """Unsigned 64-bit integer."""

    __slots__ = ()


class _Span:
    """Base of durations and timestamps, which are ordered by their nanoseconds."""

    __slots__ = ()
    nanoseconds: int

    def __lt__(self, other: _Span) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __le__(self, other: _Span) -> bool:
        return self.nanoseconds <= other.nanoseconds

    def __gt__(self, other: _Span) -> bool:
        return self.nanoseconds > other.nanoseconds

    def __ge__(self, other: _Span) -> bool:
        return self.nanoseconds >= other.nanoseconds


class Duration(_Span, Struct, frozen=True):  # the comparisons of _Span, not of Struct
    nanoseconds: int


class Timestamp(_Span, Struct, frozen=True):  # the comparisons of _Span, not of Struct
    """A time. nanoseconds: since 1970 in UTC, may be negative."""

    nanoseconds: int


class TypeValue(Struct, frozen=True):
    name: str


class Optional(Struct, frozen=True):
    present: bool
    value: Value = None


NOTHING = Optional(present=False)


class Opaque:
    """Base class of values of a library. type_name: name of the CEL type."""

    __slots__ = ()
    type_name: str = ""

    def cel_equals(self, other: Value) -> bool:
        return bool(self == other)


class SetList(list[Value]):
    """List with x-kubernetes-list-type set: equality ignores the order, and `+` only adds missing elements."""

    __slots__ = ()


class MapList(list[Value]):
    """List with x-kubernetes-list-type map, whose elements are identified by their keys.

    Equality ignores the order. `+` replaces elements with the same keys in place, and appends the others.
    """

    __slots__ = ("keys",)

    def __init__(self, elements: Iterable[Value], keys: tuple[str, ...]) -> None:
        super().__init__(elements)
        self.keys = keys

    def key(self, element: Value) -> tuple[Any, ...]:
        return tuple(element.get(name) for name in self.keys) if type(element) is dict else (element,)


class DefaultMap(dict[Value, Value]):
    """Map of maps in which access to a missing key returns an empty map; its keys and its size are the real ones."""

    __slots__ = ()


NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    SetList: "list",
    MapList: "list",
    dict: "map",
    DefaultMap: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    TypeValue: "type",
}
NUMBERS = (int, Uint, float)


GO_NAMES: dict[type, str] = {
    bool: "types.Bool", int: "types.Int", Uint: "types.Uint", float: "types.Double", str: "types.String",
    bytes: "types.Bytes", type(None): "types.Null", list: "*types.baseList", dict: "*types.baseMap",
    Duration: "types.Duration", Timestamp: "types.Timestamp", Optional: "*types.Optional", TypeValue: "*types.Type",
}  # fmt: skip


def type_name(value: Value) -> str:
    name = NAMES.get(type(value))
    return name if name is not None else str(value.type_name)


def in_go(value: Value) -> str:
    """Return the name of a value's Go type in cel-go, which some errors contain."""
    return GO_NAMES.get(type(value)) or type_name(value)


def checked_int(value: int) -> int:
    if SMALLEST <= value <= LARGEST:
        return value
    raise EvaluationError("integer overflow")


def checked_uint(value: int) -> Uint:
    if 0 <= value <= LARGEST_UINT:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def equals(left: Value, right: Value) -> bool:
    """Report whether values are equal. Values of different types are unequal, except for numbers."""
    a, b = type(left), type(right)
    if a is b:
        if a is list:
            spend(len(left))
            return len(left) == len(right) and all(map(equals, left, right))
        if a is dict or a is DefaultMap:
            return _equal_maps(left, right)
        if a is Optional:
            return left.present == right.present and (not left.present or equals(left.value, right.value))
        if a is SetList or a is MapList:
            return _equal_sets(left, right)
        if isinstance(left, Opaque):
            return left.cel_equals(right)
        return bool(left == right)
    if a in NUMBERS and b in NUMBERS:
        return float(left) == float(right) if a is float or b is float else bool(left == right)
    if isinstance(left, dict) and isinstance(right, dict):
        return _equal_maps(left, right)
    if isinstance(left, list) and isinstance(right, list):
        if a is SetList or a is MapList:
            return _equal_sets(left, right)
        spend(len(left))
        return len(left) == len(right) and all(map(equals, left, right))
    return False


def _equal_maps(left: dict[Value, Value], right: dict[Value, Value]) -> bool:
    if len(left) != len(right):
        return False
    spend(len(left))
    for key, value in left.items():
        found, other = lookup(right, key)
        if not found or not equals(value, other):
            return False
    return True


def _equal_sets(left: list[Value], right: list[Value]) -> bool:
    if len(left) != len(right):
        return False
    spend(len(left) ** 2)
    if isinstance(left, MapList):
        others = [(left.key(each), each) for each in right]
        return all(any(equals(list(k), list(left.key(each))) and equals(v, each) for k, v in others) for each in left)
    return all(contains(right, each) for each in left) and all(contains(left, each) for each in right)


ORDERED = frozenset({bool, int, Uint, float, str, bytes, Duration, Timestamp})


def compared(left: Value, right: Value) -> int | None:
    """Compare two values: return -1, 0 or 1, or None if they cannot be ordered."""
    a, b = type(left), type(right)
    if a in NUMBERS and b in NUMBERS:
        if a is float or b is float:
            left, right = float(left), float(right)
            if left != left or right != right:
                return None
    elif a is not b or a not in ORDERED:
        return None
    return int(left > right) - int(left < right)


def contains(elements: list[Value], value: Value) -> bool:
    kind = type(value)
    if kind is str:
        return value in elements  # only strings are equal to a string
    return any(equals(value, each) for each in elements)


def lookup(mapping: dict[Value, Value], key: Value) -> tuple[bool, Value]:
    """Report whether a map has a key, and return its value. Equal numbers are one key; true and 1 are different."""
    kind = type(key)
    if kind is str:
        return (True, mapping[key]) if key in mapping else (False, None)
    if kind is bool or (kind in NUMBERS and key in (0, 1)):
        for each, value in mapping.items():
            if each == key and (type(each) is bool) == (kind is bool):
                return True, value
        return False, None
    try:
        return (True, mapping[key]) if key in mapping else (False, None)
    except TypeError:  # a list or a map cannot be a key
        return False, None


def shown(value: Value) -> str:
    """Format a key for error messages."""
    if type(value) is bool:
        return "true" if value else "false"
    return str(int(value) if type(value) is float and value.is_integer() else value)


def size(value: Value) -> int:
    """Return the size by which costs are computed: elements, entries, characters or bytes; 1 for a scalar."""
    kind = type(value)
    if kind is str or kind is dict or kind is bytes or isinstance(value, list) or kind is DefaultMap:
        return len(value)
    if kind is Optional and value.present:
        return size(value.value)
    return int(getattr(value, "size", 1))
