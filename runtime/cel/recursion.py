"""Room on the stack for what follows a tree of 250 levels: parser, checker, estimates, evaluation.

Python counts its calls, and would end at some sixty levels.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

DEEPEST = 250
FRAMES = 80 * DEEPEST


@contextlib.contextmanager
def room() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
