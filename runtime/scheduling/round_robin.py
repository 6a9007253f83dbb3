"""Queue of keys with round robin between groups."""

from __future__ import annotations

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
