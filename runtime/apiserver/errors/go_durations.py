"""What Go says of a text that is no duration.

Source: Go's time.ParseDuration.
"""

from __future__ import annotations

import re

_UNITS = ("ns", "us", "µs", "μs", "ms", "s", "m", "h")
_piece = re.compile(r"(?P<number>[0-9]*\.?[0-9]*)(?P<unit>[^0-9.]*)")


def duration_problem(text: str) -> str:
    """ "" for a duration."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return ""
    if not rest:
        return f'time: invalid duration "{text}"'
    while rest:
        found = _piece.match(rest)
        assert found is not None
        if found["number"] in ("", "."):
            return f'time: invalid duration "{text}"'
        if not found["unit"]:
            return f'time: missing unit in duration "{text}"'
        if found["unit"] not in _UNITS:
            return f'time: unknown unit "{found["unit"]}" in duration "{text}"'
        rest = rest[found.end() :]
    return ""
