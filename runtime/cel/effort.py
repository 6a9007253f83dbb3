"""Limits on the work of an evaluation that its CEL cost does not reflect, and points at which it yields to other work.

Upstream charges a comparison by the length of its operands, regardless of their contents. Comparing a list that
contains another list twice, which contains a third one twice, and so on, takes exponential time at a cost of two.
Upstream's other goroutines continue meanwhile.

This server has a single thread. So compilation and evaluation count their work, in units of cost, and the caller can
set an allowance: when it is used up, the computation is stopped, or it pauses for other requests.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kcm.runtime.cel.errors import CostExceededError

MOST = 1_000_000  # elements and entries
STEP = 2_000  # units of cost between two checks of the allowance
OF_NODE = 4  # units of cost of a node that is parsed, checked or estimated
OF_EACH = 10  # units of cost of a trivial evaluation


class TooLongError(Exception):
    """The allowance is used up, and the computation may not take longer on this thread."""


def _stop() -> None:
    raise TooLongError


class _Left(threading.local):
    number = MOST
    allowance: float = math.inf
    overdue: Callable[[], None] = staticmethod(_stop)


_left = _Left()


def spend(elements: int) -> None:
    """Count elements that were processed. Raises CostExceededError if the limit is exceeded."""
    _left.number -= elements
    if _left.number < 0:
        raise CostExceededError
    if elements > STEP:
        pass_time(elements // 4)


def begin() -> None:
    """Reset the limit of elements, at the start of an evaluation or compilation."""
    _left.number = MOST


def pass_time(units: int) -> None:
    """Count work in units of cost, about a microsecond each."""
    _left.allowance -= units
    if _left.allowance < 0:
        _left.overdue()


@contextmanager
def allowance(units: float) -> Iterator[Callable[[], float]]:
    """Limit the computations of this thread to a number of units. Beyond the limit they raise TooLongError.

    Yields a function that returns the number of units left.
    """
    before = _left.allowance
    _left.allowance = units
    try:
        yield lambda: _left.allowance
    finally:
        _left.allowance = before


def give_way(units: int, pause: Callable[[], None]) -> None:
    """Make computations of this thread call `pause` each time they have used another `units` units."""

    def overdue() -> None:
        _left.allowance = units
        pause()

    _left.allowance, _left.overdue = units, overdue
