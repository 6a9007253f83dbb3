"""Formatting of values as in Go."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson

_TYPES: dict[type, str] = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}"}


def go_number(value: float) -> str:
    """Format an int64 or float64 as Go's %v: shortest digits, with an exponent below 1e-4 and from 1e6."""
    if isinstance(value, int):
        return str(value)
    sign, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    size = Decimal(repr(value)).adjusted() if value else 0
    if -4 <= size < 6:
        return f"{Decimal(repr(value)).normalize():f}"
    rest = "".join(str(digit) for digit in digits[1:])
    return f"{'-' if sign else ''}{digits[0]}{'.' if rest else ''}{rest}e{size:+03d}"


def go_type(value: Any) -> str:
    """Return the Go type of a decoded JSON value, as %T prints it."""
    return "<nil>" if value is None else _TYPES.get(type(value), "map[string]interface {}")


def accessor_error(path: str, value: Any, wanted: type) -> str:
    """Return the error for a nested field of a wrong type. Source: apimachinery pkg/apis/meta/v1/unstructured."""
    shown = go_number(value) if type(value) in (int, float) else str(value)
    return f"{path} accessor error: {shown} is of the type {go_type(value)}, expected {_TYPES[wanted]}"


def sorted_keys(value: Any) -> Any:
    """Return the value with sorted map keys, as Go encodes it."""
    if isinstance(value, dict | list):
        return orjson.loads(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
    return value
