"""Integers of query parameters, read as Go's strconv reads them: by 64 bits, with its words."""

from __future__ import annotations

import re

from runtime.apiserver.errors.field_errors import quoted

INT64 = range(-(2**63), 2**63)
UINT64 = range(2**64)

_DIGITS = re.compile("[0-9]+")
_SIGNED = re.compile("[+-]?[0-9]+")
_MOST_DIGITS = 1000  # far beyond 64 bits, and below what int() refuses


def parse_int(text: str) -> int:
    """strconv.ParseInt. Raises ValueError."""
    return _parse("ParseInt", text, _SIGNED, INT64)


def parse_uint(text: str) -> int:
    """strconv.ParseUint. Raises ValueError."""
    return _parse("ParseUint", text, _DIGITS, UINT64)


def _parse(function: str, text: str, pattern: re.Pattern[str], bounds: range) -> int:
    if not pattern.fullmatch(text):
        raise ValueError(f"strconv.{function}: parsing {quoted(text)}: invalid syntax")
    number = int(text[:_MOST_DIGITS])
    if number not in bounds or len(text) > _MOST_DIGITS:
        raise ValueError(f"strconv.{function}: parsing {quoted(text)}: value out of range")
    return number
