"""What is on its way to the API server, and how far each controller's writes have come.

The dispatcher writes it on its own thread, the transport's callbacks on theirs; so it has a lock, and it outlives a
dispatcher that fails, as the requests do. It is how a restarted controller learns what its predecessor did: it may
act only once nothing of the predecessor is under way and the tables show all that was written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping


class _Account:
    __slots__ = ("in_flight", "versions", "waiting")

    def __init__(self) -> None:
        self.in_flight: dict[int, int] = {}  # by incarnation
        self.versions: dict[str, int] = {}  # by resource id: the newest resourceVersion that a write was answered with
        self.waiting: list[tuple[int, Callable[[Mapping[str, int]], None]]] = []


class Ledger:
    """One account a sender."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accounts: dict[str, _Account] = {}

    def sent(self, sender: str, incarnation: int) -> None:
        with self._lock:
            in_flight = self._accounts.setdefault(sender, _Account()).in_flight
            in_flight[incarnation] = in_flight.get(incarnation, 0) + 1

    def settled(self, sender: str, incarnation: int, resource: str, version: int) -> None:
        """version: of the object as it was written; 0 where there is none."""
        with self._lock:
            account = self._accounts.setdefault(sender, _Account())
            if version > account.versions.get(resource, 0):
                account.versions[resource] = version
            left = account.in_flight.get(incarnation, 0) - 1
            if left > 0:
                account.in_flight[incarnation] = left
                return
            account.in_flight.pop(incarnation, None)
            ready = [call for before, call in account.waiting if not any(i < before for i in account.in_flight)]
            account.waiting = [
                (before, call) for before, call in account.waiting if any(i < before for i in account.in_flight)
            ]
            versions = dict(account.versions)
        for call in ready:
            call(versions)

    def when_clear(self, sender: str, before: int, call: Callable[[Mapping[str, int]], None]) -> None:
        """Call with the versions written so far once nothing of an incarnation older than `before` is in flight."""
        with self._lock:
            account = self._accounts.setdefault(sender, _Account())
            if any(incarnation < before for incarnation in account.in_flight):
                account.waiting.append((before, call))
                return
            versions = dict(account.versions)
        call(versions)

    def in_flight(self, sender: str | None = None) -> int:
        with self._lock:
            if sender is None:
                return sum(sum(account.in_flight.values()) for account in self._accounts.values())
            account = self._accounts.get(sender)
            return sum(account.in_flight.values()) if account is not None else 0
