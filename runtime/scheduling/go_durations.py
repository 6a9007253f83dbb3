"""Parser of Go durations, with Go's error texts.

Source: Go's time.ParseDuration.
"""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_LARGEST = 2**63 - 1
_piece = re.compile(r"(?P<number>[0-9]*\.?[0-9]*)(?P<unit>[^0-9.]*)")


def nanoseconds_of(text: str) -> int:
    """Parse a duration. Raises ValueError with Go's text."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f'time: invalid duration "{text}"')
    total = 0
    while rest:
        found = _piece.match(rest)
        assert found is not None
        if found["number"] in ("", "."):
            raise ValueError(f'time: invalid duration "{text}"')
        if not found["unit"]:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if found["unit"] not in _UNITS:
            raise ValueError(f'time: unknown unit "{found["unit"]}" in duration "{text}"')
        total += int(Decimal(found["number"]) * _UNITS[found["unit"]])
        if total > _LARGEST:
            raise ValueError(f'time: invalid duration "{text}"')
        rest = rest[found.end() :]
    return -total if text[0] == "-" else total


def duration_problem(text: str) -> str:
    """Return Go's error text for an invalid duration, or ""."""
    try:
        nanoseconds_of(text)
    except ValueError as err:
        return str(err)
    return ""
