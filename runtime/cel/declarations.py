"""Declarations of functions and their overloads, and the environment in which an expression is compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from kcm.runtime.cel import types
from kcm.runtime.cel.types import Type
from kcm.runtime.cel.values import NAMES, Optional, Value

Implementation = Callable[..., Any]


class Overload(Struct, frozen=True):
    """One overload of a function.

    name: cel-go's overload id, under which its cost is known
    type_parameters: names of the type parameters in the signature
    """

    name: str
    parameters: tuple[Type, ...]
    result: Type
    member: bool
    implementation: Implementation
    type_parameters: frozenset[str]


class Function(Struct, frozen=True):
    name: str
    overloads: tuple[Overload, ...]


Library = dict[str, Function]


def overload(name: str, signature: str, implementation: Implementation) -> Overload:
    """Parse an overload's signature, such as "string, int -> string".

    A leading dot marks a member function, and capital letters are type parameters.
    """
    member = signature.startswith(".")
    left, right = signature.removeprefix(".").split("->")
    parameters = tuple(parsed(each) for each in _split(left))
    result = parsed(right)
    free = frozenset(re.findall(r"\b[A-Z]\b", signature))
    return Overload(name, parameters, result, member, implementation, free)


def function(name: str, *overloads: tuple[str, str, Implementation]) -> Function:
    return Function(name, tuple(overload(*each) for each in overloads))


def library(*functions: Function) -> Library:
    merged: Library = {}
    for each in functions:
        known = merged.get(each.name)
        merged[each.name] = each if known is None else Function(each.name, known.overloads + each.overloads)
    return merged


def merged(libraries: Iterable[Library]) -> Library:
    return library(*(each for each_library in libraries for each in each_library.values()))


_SIMPLE = {
    "bool": types.BOOL, "bytes": types.BYTES, "double": types.DOUBLE, "int": types.INT, "string": types.STRING,
    "uint": types.UINT, "duration": types.DURATION, "timestamp": types.TIMESTAMP, "null": types.NULL,
    "dyn": types.DYN, "type": types.TYPE,
}  # fmt: skip


def parsed(text: str) -> Type:
    """Parse a type as written in signatures: list(A), map(string, int), optional_type(V), kubernetes.Quantity, …"""
    text = text.strip()
    if text in _SIMPLE:
        return _SIMPLE[text]
    if re.fullmatch("[A-Z]", text):
        return types.param(text)
    if text.endswith(")"):
        name, inside = text[:-1].split("(", 1)
        params = tuple(parsed(each) for each in _split(inside))
        return Type(name, params=params) if name in ("list", "map", "type") else types.opaque(name, *params)
    return types.opaque(text)


def _split(text: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    pieces, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            pieces.append(text[start:at])
            start = at + 1
    return [piece for piece in (*pieces, text[start:]) if piece.strip()]


class Environment(Struct, frozen=True):
    """Names that an expression may use: functions, variables with their types, and the fields of struct types."""

    functions: Library
    variables: Mapping[str, Type] = field(default_factory=dict)
    structs: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    checks: tuple[Callable[[Any], Iterable[Any]], ...] = ()  # further checks of a tree: each yields Issues
    type_names: frozenset[str] = frozenset()  # of opaque types that an expression may name
    binds: bool = False  # cel.bind is a macro

    def extended(self, variables: Mapping[str, Type], structs: Mapping[str, Mapping[str, Type]]) -> Environment:
        """Return a copy with further variables and struct types. structs: may resolve names that it does not list."""
        known = {**self.structs, **structs} if self.structs else structs
        return Environment(
            self.functions, {**self.variables, **variables}, known, self.checks, self.type_names, self.binds
        )


RUNTIME_NAMES = {
    "null": "null_type",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}


def accepts(parameter: Type, value: Value) -> bool:
    """Report whether a parameter accepts a value at run time. For lists and maps, only the first element is checked."""
    kind = parameter.kind
    if kind in ("dyn", "param", "any"):
        return True
    actual = NAMES.get(type(value)) or value.type_name
    if kind == "opaque" or kind == "struct":
        if actual != parameter.name:
            return kind == "struct" and actual == "map"
        return not (type(value) is Optional and value.present) or accepts(parameter.params[0], value.value)
    if actual != RUNTIME_NAMES.get(kind, kind):
        return False
    if kind == "list" and value:
        return accepts(parameter.params[0], value[0])
    if kind == "map" and value:
        key = next(iter(value))
        return accepts(parameter.params[0], key) and accepts(parameter.params[1], value[key])
    return True
