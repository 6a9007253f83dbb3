"""Queue of keys in the order of their priorities."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class PriorityQueue(Generic[K]):
    """Queue that hands out the keys of the highest priority first, and is FIFO among keys of equal priority.

    It has the methods of deque that WorkQueue uses.
    """

    def __init__(self, priority_of: Callable[[K], float]) -> None:
        """Create an empty queue. priority_of: is called once when a key is added."""
        self._priority_of = priority_of
        self._heap: list[tuple[float, int, K]] = []  # the number orders equal priorities
        self._added = 0

    def __len__(self) -> int:
        return len(self._heap)

    def append(self, key: K) -> None:
        self._added += 1
        heapq.heappush(self._heap, (-self._priority_of(key), self._added, key))

    def popleft(self) -> K:
        """Return the next key. Raises IndexError if the queue is empty."""
        return heapq.heappop(self._heap)[2]
