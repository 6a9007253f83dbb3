"""Recursion limit for trees of up to 250 levels: parsing, checking, estimates and evaluation recurse over the tree.

Python's default limit would be reached at about sixty levels.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

DEEPEST = 250
FRAMES = 80 * DEEPEST

# The limit applies to the whole interpreter. Computations may be nested, and several threads may compute: the last
# computation to end restores the limit.
_inside: list[int] = []
_lock = threading.Lock()


@contextlib.contextmanager
def room() -> Iterator[None]:
    with _lock:
        _inside.append(sys.getrecursionlimit() if not _inside else _inside[0])
        sys.setrecursionlimit(max(_inside[0], FRAMES))
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            if not _inside:
                sys.setrecursionlimit(before)
