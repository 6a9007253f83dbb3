"""How much one evaluation may do that its cost does not show, and when it gives way to others.

Upstream counts a comparison by the length of what is compared, whatever lies in it. A list that holds another twice,
which holds a third twice, … is compared for ever so, at the cost of two; there, another thread goes on meanwhile.

Here one thread serves all. So expressions that are compiled or evaluated pass the time, in units of cost, and who has
them compiled or evaluated may be called when an allowance is spent: to stop them, or to serve others meanwhile.
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
    """With a whole evaluation, or an expression that is made ready."""
    _left.number = MOST


def pass_time(units: int) -> None:
    """Count what was done, in units of cost: about a microsecond each."""
    _left.allowance -= units
    if _left.allowance < 0:
        _left.overdue()


@contextmanager
def allowance(units: float) -> Iterator[Callable[[], float]]:
    """Let computations of this thread take so many units; then they raise TooLongError.

    Yields a function that returns how many are left.
    """
    before = _left.allowance
    _left.allowance = units
    try:
        yield lambda: _left.allowance
    finally:
        _left.allowance = before


def give_way(units: int, pause: Callable[[], None]) -> None:
    """Have `pause` called by computations of this thread, from now on, each time that they have taken so many units."""

    def overdue() -> None:
        _left.allowance = units
        pause()

    _left.allowance, _left.overdue = units, overdue
