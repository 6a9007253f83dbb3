"""Requests that wait for a connection, and responses that wait for their callers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Admits at most `most` items at once, and keeps the others: in order for each client, round-robin between clients.

    A client without an admitted item never waits, even above `most`: a controller with slow or very many requests does
    not delay the renewal of the lease.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._under_way: dict[str, int] = {}
        self._kept: dict[str, deque[T]] = {}  # in the order of their turns; without empty ones

    def admit(self, client: str, item: T) -> bool:
        """Return True if the item is admitted, after which finished() must be called; False if it is kept."""
        if self._total < self._most or not self._under_way.get(client):
            self._count(client, 1)
            return True
        self._kept.setdefault(client, deque()).append(item)
        return False

    def finished(self, client: str) -> T | None:
        """Record that an item of this client is finished. Return the item that is admitted instead, if there is one."""
        self._count(client, -1)
        if client not in self._under_way and client in self._kept:
            return self._take(client)
        if self._kept and self._total < self._most:
            return self._take(next(iter(self._kept)))
        return None

    def clear(self) -> list[T]:
        """Empty the queue, and return what it contained."""
        kept = [item for items in self._kept.values() for item in items]
        self._kept.clear()
        return kept

    def _take(self, client: str) -> T:
        items = self._kept.pop(client)
        item = items.popleft()
        if items:
            self._kept[client] = items  # its next turn comes after those of the others
        self._count(client, 1)
        return item

    def _count(self, client: str, step: int) -> None:
        self._total += step
        count = self._under_way.get(client, 0) + step
        if count:
            self._under_way[client] = count
        else:
            self._under_way.pop(client, None)


MOST = 16  # responses that are kept back
LONGEST = 0.002  # seconds for which a response is kept back


class Handover:
    """Passes responses to their callers, several at once where many are expected.

    To wake the caller's thread costs a third of the request itself, and while that thread reads the response this one
    waits for the GIL. So responses of two milliseconds are passed on together. Used on the loop's thread.
    """

    def __init__(self) -> None:
        self._held: list[Callable[[], None]] = []
        self._alarm: asyncio.TimerHandle | None = None

    def add(self, response: Callable[[], None], *, more: bool) -> None:
        """Add a response. response: passes it on; must not raise. more: others will follow, so it may be kept back."""
        self._held.append(response)
        if not more or len(self._held) >= MOST:
            self.flush()
        elif self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(LONGEST, self.flush)

    def flush(self) -> None:
        """Pass on all responses that were kept back, in their order."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        held, self._held = self._held, []
        for response in held:
            response()
