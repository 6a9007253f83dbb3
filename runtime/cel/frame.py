"""State of one evaluation: the values of variables, and the cost so far."""

from __future__ import annotations

from collections.abc import Callable

from kcm.runtime.cel import effort
from kcm.runtime.cel.errors import CostExceededError
from kcm.runtime.cel.values import Value

LIMIT = 1_000_000  # maximum cost of one evaluation
MOST_MADE = 20_000_000
LIST_COST, MAP_COST, STRUCT_COST = 10, 30, 40


class Frame:
    """State of one evaluation.

    names: values of variables, including those of comprehensions.
    limit: maximum cost.
    made: number of elements and characters that the evaluation has created. Upstream does not count them.
    """

    __slots__ = ("_counted", "_stop", "cost", "limit", "made", "names")

    def __init__(self, names: dict[str, Value], limit: int) -> None:
        self.names = names
        self.cost = self.made = self._counted = 0
        self.limit = limit
        self._stop = min(limit, effort.STEP)

    def grow(self, size: int) -> None:
        self.made += size
        if self.made > MOST_MADE:
            raise CostExceededError
        if size > effort.STEP:
            effort.pass_time(size // 50)

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self._stop:
            self._pass_stop()

    def _pass_stop(self) -> None:
        if self.cost > self.limit:
            raise CostExceededError
        self.pass_time()
        self._stop = min(self.limit, self.cost + effort.STEP)

    def pass_time(self) -> None:
        """Count the cost since the last call towards the thread's allowance, see effort.py."""
        units, self._counted = self.cost - self._counted, self.cost
        effort.pass_time(units)


Closure = Callable[[Frame], Value]
