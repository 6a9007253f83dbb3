"""Requests that wait for a connection, and responses that wait for their callers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Queue that admits at most `most` items at once.

    Waiting items are in order per client, round-robin between clients.

    A client without an admitted item never waits, even above `most`: a controller with slow or very many requests does
    not delay the renewal of the lease.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._under_way: dict[str, int] = {}
        self._kept: dict[str, deque[T]] = {}  # clients in the order of their turns; no empty queues

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
            self._kept[client] = items  # moved to the end: the other clients come first
        self._count(client, 1)
        return item

    def _count(self, client: str, step: int) -> None:
        self._total += step
        count = self._under_way.get(client, 0) + step
        if count:
            self._under_way[client] = count
        else:
            self._under_way.pop(client, None)


MOST = 16  # delayed responses
LONGEST = 0.002  # seconds by which a response is delayed


class Handover:
    """Delivery of responses to their callers, several at once when many are expected.

    Waking the caller's thread costs a third of the request itself, and while that thread reads the response this thread
    waits for the GIL. So responses of two milliseconds are delivered together. Used on the loop's thread.
    """

    def __init__(self) -> None:
        self._held: list[Callable[[], None]] = []
        self._alarm: asyncio.TimerHandle | None = None

    def add(self, response: Callable[[], None], *, more: bool) -> None:
        """Add a response.

        response: function that delivers it; must not raise.
        more: further responses are expected soon, so this one may be delayed.
        """
        self._held.append(response)
        if not more or len(self._held) >= MOST:
            self.flush()
        elif self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(LONGEST, self.flush)

    def flush(self) -> None:
        """Deliver all delayed responses in order."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        held, self._held = self._held, []
        for response in held:
            response()
