"""Integers as text, in annotations, labels and queries.

Source: Go's strconv, ParseInt and ParseUint in base 10: digits after an optional sign, any number of zeros before them.
"""

from __future__ import annotations

import re

INT32 = range(-(2**31), 2**31)
INT64 = range(-(2**63), 2**63)
UINT64 = range(2**64)

_UNSIGNED = re.compile(r"[0-9]+")
_SIGNED = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS = 20  # of the largest 64-bit number; int() refuses strings of more than 4300 digits


def is_int(text: str) -> bool:
    """Report whether the text is an integer of any size."""
    return _SIGNED.fullmatch(text) is not None


def is_uint(text: str) -> bool:
    """Report whether the text is an integer of any size, without a sign."""
    return _UNSIGNED.fullmatch(text) is not None


def parse_int(text: object, bounds: range = INT64) -> int | None:
    """Parse an integer. Return None if the value is not a string, not an integer, or out of bounds."""
    return _within(bounds, text) if isinstance(text, str) and is_int(text) else None


def parse_uint(text: object, bounds: range = UINT64) -> int | None:
    """Parse an integer without a sign. Return None as parse_int does."""
    return _within(bounds, text) if isinstance(text, str) and is_uint(text) else None


def _within(bounds: range, text: str) -> int | None:
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _MOST_DIGITS:
        return None
    number = int(digits or "0")
    if text.startswith("-"):
        number = -number
    return number if number in bounds else None


def wrapped_int64(number: int) -> int:
    """Return the number after overflow of a signed 64-bit integer, as Go computes it."""
    return (number + 2**63) % 2**64 - 2**63


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
