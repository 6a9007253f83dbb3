"""Integers of query parameters, read as Go's strconv reads them: by 64 bits, with its words."""

from __future__ import annotations

from kcm.protocols import integers
from kcm.runtime.apiserver.errors.field_errors import quoted


def parse_int(text: str) -> int:
    """Parse as Go's strconv.ParseInt. Raises ValueError."""
    number = integers.parse_int(text)
    if number is None:
        raise _error("ParseInt", text, well_formed=integers.is_int(text))
    return number


def parse_uint(text: str) -> int:
    """Parse as Go's strconv.ParseUint. Raises ValueError."""
    number = integers.parse_uint(text)
    if number is None:
        raise _error("ParseUint", text, well_formed=integers.is_uint(text))
    return number


def _error(function: str, text: str, *, well_formed: bool) -> ValueError:
    why = "value out of range" if well_formed else "invalid syntax"
    return ValueError(f"strconv.{function}: parsing {quoted(text)}: {why}")
