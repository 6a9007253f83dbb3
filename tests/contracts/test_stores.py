"""Contract of persistent stores: SQLite and the disk of the simulator."""

from __future__ import annotations

import queue
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcm.runtime.apiserver.storage.sqlite_store import SqliteStore
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, MODIFIED, Store, StoreChange, Stored
from kcm.runtime.simulation.disk import SimulatedDisk

PATIENCE = 10.0  # seconds


class Side:
    """Disk of a server. `open` closes the store of the previous server, and returns that of the next one."""

    def __init__(self) -> None:
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.durable: list[int] = []
        self.failures: list[Exception] = []
        self._open()

    def open(self, post: Callable[[Callable[[], None]], None]) -> Store:
        raise NotImplementedError

    def crash(self) -> None:
        """Kill the server's process, and start another one on the same disk."""
        self._posted = queue.SimpleQueue()
        self._open()

    def _open(self) -> None:
        self.store = store = self.open(self._posted.put)
        self.revision, self.loaded = store.revision(), sorted(store.load())

    def commit(self, *changes: StoreChange) -> None:
        self.store.commit(changes, lambda: self.durable.append(changes[-1].revision))

    def wait(self, commits: int) -> list[int]:
        """Wait until this number of commits is durable; return their revisions."""
        while len(self.durable) < commits:
            self._posted.get(timeout=PATIENCE)()
        return self.durable

    def restart(self) -> None:
        self.store.close()
        self._open()


class Sqlite(Side):
    def __init__(self, directory: Path) -> None:
        self._path, self._left = directory / "0.db", list[Store]()
        super().__init__()

    def open(self, post: Callable[[Callable[[], None]], None]) -> Store:
        return SqliteStore(
            self._path,
            post=post,
            soon=lambda hand_over: hand_over(),
            refused=self.failures.append,
            failed=self.failures.append,
        )

    def crash(self) -> None:
        # The current files, as a kill would leave them, whatever the store's thread is doing.
        was, self._path = self._path, self._path.with_name(f"{len(self._left) + 1}.db")
        self._left.append(self.store)
        for end in ("", "-wal"):
            shutil.copy(f"{was}{end}", f"{self._path}{end}")
        super().crash()

    def close(self) -> None:
        for store in (*self._left, self.store):
            store.close()


class Simulated(Side):
    def __init__(self, _directory: Path) -> None:
        self._disk = SimulatedDisk()
        super().__init__()

    def open(self, post: Callable[[Callable[[], None]], None]) -> Store:
        return self._disk

    def close(self) -> None:
        self.store.close()


@pytest.fixture(params=[Sqlite, Simulated], ids=["sqlite", "simulated disk"])
def side(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sqlite | Simulated]:
    made: Sqlite | Simulated = request.param(tmp_path)
    yield made
    made.close()
    assert made.failures == []


def change(type_: str, key: str, revision: int, raw: bytes = b"{}", *, storage: str = "pods") -> StoreChange:
    return StoreChange(type_, storage, key, revision, raw, b"" if type_ == ADDED else b"{}")


def test_a_new_one_is_empty(side: Side) -> None:
    assert (side.revision, side.loaded) == (0, [])


def test_commits_exist_after_a_restart(side: Side) -> None:
    side.commit(change(ADDED, "default/a", 1), change(ADDED, "default/b", 2))
    side.commit(change(MODIFIED, "default/a", 3, b'{"n":3}'))
    side.commit(change(ADDED, "default/a", 4, b'{"n":4}', storage="secrets"))
    side.wait(3)
    side.restart()
    assert side.revision == 4
    assert side.loaded == [
        Stored("pods", "default/a", 3, b'{"n":3}'),
        Stored("pods", "default/b", 2, b"{}"),
        Stored("secrets", "default/a", 4, b'{"n":4}'),
    ]


def test_deleted_object_is_absent_and_its_revision_counts(side: Side) -> None:
    side.commit(change(ADDED, "default/a", 1))
    side.commit(change(DELETED, "default/a", 2))
    side.wait(2)
    side.restart()
    assert (side.revision, side.loaded) == (2, [])


def test_commits_become_durable_in_their_order(side: Side) -> None:
    for revision in range(1, 51):
        side.commit(change(ADDED, f"default/{revision}", revision))
    assert side.wait(50) == list(range(1, 51))


def test_a_key_may_be_deleted_and_made_again_in_one_commit(side: Side) -> None:
    side.commit(change(ADDED, "default/a", 1))
    side.commit(change(DELETED, "default/a", 2), change(ADDED, "default/a", 3, b'{"n":3}'))
    side.wait(2)
    side.restart()
    assert side.loaded == [Stored("pods", "default/a", 3, b'{"n":3}')]


def test_closing_finishes_what_was_committed(side: Side) -> None:
    for revision in range(1, 21):
        side.commit(change(ADDED, f"default/{revision}", revision))
    side.restart()
    assert (side.revision, len(side.loaded)) == (20, 20)


@pytest.mark.parametrize("acknowledged", [0, 1, 20, 40])
def test_a_crash_takes_nothing_that_was_acknowledged_and_leaves_no_gap(side: Side, acknowledged: int) -> None:
    """Unacknowledged commits may be lost, but no commit exists without the earlier ones."""
    for revision in range(1, 41):
        side.commit(change(ADDED, f"default/{revision:02}", revision), change(MODIFIED, "default/all", revision))
    known = max(side.wait(acknowledged), default=0)
    side.crash()
    assert known <= side.revision <= 40
    there = [Stored("pods", f"default/{revision:02}", revision, b"{}") for revision in range(1, side.revision + 1)]
    newest = [Stored("pods", "default/all", side.revision, b"{}")] if side.revision else []
    assert side.loaded == there + newest


def test_store_continues_after_a_crash(side: Side) -> None:
    side.commit(change(ADDED, "default/a", 1))
    side.wait(1)
    side.crash()
    side.commit(change(DELETED, "default/a", 2))
    side.wait(2)
    side.crash()
    assert (side.revision, side.loaded) == (2, [])
