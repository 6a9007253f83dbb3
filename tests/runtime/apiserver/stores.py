"""A store whose commits become durable when a test releases them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kcm.runtime.apiserver.storage.store import DELETED, StoreChange, Stored


class HeldStore:
    """Store that keeps commits back in `held`, oldest first and with their `on_durable`, until `release`."""

    def __init__(self) -> None:
        self.held: list[tuple[Sequence[StoreChange], Callable[[], None]]] = []

    def revision(self) -> int:
        return 0

    def load(self) -> Iterator[Stored]:
        return iter(())

    def commit(self, changes: Sequence[StoreChange], on_durable: Callable[[], None]) -> None:
        self.held.append((changes, on_durable))

    def release(self, count: int | None = None) -> None:
        """Make the oldest `count` commits durable, by default all."""
        released, self.held = self.held[:count], self.held[len(self.held[:count]) :]
        for _, on_durable in released:
            on_durable()

    def close(self) -> None:
        return None


class KeptStore:
    """A store in memory that a second server can be started on."""

    def __init__(self) -> None:
        self._revision = 0
        self._stored: dict[tuple[str, str], Stored] = {}

    def revision(self) -> int:
        return self._revision

    def load(self) -> Iterator[Stored]:
        return iter(list(self._stored.values()))

    def commit(self, changes: Sequence[StoreChange], on_durable: Callable[[], None]) -> None:
        for change in changes:
            self._revision = change.revision
            if change.type == DELETED:
                del self._stored[change.storage, change.key]
            else:
                self._stored[change.storage, change.key] = Stored(
                    change.storage, change.key, change.revision, change.raw
                )
        on_durable()

    def close(self) -> None:
        return None
