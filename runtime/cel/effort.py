"""Limits of the work of one evaluation that its cost does not reflect, and points at which it yields to others.

Upstream charges a comparison by the length of its operands, whatever they contain. The comparison of a list that
contains another list twice, which contains a third one twice, and so on, takes exponential time at a cost of two.
Upstream's other goroutines continue meanwhile.

This server has one thread. So compilation and evaluation count the time that passes, in units of cost, and their caller
can set an allowance: when it is spent, the computation is stopped, or others are served first.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kcm.runtime.cel.errors import CostExceededError

MOST = 1_000_000  # elements and entries
STEP = 2_000  # units of cost between two looks at the allowance
OF_NODE = 4  # units of cost of a node that is parsed, checked or estimated
OF_EACH = 10  # units of cost of an evaluation that does nothing


class TooLongError(Exception):
    """The allowance is spent, and the computation may not take longer where it is carried out."""


def _stop() -> None:
    raise TooLongError


class _Left(threading.local):
    number = MOST
    allowance: float = math.inf
    overdue: Callable[[], None] = staticmethod(_stop)


_left = _Left()


def spend(elements: int) -> None:
    """Raises CostExceededError where nothing is left."""
    _left.number -= elements
    if _left.number < 0:
        raise CostExceededError
    if elements > STEP:
        pass_time(elements // 4)


def begin() -> None:
    """Reset the limit of elements, at the start of an evaluation or compilation."""
    _left.number = MOST


def pass_time(units: int) -> None:
    """Count what was done, in units of cost: about a microsecond each."""
    _left.allowance -= units
    if _left.allowance < 0:
        _left.overdue()


@contextmanager
def allowance(units: float) -> Iterator[Callable[[], float]]:
    """Limit the computations of this thread to a number of units. Beyond it they raise TooLongError.

    Yields a function that returns the number of units left.
    """
    before = _left.allowance
    _left.allowance = units
    try:
        yield lambda: _left.allowance
    finally:
        _left.allowance = before


def give_way(units: int, pause: Callable[[], None]) -> None:
    """Have computations of this thread call `pause` whenever they have taken another `units` units."""

    def overdue() -> None:
        _left.allowance = units
        pause()

    _left.allowance, _left.overdue = units, overdue
