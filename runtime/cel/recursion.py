"""Room on the stack for what follows a tree of 250 levels: parser, checker, estimates, evaluation.

Python counts its calls, and would end at some sixty levels.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

DEEPEST = 250
FRAMES = 80 * DEEPEST

# The limit is the interpreter's, and one computation may pause in the middle of another: the last to end restores it.
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
