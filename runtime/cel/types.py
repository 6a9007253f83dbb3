"""Types of the checker, their names, and assignability.

Source: cel-go common/types/types.go, checker/types.go, checker/format.go.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

SIMPLE: Final = frozenset(
    {"bool", "bytes", "double", "int", "string", "uint", "duration", "timestamp", "struct", "any"}
)


class Type(Struct, frozen=True):
    """A type.

    kind: such as "list" or "dyn"
    name: of a struct, an opaque type or a type parameter
    params: types of elements, keys and values
    """

    kind: str
    name: str = ""
    params: tuple[Type, ...] = ()
    free: bool = False  # contains a type parameter; computed from the other fields

    def __post_init__(self) -> None:
        force_setattr(self, "free", self.kind == "param" or any(each.free for each in self.params))

    def __str__(self) -> str:
        """Return the name in error messages."""
        match self.kind:
            case "error":
                return "!error!"
            case "opaque" if self.name == "function":
                arguments = ", ".join(map(str, self.params[1:]))
                return f"({arguments}) -> {self.params[0]}"
            case "struct" | "param" | "opaque":
                base = self.name
            case _:
                base = self.kind
        return f"{base}({', '.join(map(str, self.params))})" if self.params else base


BOOL, BYTES, DOUBLE, INT, STRING, UINT = (Type(k) for k in ("bool", "bytes", "double", "int", "string", "uint"))
DURATION, TIMESTAMP, NULL, DYN, ERROR = (Type(k) for k in ("duration", "timestamp", "null", "dyn", "error"))
TYPE = Type("type")


def list_of(element: Type) -> Type:
    return Type("list", params=(element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", params=(key, value))


def optional_of(value: Type) -> Type:
    return opaque("optional_type", value)


def type_of(value: Type) -> Type:
    return Type("type", params=(value,))


def opaque(name: str, *params: Type) -> Type:
    return Type("opaque", name, params)


def struct(name: str) -> Type:
    return Type("struct", name)


def param(name: str) -> Type:
    return Type("param", name)


def is_optional(kind: Type) -> bool:
    return kind.kind == "opaque" and kind.name == "optional_type"


def unwrapped(kind: Type) -> tuple[Type, bool]:
    """Return the type inside an optional and True; for another type that type and False."""
    return (kind.params[0], True) if is_optional(kind) else (kind, False)


Mapping = dict[str, Type]
"""What type parameters stand for so far, by their names."""


def substitute(mapping: Mapping, kind: Type, *, free_is_dyn: bool) -> Type:
    if not kind.free:
        return kind
    while kind.kind == "param" and kind.name in mapping:
        kind = mapping[kind.name]
    if kind.kind == "param":
        return DYN if free_is_dyn else kind
    return Type(kind.kind, kind.name, tuple(substitute(mapping, each, free_is_dyn=free_is_dyn) for each in kind.params))


def assigned(mapping: Mapping, targets: tuple[Type, ...], sources: tuple[Type, ...]) -> Mapping | None:
    """Return the type parameters' mapping that makes each source assignable to its target, or None."""
    if len(targets) != len(sources):
        return None
    copy = dict(mapping)
    return copy if _all_assignable(copy, targets, sources) else None


def _all_assignable(mapping: Mapping, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
    return len(left) == len(right) and all(_assignable(mapping, a, b) for a, b in zip(left, right, strict=True))


def _assignable(mapping: Mapping, left: Type, right: Type) -> bool:
    if right.kind == "param":
        valid, known = _substitutes(mapping, left, right)
        if valid or known:
            return valid
    if left.kind == "param":
        return _substitutes(mapping, right, left)[0]
    if left.kind in ("dyn", "error", "any") or right.kind in ("dyn", "error", "any"):
        return True
    if left.kind == "null" or right.kind == "null":
        other = right if left.kind == "null" else left
        return other.kind in ("null", "opaque", "struct", "duration", "timestamp")
    if left.kind in SIMPLE:
        return left.kind == right.kind and left.name == right.name
    if left.kind == "type":
        return right.kind == "type"
    return left.kind == right.kind and left.name == right.name and _all_assignable(mapping, left.params, right.params)


def _substitutes(mapping: Mapping, kind: Type, parameter: Type) -> tuple[bool, bool]:
    """Report whether a type parameter can be bound to a type, and whether it was bound before. Records the binding."""
    if kind == parameter:
        return True, True
    known = mapping.get(parameter.name)
    if known is not None:
        if kind == known:
            return True, True
        if _assignable(mapping, kind, known):
            general = most_general(kind, known)
            if _absent(mapping, parameter, general):
                mapping[parameter.name] = general
            return True, True
        return False, True
    if _absent(mapping, parameter, kind):
        mapping[parameter.name] = kind
        return True, False
    return False, False


def most_general(left: Type, right: Type) -> Type:
    return left if _less_specific(left, right) else right


def _less_specific(left: Type, right: Type) -> bool:
    if left.kind in ("dyn", "any", "param"):
        return True
    if right.kind in ("dyn", "any", "param") or left.kind != right.kind:
        return False
    if left.kind in ("opaque", "list", "map"):
        return (
            left.name == right.name
            and len(left.params) == len(right.params)
            and all(_less_specific(a, b) for a, b in zip(left.params, right.params, strict=True))
        )
    return left.kind == "type" or left == right


def _absent(mapping: Mapping, parameter: Type, within: Type) -> bool:
    if not within.free:
        return True
    if parameter == within:
        return False
    if within.kind == "param":
        known = mapping.get(within.name)
        return known is None or _absent(mapping, parameter, known)
    return all(_absent(mapping, parameter, each) for each in within.params)
