"""Requests that wait for a connection, and responses that wait for their callers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Lets at most `most` items be under way, and keeps the others: each client's in order, the clients in turn.

    A client with nothing under way never waits, be it above `most`: a slow webhook that holds up one controller's
    requests, or a controller with a thousand of them, does not keep another from its lease.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._under_way: dict[str, int] = {}
        self._kept: dict[str, deque[T]] = {}  # in order of turns; no empty ones

    def admit(self, client: str, item: T) -> bool:
        """True: it goes now, and finished() is to be called when it is over. False: it is kept."""
        if self._total < self._most or not self._under_way.get(client):
            self._count(client, 1)
            return True
        self._kept.setdefault(client, deque()).append(item)
        return False

    def finished(self, client: str) -> T | None:
        """One of this client's is over. What goes now in its place, if anything."""
        self._count(client, -1)
        if client not in self._under_way and client in self._kept:
            return self._take(client)
        if self._kept and self._total < self._most:
            return self._take(next(iter(self._kept)))
        return None

    def clear(self) -> list[T]:
        """Empties the queue. Returns what it held."""
        kept = [item for items in self._kept.values() for item in items]
        self._kept.clear()
        return kept

    def _take(self, client: str) -> T:
        items = self._kept.pop(client)
        item = items.popleft()
        if items:
            self._kept[client] = items  # at the end of the turns
        self._count(client, 1)
        return item

    def _count(self, client: str, step: int) -> None:
        self._total += step
        count = self._under_way.get(client, 0) + step
        if count:
            self._under_way[client] = count
        else:
            self._under_way.pop(client, None)


MOST = 16  # responses that are held
LONGEST = 0.002  # seconds that one is held


class Handover:
    """Hands responses over, several at once where many are expected.

    To wake the caller's thread costs as much as a third of the request itself, and while it reads the response
    ours waits for the interpreter. So what comes within a moment is handed over together. Belongs to the loop's thread.
    """

    def __init__(self) -> None:
        self._held: list[Callable[[], None]] = []
        self._alarm: asyncio.TimerHandle | None = None

    def add(self, response: Callable[[], None], *, more: bool) -> None:
        """response: hands one over; must not raise. more: others will follow soon, so it may be held a moment."""
        self._held.append(response)
        if not more or len(self._held) >= MOST:
            self.flush()
        elif self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(LONGEST, self.flush)

    def flush(self) -> None:
        """Hand over all that is held, in the order in which it came."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        held, self._held = self._held, []
        for response in held:
            response()
