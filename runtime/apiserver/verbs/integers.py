"""Integers in query parameters, parsed as 64-bit integers with the error texts of Go's strconv."""

from __future__ import annotations

from kcm.protocols import integers
from kcm.runtime.apiserver.errors.field_errors import quoted


def parse_int(text: str) -> int:
    """Parse a signed integer as Go's strconv.ParseInt. Raises ValueError."""
    number = integers.parse_int(text)
    if number is None:
        raise _error("ParseInt", text, well_formed=integers.is_int(text))
    return number


def parse_uint(text: str) -> int:
    """Parse an unsigned integer as Go's strconv.ParseUint. Raises ValueError."""
    number = integers.parse_uint(text)
    if number is None:
        raise _error("ParseUint", text, well_formed=integers.is_uint(text))
    return number


def _error(function: str, text: str, *, well_formed: bool) -> ValueError:
    why = "value out of range" if well_formed else "invalid syntax"
    return ValueError(f"strconv.{function}: parsing {quoted(text)}: {why}")
