"""What every Store that outlives its server does: a file of SQLite's, and the simulator's disk."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.apiserver.storage.sqlite_store import SqliteStore
from runtime.apiserver.storage.store import ADDED, DELETED, MODIFIED, Change, Store, Stored
from runtime.simulation.disk import SimulatedDisk

PATIENCE = 10.0  # seconds


class Side:
    """A disk; `open` is what a server that starts on it has for a store, once the one before is closed."""

    def __init__(self, opened: Callable[[Callable[[Callable[[], None]], None]], Store]) -> None:
        self._opened = opened
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.durable: list[int] = []
        self.store = self._open()

    def _open(self) -> Store:
        store = self._opened(self._posted.put)
        self.revision, self.loaded = store.revision(), sorted(store.load())
        return store

    def commit(self, *changes: Change) -> None:
        self.store.commit(changes, lambda: self.durable.append(changes[-1].revision))

    def wait(self, commits: int) -> list[int]:
        """Once so many commits are durable: their revisions."""
        while len(self.durable) < commits:
            self._posted.get(timeout=PATIENCE)()
        return self.durable

    def restart(self) -> None:
        self.store.close()
        self.store = self._open()


@pytest.fixture(params=["sqlite", "simulated disk"])
def side(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Side]:
    failures: list[Exception] = []
    disk = SimulatedDisk()

    def sqlite(post: Callable[[Callable[[], None]], None]) -> Store:
        return SqliteStore(tmp_path / "db", post=post, failed=failures.append)

    made = Side(sqlite if request.param == "sqlite" else lambda _post: disk)
    yield made
    made.store.close()
    assert failures == []


def change(type_: str, key: str, revision: int, raw: bytes = b"{}", *, storage: str = "pods") -> Change:
    return Change(type_, storage, key, revision, raw, b"" if type_ == ADDED else b"{}")


def test_a_new_one_is_empty(side: Side) -> None:
    assert (side.revision, side.loaded) == (0, [])


def test_what_was_committed_is_there_after_a_restart(side: Side) -> None:
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


def test_what_was_deleted_is_gone_and_its_revision_counts(side: Side) -> None:
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
