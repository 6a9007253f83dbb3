"""Simulated disk: a store in memory that is kept when the simulated server restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kcm.protocols.objects import Key
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange, Stored


class SimulatedDisk:
    """Store that a restart of the server does not clear. Commits are durable at once.

    Implements kcm.runtime.apiserver.storage.store.Store.

    observers: called with the changes of each commit, before it is acknowledged
    """

    def __init__(self) -> None:
        self._revision = 0
        self._objects: dict[tuple[str, Key], Stored] = {}
        self.observers: list[Callable[[Sequence[StoreChange]], None]] = []

    def revision(self) -> int:
        return self._revision

    def load(self) -> Iterator[Stored]:
        return iter(list(self._objects.values()))

    def commit(self, changes: Sequence[StoreChange], on_durable: Callable[[], None]) -> None:
        for change in changes:
            self._revision = change.revision
            if change.type == DELETED:
                self._objects.pop((change.storage, change.key), None)
            else:
                stored = Stored(change.storage, change.key, change.revision, change.raw)
                self._objects[change.storage, change.key] = stored
        for observe in self.observers:
            observe(changes)
        on_durable()

    def close(self) -> None:
        return None
