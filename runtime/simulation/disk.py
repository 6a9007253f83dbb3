"""Store that outlives the server, as a disk does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kcm.protocols.objects import Key
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange, Stored


class SimulatedDisk:
    """Implements kcm.runtime.apiserver.storage.store.Store; commits are durable at once.

    observers: functions that are called first at every commit.
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
