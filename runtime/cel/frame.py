"""What one evaluation works with: the values of names, and what it has cost."""

from __future__ import annotations

from collections.abc import Callable

from runtime.cel.errors import CostExceededError
from runtime.cel.values import Value

LIMIT = 1_000_000  # what one evaluation may cost
MOST_MADE = 20_000_000
LIST_COST, MAP_COST, STRUCT_COST = 10, 30, 40


class Frame:
    """One evaluation. names: variables, those of comprehensions among them; limit: the most that it may cost.

    made: elements and characters that were made on the way. Upstream counts them nowhere.
    """

    __slots__ = ("cost", "limit", "made", "names")

    def __init__(self, names: dict[str, Value], limit: int) -> None:
        self.names = names
        self.cost = self.made = 0
        self.limit = limit

    def grow(self, size: int) -> None:
        self.made += size
        if self.made > MOST_MADE:
            raise CostExceededError

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceededError


Closure = Callable[[Frame], Value]
