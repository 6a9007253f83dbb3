"""Integers of query parameters, read as Go's strconv reads them: by 64 bits, with its words."""

from __future__ import annotations

from kcm.protocols import integers
from kcm.runtime.apiserver.errors.field_errors import quoted


def parse_int(text: str) -> int:
    """Parse as Go's strconv.ParseInt. Raises ValueError."""
    return _checked("ParseInt", text, integers.parse_int(text), well_formed=integers.is_int(text))


def parse_uint(text: str) -> int:
    """Parse as Go's strconv.ParseUint. Raises ValueError."""
    return _checked("ParseUint", text, integers.parse_uint(text), well_formed=integers.is_uint(text))


def _checked(function: str, text: str, number: int | None, *, well_formed: bool) -> int:
    if number is None:
        why = "value out of range" if well_formed else "invalid syntax"
        raise ValueError(f"strconv.{function}: parsing {quoted(text)}: {why}")
    return number
