"""Recursion limit for trees of up to 250 levels: parsing, checking, estimates and evaluation recurse over the tree.

Python's default limit would be reached at about sixty levels.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

DEEPEST = 250
FRAMES = 80 * DEEPEST

# The limit applies to the whole interpreter, and computations may be nested: the last one to end restores it.
_inside: list[int] = []


@contextlib.contextmanager
def room() -> Iterator[None]:
    _inside.append(sys.getrecursionlimit() if not _inside else _inside[0])
    sys.setrecursionlimit(max(_inside[0], FRAMES))
    try:
        yield
    finally:
        before = _inside.pop()
        if not _inside:
            sys.setrecursionlimit(before)
