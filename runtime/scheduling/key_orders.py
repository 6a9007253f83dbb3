"""Queues of keys that are not first in, first out: with round robin between groups, or in the order of priorities."""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class RoundRobinQueue(Generic[K]):
    """Queue that is FIFO within a group and round robin between groups, so that no group waits for all keys of another.

    It has the methods of deque that WorkQueue uses.
    """

    def __init__(self, group: Callable[[K], Hashable]) -> None:
        self._group = group
        self._lines: OrderedDict[Hashable, deque[K]] = OrderedDict()  # without empty groups; the first group is next
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, key: K) -> None:
        self._lines.setdefault(self._group(key), deque()).append(key)
        self._count += 1

    def popleft(self) -> K:
        """Return the oldest key of the group whose turn it is. Raises IndexError if the queue is empty."""
        if not self._lines:
            raise IndexError("no key is waiting")
        group, line = next(iter(self._lines.items()))
        key = line.popleft()
        if line:
            self._lines.move_to_end(group)
        else:
            del self._lines[group]
        self._count -= 1
        return key


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
