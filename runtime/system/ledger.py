"""Ledger of commands in flight, and of the newest resourceVersions that each controller has written or read.

The dispatcher writes it on its own thread, and the transport's callbacks on theirs, so it has a lock. It outlives a
failed dispatcher, because the requests do. A restarted controller uses it to find out what its predecessor did: it may
act only once none of the predecessor's commands is in flight and the tables contain every version that it received.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Passage(NamedTuple):
    """Command in flight: ticket, and index within the ticket."""

    incarnation: int
    ticket: int
    number: int


class Statement(NamedTuple):
    """State of one sender's commands.

    versions: the newest resourceVersion that a write or read returned, by resource id.
    under_way: commands in flight, in no order.
    """

    versions: Mapping[str, int]
    under_way: tuple[Passage, ...]


Clear = Callable[[Statement], None]


class _Account:
    __slots__ = ("under_way", "versions", "waiting")

    def __init__(self) -> None:
        self.under_way: dict[Passage, Any] = {}
        self.versions: dict[str, int] = {}
        self.waiting: list[tuple[int, Clear]] = []

    def blocks(self, before: int) -> bool:
        return any(passage.incarnation < before for passage in self.under_way)

    def statement(self) -> Statement:
        return Statement(dict(self.versions), tuple(self.under_way))


class Ledger:
    """The commands of each sender. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accounts: dict[str, _Account] = {}

    def sent(self, sender: str, passage: Passage, command: Any = None) -> None:
        """Record that a command is in flight. command: for in_flight()."""
        with self._lock:
            self._account(sender).under_way[passage] = command

    def settled(self, sender: str, passage: Passage, resource: str, version: int) -> None:
        """Record that the outcome of a command was sent.

        version: of the object that the server returned; 0 without an object.
        """
        with self._lock:
            account = self._account(sender)
            if version > account.versions.get(resource, 0):
                account.versions[resource] = version
            account.under_way.pop(passage, None)
            if not account.waiting:
                return
            ready = [call for before, call in account.waiting if not account.blocks(before)]
            account.waiting = [(before, call) for before, call in account.waiting if account.blocks(before)]
            statement = account.statement()
        for call in ready:
            call(statement)

    def when_clear(self, sender: str, before: int, call: Clear) -> None:
        """Call a function, on any thread, once no command of an incarnation older than `before` is in flight."""
        with self._lock:
            account = self._account(sender)
            if account.blocks(before):
                account.waiting.append((before, call))
                return
            statement = account.statement()
        call(statement)

    def under_way(self) -> int:
        with self._lock:
            return sum(len(account.under_way) for account in self._accounts.values())

    def in_flight(self) -> list[tuple[str, Any]]:
        """Return the commands in flight, each with its sender."""
        with self._lock:
            accounts = self._accounts.items()
            return [(name, command) for name, account in accounts for command in account.under_way.values()]

    def _account(self, sender: str) -> _Account:
        account = self._accounts.get(sender)
        if account is None:
            account = self._accounts[sender] = _Account()
        return account
