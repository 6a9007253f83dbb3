"""How much one evaluation may look at when it compares and writes out lists and maps.

Upstream counts a comparison by the length of what is compared, whatever lies in it. A list that holds another twice,
which holds a third twice, … is compared for ever so, at the cost of two; there, another thread goes on meanwhile.
"""

from __future__ import annotations

import threading

from runtime.cel.errors import CostExceededError

MOST = 1_000_000  # elements and entries


class _Left(threading.local):
    number = MOST


_left = _Left()


def spend(elements: int) -> None:
    """Raises CostExceededError where nothing is left."""
    _left.number -= elements
    if _left.number < 0:
        raise CostExceededError


def begin() -> None:
    """With a whole evaluation, or an expression that is made ready."""
    _left.number = MOST
