"""Limits for the nesting of JSON and for the total length of field paths.

Validation builds the path of each field, such as `spec.containers[0].name`. If many fields are below a field with a
long name, this takes time and memory in proportion to their number times the length of the name. Upstream builds a path
only for an error, and has no such limit.
"""

from __future__ import annotations

from typing import Any

MOST_NESTED = 200  # levels; orjson cannot encode more than 254
MOST_WRITTEN = 500_000_000  # limit of the number of fields and list items times the characters of the longest path
SMALL = 32 * 1024  # bytes of JSON that cannot exceed MOST_WRITTEN


def check_nesting(value: Any, raw: bytes) -> None:
    """Raise ValueError if a JSON value exceeds one of the limits. raw: the bytes that it was parsed from."""
    if len(raw) <= SMALL and raw.count(b"{") + raw.count(b"[") <= MOST_NESTED:
        return
    depth = count = longest = 0
    level = [(value, 0)] if isinstance(value, dict | list) else []
    while level:
        depth += 1
        if depth > MOST_NESTED:
            raise ValueError(f"nested more than {MOST_NESTED} levels deep")
        below: list[tuple[Any, int]] = []
        for outer, path in level:
            count += len(outer)
            if isinstance(outer, dict):
                longest = max(longest, path + 1 + max(map(len, outer), default=0))
                below += [
                    (inner, path + 1 + len(name)) for name, inner in outer.items() if isinstance(inner, dict | list)
                ]
            else:
                path += 2 + len(str(len(outer)))
                longest = max(longest, path)
                below += [(inner, path) for inner in outer if isinstance(inner, dict | list)]
        level = below
    if count * longest > MOST_WRITTEN:
        raise ValueError(
            f"paths of fields are too long: {count} fields and items, with paths of up to {longest} characters"
        )
