"""Reduction of a fault plan whose run fails to a smaller plan whose run still fails (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrunk(plan: Sequence[T], fails: Callable[[tuple[T, ...]], bool], *, most_runs: int = 200) -> tuple[T, ...]:
    """Return a subsequence of a failing plan that still fails.

    fails: runs a plan, and reports whether the run fails
    most_runs: maximum number of runs; afterwards the smallest failing plan so far is returned

    Source: Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing Input (2002), the algorithm ddmin.
    """
    kept = tuple(plan)
    runs, parts = 0, 2
    while kept and runs < most_runs:
        size = max(1, len(kept) // parts)
        for first in range(0, len(kept), size):
            rest = kept[:first] + kept[first + size :]
            runs += 1
            if fails(rest):
                kept, parts = rest, max(2, parts - 1)
                break
            if runs >= most_runs:
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept
