"""The recent changes of one resource, from which the watch cache begins watches at an earlier revision.

Source: apiserver pkg/storage/cacher/watch_cache.go (v1.36); but bounded by bytes and age as well.
"""

from __future__ import annotations

from collections import deque

from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange

HISTORY = 20_000  # changes kept of each resource
HISTORY_BYTES = 64 * 1024 * 1024  # size of these changes, for each resource
CHANGE_BYTES = 256  # memory of a change in addition to its objects
HISTORY_AGE = 300.0  # seconds; kube-apiserver compacts etcd every five minutes


class History:
    """Recent changes of one resource, oldest first.

    floor: revision of the newest change that was discarded
    """

    __slots__ = ("_changes", "_noted", "floor", "size")

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self._changes: deque[StoreChange] = deque()
        self.size = 0  # bytes
        # (Unix seconds, newest revision at that time), to discard by age.
        self._noted: deque[tuple[float, int]] = deque()

    def append(self, change: StoreChange) -> None:
        self._changes.append(change)
        self.size += _size_of(change)
        while len(self._changes) > HISTORY or self.size > HISTORY_BYTES:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = self._changes.popleft()
        self.size -= _size_of(oldest)
        self.floor = oldest.revision

    def forget_bytes(self, count: int) -> None:
        """Discard the oldest changes, at least `count` bytes of them."""
        until = self.size - count
        while self._changes and self.size > until:
            self._forget_oldest()

    def since(self, revision: int) -> list[StoreChange]:
        """Return the changes after a revision, oldest first.

        Raises StatusError (410) if some of them were discarded.
        """
        if revision < self.floor:
            raise status_errors.expired(f"too old resource version: {revision} ({self.floor})")
        newer = []
        for change in reversed(self._changes):
            if change.revision <= revision:
                break
            newer.append(change)
        newer.reverse()
        return newer

    def age(self, now: float) -> None:
        """Discard changes older than HISTORY_AGE. Called periodically.

        now: Unix seconds
        """
        if self._changes and (not self._noted or self._noted[-1][1] != self._changes[-1].revision):
            self._noted.append((now, self._changes[-1].revision))
        while self._noted and self._noted[0][0] <= now - HISTORY_AGE:
            oldest = self._noted.popleft()[1]
            while self._changes and self._changes[0].revision <= oldest:
                self._forget_oldest()


def _size_of(change: StoreChange) -> int:
    """Return the memory that a change occupies, in bytes."""
    # The previous state nearly always shares its memory with an earlier change, except for a deletion.
    previous = len(change.previous) if change.type == DELETED else 0
    return len(change.raw) + previous + len(change.key) + CHANGE_BYTES
