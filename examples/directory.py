"""The outside world of the tenant operators: who has an account where. In life this is a client of that service."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Account:
    """opens: when it can be used. closes: when it will be gone, None if nobody wants that."""

    number: int
    name: str
    opens: float
    members: tuple[str, ...] = ()
    generation: int = 0
    closes: float | None = None


class Directory:
    """Keeps accounts in memory, one for each uid; to open and to close one takes a while.

    A call says what is to be, and may be made again. One that comes late undoes nothing newer.
    now: a clock, in seconds. takes: seconds.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic, takes: float = 0.2) -> None:
        self._now, self._takes = now, takes
        self._lock = threading.Lock()
        self._count = 0
        self._accounts: dict[str, Account] = {}  # by uid
        self._closed: set[str] = set()

    def enrol(self, uid: str, name: str, members: Sequence[str], generation: int) -> dict[str, Any]:
        """Open the account or change it. Returns its "number", and whether it is "open" yet.

        Raises LookupError on one that was closed: a uid never comes back.
        """
        with self._lock:
            self._close_what_is_due()
            account = self._accounts.get(uid)
            if uid in self._closed or (account is not None and account.closes is not None):
                raise LookupError(f"the account of {name} ({uid}) was closed")
            if account is None:
                self._count += 1
                account = self._accounts[uid] = Account(self._count, name, self._now() + self._takes)
            if generation >= account.generation:
                account.members, account.generation = tuple(members), generation
            return {"number": account.number, "open": self._now() >= account.opens}

    def close(self, uid: str) -> bool:
        """Whether there is no account of this uid any more, nor ever will be; else it is being closed."""
        with self._lock:
            account = self._accounts.get(uid)
            if account is None:
                self._closed.add(uid)
            elif account.closes is None:
                account.closes = self._now() + self._takes
            self._close_what_is_due()
            return uid in self._closed

    def accounts(self) -> list[tuple[str, Account]]:
        """All that there are, by uid."""
        with self._lock:
            self._close_what_is_due()
            return list(self._accounts.items())

    def _close_what_is_due(self) -> None:
        for uid, account in list(self._accounts.items()):
            if account.closes is not None and account.closes <= self._now():
                del self._accounts[uid]
                self._closed.add(uid)
