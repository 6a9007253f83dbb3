"""External directory of accounts that the tenant operators use. In production this is a client of that service."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Account:
    """Account of a tenant."""

    number: int
    name: str
    opens: float  # when it can be used
    members: tuple[str, ...] = ()
    generation: int = 0  # of the tenant's spec that the members are from
    closes: float | None = None  # when it will be closed; None: it stays open


class Directory:
    """Directory in memory, with one account for each uid.

    Calls are idempotent, and a call that arrives late does not undo a newer one.

    now: a clock, in seconds.
    takes: seconds that it takes to open or close an account.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic, takes: float = 0.2) -> None:
        self._now, self._takes = now, takes
        self._lock = threading.Lock()
        self._count = 0
        self._accounts: dict[str, Account] = {}  # by uid
        self._closed: set[str] = set()

    def enrol(self, uid: str, name: str, members: Sequence[str], generation: int) -> dict[str, Any]:
        """Open or update the account of this uid. Return its "number", and whether it is "open" yet.

        Raises LookupError if the account was closed: a uid is never used again.
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
        """Close the account of this uid. Return True once it is closed; until then call this again."""
        with self._lock:
            account = self._accounts.get(uid)
            if account is None:
                self._closed.add(uid)
            elif account.closes is None:
                account.closes = self._now() + self._takes
            self._close_what_is_due()
            return uid in self._closed

    def accounts(self) -> list[tuple[str, Account]]:
        """Return all accounts with their uids."""
        with self._lock:
            self._close_what_is_due()
            return list(self._accounts.items())

    def _close_what_is_due(self) -> None:
        for uid, account in list(self._accounts.items()):
            if account.closes is not None and account.closes <= self._now():
                del self._accounts[uid]
                self._closed.add(uid)
