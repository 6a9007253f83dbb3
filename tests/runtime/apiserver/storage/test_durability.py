"""Acknowledged writes are on disk, and responses contain only durable state."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.storage.sqlite_store import ENOUGH, MOST_TURNS, ROWS, SqliteStore
from kcm.runtime.apiserver.storage.store import MemoryStore, StoreChange, StoreLostError, StoreUnusableError
from tests.runtime.apiserver.stores import HeldStore


@pytest.fixture
def store():
    return HeldStore()


@pytest.fixture
def slow(make_api, store):
    api = make_api(store)
    store.release()
    return api


def answered(api) -> list[bool]:
    """Return a list that becomes non-empty when the response to the last request may be sent."""
    durable: list[bool] = []
    api.server.when_durable(lambda: durable.append(True))
    return durable


def test_response_to_a_write_waits_until_it_is_durable(slow, store):
    assert answered(slow)
    slow.create("pods", slow.pod())
    waiting = answered(slow)
    assert not waiting
    store.release()
    assert waiting


def test_read_waits_until_its_state_is_durable(slow, store):
    slow.create("pods", slow.pod())
    assert slow.list("pods").names == ["web"]
    waiting = answered(slow)
    assert not waiting
    store.release()
    assert waiting
    slow.list("pods")
    assert answered(slow)


def test_response_waits_only_for_earlier_commits(slow, store):
    slow.create("pods", slow.pod("a"))
    first = answered(slow)
    slow.create("pods", slow.pod("b"))
    second = answered(slow)
    store.release(1)
    assert (first, second) == ([True], [])
    store.release(1)
    assert second


def test_watches_deliver_durable_changes_in_order(slow, store):
    listener = slow.watch("pods", resourceVersion=str(slow.server.revision))
    slow.create("pods", slow.pod("a"))
    slow.create("pods", slow.pod("b"))
    assert listener.seen == []
    store.release(1)
    assert listener.seen == [("ADDED", "a")]
    store.release(1)
    assert listener.seen == [("ADDED", "a"), ("ADDED", "b")]


def test_watch_begins_when_its_initial_state_is_durable(slow, store):
    slow.create("pods", slow.pod("a"))
    listener = slow.watch("pods", allowWatchBookmarks="true", timeoutSeconds="1000")
    slow.create("pods", slow.pod("b"))
    slow.advance(61)
    assert listener.seen == []
    store.release(1)
    assert listener.seen == [("ADDED", "a"), ("BOOKMARK", "")]
    store.release(1)
    assert listener.seen == [("ADDED", "a"), ("BOOKMARK", ""), ("ADDED", "b")]


def test_list_at_an_earlier_revision_excludes_pending_changes(slow, store):
    slow.create("pods", slow.pod("a"))
    store.release()
    revision = str(slow.server.revision)
    slow.create("pods", slow.pod("b"))
    slow.delete("pods", "a")
    then = slow.list("pods", resourceVersion=revision, resourceVersionMatch="Exact")
    assert then.names == ["a"]
    assert slow.list("pods").names == ["b"]


def test_consequences_of_a_request_are_in_its_commit(slow, store):
    owner = slow.create("replicasets", slow.replicaset("rs")).obj
    for name in "ab":
        slow.create("pods", slow.owned(slow.pod(name), owner))
    store.release()
    slow.delete("replicasets", "rs", {"propagationPolicy": "Background"})
    ((changes, _),) = store.held
    assert [(change.type, change.key) for change in changes] == [
        ("DELETED", "default/rs"),
        ("MODIFIED", "default/a"),
        ("DELETED", "default/a"),
        ("MODIFIED", "default/b"),
        ("DELETED", "default/b"),
    ]


def at_once(callback: Callable[[], None]) -> None:
    callback()


class Turns:
    """A store whose event-loop turns the test runs. `durable` contains the durable revisions in order."""

    def __init__(self, path) -> None:
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._next: list[Callable[[], None]] = []
        self.durable: list[int] = []
        self.store = SqliteStore(path, post=self.posted.put, soon=self._next.append, refused=print, failed=print)

    def commit(self, revision: int) -> None:
        change = StoreChange("ADDED", "pods", f"d/{revision:05}", revision, b"{}", b"")
        self.store.commit((change,), lambda: self.durable.append(revision))

    def take(self) -> bool:
        """Run one turn. Returns whether the store has scheduled another."""
        due, self._next[:] = [*self._next], []
        for callback in due:
            callback()
        return bool(self._next)


@pytest.fixture
def turns(tmp_path):
    turns = Turns(tmp_path / "db")
    yield turns
    turns.store.close()


def test_commits_of_consecutive_turns_are_written_and_acknowledged_together(turns):
    turns.commit(1)
    assert turns.take()
    turns.commit(2)
    turns.commit(3)
    assert turns.take()
    assert not turns.take()  # a turn without new commits
    turns.posted.get(timeout=10)()
    assert turns.durable == [1, 2, 3]


def test_commit_waits_for_a_limited_number_of_commits_and_turns(turns):
    for revision in range(1, ENOUGH + 1):
        turns.commit(revision)
    assert not turns.take()
    turns.posted.get(timeout=10)()
    for revision in range(ENOUGH + 1, ENOUGH + 1 + MOST_TURNS):
        turns.commit(revision)
        assert turns.take()
    turns.commit(100)
    assert not turns.take()
    turns.posted.get(timeout=10)()
    assert turns.durable[-1] == 100


def test_closing_writes_pending_commits(turns, tmp_path):
    many = 3 * ROWS + 1
    for revision in range(1, many + 1):
        turns.commit(revision)
    turns.store.close()
    reopened = Turns(tmp_path / "db").store
    assert (reopened.revision(), [stored.revision for stored in reopened.load()]) == (many, [*range(1, many + 1)])
    reopened.close()


class Disk:
    """Servers on one file. Their callbacks run when `settle` is called, as on an event loop."""

    def __init__(self, make_api, path) -> None:
        self._make_api, self.path = make_api, path
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self.refusals: list[Exception] = []
        self._stores: list[SqliteStore] = []

    def open(self):
        store = SqliteStore(
            self.path, post=self._posted.put, soon=at_once, refused=self._refuse, failed=self.failures.put
        )
        self._stores.append(store)
        self._api = self._make_api(store)
        return self._api

    def _refuse(self, error: Exception) -> None:
        self.refusals.append(error)
        self._api.server.discard_pending(status_errors.store_full())

    def leave_room(self, pages: int | None) -> None:
        """Limit the growth of the file to a number of pages. None removes the limit."""
        connection = self._stores[-1]._connection
        (there,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={2**30 if pages is None else there + pages}").fetchall()

    def leave_length(self, most: int) -> None:
        """Set the largest value that SQLite takes, in bytes."""
        self._stores[-1]._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)

    def settle_refused(self) -> None:
        """Run callbacks until commits fail."""
        while not self.refusals:
            self._posted.get(timeout=10)()
        self.refusals.clear()

    def settle(self, api) -> None:
        durable = answered(api)
        while not durable:
            self._posted.get(timeout=10)()

    def close(self) -> None:
        while self._stores:
            self._stores.pop().close()


@pytest.fixture
def disk(make_api, tmp_path):
    disk = Disk(make_api, tmp_path / "cluster.db")
    yield disk
    disk.close()


def test_reopened_store_has_the_same_objects_and_versions(disk):
    api = disk.open()
    kept = api.create("pods", api.pod("kept")).obj
    api.create("pods", api.pod("gone"))
    api.delete("pods", "gone")
    disk.settle(api)
    revision = api.server.revision
    disk.close()

    again = disk.open()

    assert again.server.revision == revision
    assert again.list("pods").obj["items"] == [kept]
    assert again.list("namespaces").names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert int(again.create("pods", again.pod("new")).meta["resourceVersion"]) == revision + 1


def test_watch_from_before_the_start_is_rejected(disk):
    api = disk.open()
    version = api.create("pods", api.pod("a")).meta["resourceVersion"]
    api.create("pods", api.pod("b"))
    disk.settle(api)
    revision = str(api.server.revision)
    disk.close()

    again = disk.open()

    (error,) = again.watch("pods", resourceVersion=version).events
    assert error["object"]["message"] == f"too old resource version: {version} ({revision})"
    listener = again.watch("pods", resourceVersion=revision)
    again.create("pods", again.pod("c"))
    disk.settle(again)
    assert listener.seen == [("ADDED", "c")]


def test_owners_custom_resources_and_terminating_namespaces_are_restored(disk):
    api = disk.open()
    names = {"plural": "things", "kind": "Thing"}
    versions = [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }
    ]
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    api.create("customresourcedefinitions", {"metadata": {"name": "things.example.com"}, "spec": spec})
    owner = api.create("replicasets", api.replicaset("rs")).obj
    api.create("pods", api.owned(api.pod("owned"), owner))
    api.create("namespaces", {"metadata": {"name": "team"}})
    api.create("pods", api.pod(nodeName="n"), namespace="team")
    api.delete("namespaces", "team")
    disk.settle(api)
    disk.close()

    again = disk.open()

    assert again.send("GET", "/apis/example.com/v1/things").status == 200
    again.delete("replicasets", "rs", {"propagationPolicy": "Background"})
    assert not again.exists("pods", "owned")
    again.delete("pods", "web", {"gracePeriodSeconds": 0}, namespace="team")
    assert not again.exists("namespaces", "team")


def test_many_requests_share_a_commit(disk):
    api = disk.open()
    for i in range(200):
        api.create("pods", api.pod(f"p{i}"))
    disk.settle(api)
    assert len(api.list("pods").names) == 200


def test_the_file_is_readable_by_its_owner_only_and_opened_once(disk):
    disk.open()
    assert stat.S_IMODE(os.stat(disk.path).st_mode) == 0o600
    with pytest.raises(StoreUnusableError, match="another process has it open"):
        disk.open()


@pytest.mark.parametrize("content", [b"not a database, but quite long" * 100, b"short"])
def test_file_that_is_not_a_store_is_rejected_and_unchanged(disk, content):
    disk.path.write_bytes(content)
    with pytest.raises(StoreUnusableError, match="file is not a database"):
        disk.open()
    assert disk.path.read_bytes() == content


def test_a_store_of_another_version_is_refused(disk):
    disk.open()
    disk.close()
    with sqlite3.connect(disk.path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(StoreUnusableError, match="written in format 7, this version reads format 1"):
        disk.open()


def test_a_failed_commit_is_reported_and_never_acknowledged(disk):
    api = disk.open()
    disk.settle(api)
    disk._stores[0]._connection.execute("PRAGMA query_only = ON")  # fails like a full disk
    api.create("pods", api.pod())
    assert isinstance(disk.failures.get(timeout=10), sqlite3.Error)
    assert not answered(api)


BIG = {"blob": "x" * 200_000}


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": data}


def test_full_disk_undoes_pending_commits_and_later_writes_succeed(disk):
    api = disk.open()
    kept = api.create("configmaps", config_map("kept", **BIG)).obj
    disk.settle(api)
    revision, listener = api.server.revision, api.watch("configmaps")
    disk.leave_room(20)
    api.create("configmaps", config_map("large", **BIG))
    api.create("configmaps", config_map("behind"))  # has space, but depends on the commit that has none
    api.delete("configmaps", "kept")
    waiting, late = answered(api), api.watch("configmaps")
    disk.settle_refused()

    assert (waiting, api.server.revision) == ([], revision)
    assert api.list("configmaps").obj["items"] == [kept]
    (error,) = late.events
    assert (error["type"], error["object"]["code"]) == ("ERROR", 500)
    assert error["object"]["message"] == "etcdserver: mvcc: database space exceeded"

    api.create("configmaps", config_map("small"))
    disk.settle(api)
    disk.leave_room(None)
    api.create("configmaps", config_map("large", **BIG))
    disk.settle(api)
    assert listener.seen == [("ADDED", "kept"), ("ADDED", "small"), ("ADDED", "large")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in listener.events]
    assert versions == [revision, revision + 1, revision + 2]
    disk.close()
    assert disk.open().list("configmaps").names == ["kept", "large", "small"]
    assert disk.failures.empty()


def test_deletions_make_space_on_a_full_disk(disk):
    api = disk.open()
    for i in range(5):
        api.create("configmaps", config_map(f"c{i}", **BIG))
    disk.settle(api)
    disk.leave_room(0)
    api.create("configmaps", config_map("more", **BIG))
    disk.settle_refused()
    api.delete("configmaps", "c0")
    disk.settle(api)
    api.create("configmaps", config_map("more", **BIG))
    disk.settle(api)
    assert api.list("configmaps").names == ["c1", "c2", "c3", "c4", "more"]


def test_undone_changes_are_undone_in_derived_state(disk):
    """Kinds of CustomResourceDefinitions, terminating namespaces, owners, and expired events."""
    api = disk.open()
    names = {"plural": "things", "kind": "Thing"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {}}}]
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    owner = api.create("replicasets", api.replicaset("rs")).obj
    api.create("namespaces", {"metadata": {"name": "team"}})
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    api.create("events", {"metadata": {"name": "e"}, "involvedObject": about, "reason": "R", "type": "Normal"})
    disk.settle(api)
    disk.leave_room(0)
    api.create("configmaps", config_map("large", **BIG))
    api.create("customresourcedefinitions", {"metadata": {"name": "things.example.com"}, "spec": spec})
    api.delete("namespaces", "team")
    api.create("pods", api.owned(api.pod("owned"), owner))
    api.advance(3601)
    assert not api.exists("events", "e")
    disk.settle_refused()
    disk.leave_room(None)

    assert api.send("GET", "/apis/example.com/v1/things").status == 404
    assert api.create("pods", api.pod("p"), namespace="team").status == 201
    api.delete("replicasets", "rs", {"propagationPolicy": "Background"})
    assert api.list("pods").names == []
    assert api.exists("events", "e")
    api.advance(1)
    assert not api.exists("events", "e")
    disk.settle(api)


def test_file_shrinks_after_deletions(disk):
    api = disk.open()
    for i in range(60):
        api.create("configmaps", config_map(f"c{i}", **BIG))
    disk.settle(api)
    api.send("DELETE", "/api/v1/namespaces/default/configmaps")
    for _ in range(12):  # some pages are freed with each commit
        api.create("configmaps", config_map("small"))
        api.delete("configmaps", "small")
        disk.settle(api)
    (pages,) = disk._stores[0]._connection.execute("PRAGMA page_count").fetchone()
    assert pages < 1500  # it was more than 3000
    disk.close()
    assert disk.path.stat().st_size < 1500 * 4096
    assert disk.open().list("configmaps").names == []


def test_a_file_of_an_earlier_version_can_shrink_too(disk):
    api = disk.open()
    api.create("configmaps", config_map("kept"))
    disk.settle(api)
    disk.close()
    with sqlite3.connect(disk.path, isolation_level=None) as connection:
        connection.executescript("PRAGMA journal_mode=DELETE; PRAGMA auto_vacuum=NONE; VACUUM;")
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    connection.close()
    again = disk.open()
    assert disk._stores[0]._connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert again.list("configmaps").names == ["kept"]


def test_write_ahead_log_is_checkpointed(disk):
    api = disk.open()
    for i in range(100):
        api.create("configmaps", config_map("c", n=str(i), **BIG))
        api.delete("configmaps", "c")
        disk.settle(api)
    assert disk.path.with_name("cluster.db-wal").stat().st_size < 16 * 1024 * 1024  # although 20 MB were written


# Ways to lose the store, given its file.
LOSSES: dict[str, Callable[[Path], object]] = {
    "its directory is deleted": lambda path: shutil.rmtree(path.parent),
    "its directory is moved": lambda path: path.parent.rename(path.parent.with_name("elsewhere")),
    "its file is deleted": lambda path: path.unlink(),
    "its log is deleted": lambda path: path.with_name("cluster.db-wal").unlink(),
    "its file is replaced": lambda path: os.replace(shutil.copy(path, path.with_name("copy")), path),
}


@pytest.mark.parametrize("how", LOSSES)
def test_no_write_is_acknowledged_after_the_file_is_lost(make_api, tmp_path, how):
    (tmp_path / "kcm").mkdir()
    disk = Disk(make_api, tmp_path / "kcm" / "cluster.db")
    api = disk.open()
    disk.settle(api)
    assert disk._stores[0].lost() is None
    LOSSES[how](disk.path)
    api.create("pods", api.pod())
    lost = disk.failures.get(timeout=10)
    assert isinstance(lost, StoreLostError)
    assert "was deleted, moved or replaced while the server had it open" in str(lost)
    assert not answered(api)
    assert str(disk._stores[0].lost()) == str(lost)
    disk.close()


def test_reopened_store_is_not_reported_as_lost(disk):
    api = disk.open()
    api.create("pods", api.pod())
    disk.settle(api)
    disk.close()
    again = disk.open()
    assert disk._stores[0].lost() is None
    again.create("pods", again.pod("b"))
    disk.settle(again)
    assert disk._stores[0].lost() is None


KILLED = """
import queue, sys
from pathlib import Path
import orjson
from kcm.runtime.client.api import Request
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.storage.sqlite_store import ENOUGH, MOST_TURNS, ROWS, SqliteStore

class Clock:
    def now(self):
        return 1e9

posted = queue.SimpleQueue()
store = SqliteStore(Path(sys.argv[1]), post=posted.put, soon=lambda hand_over: hand_over(), refused=print, failed=print)
server = ApiServer(store=store, clock=Clock())
body = orjson.dumps({"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
while True:
    for _ in range(20):
        response = server.handle(Request(method="POST", path="/api/v1/namespaces/default/pods", body=body))
        meta = orjson.loads(response.body)["metadata"]
        line = meta["name"] + " " + meta["resourceVersion"]
        server.when_durable(lambda line=line: print(line, flush=True))
    posted.get()()
"""


def test_acknowledged_writes_survive_sigkill(disk):
    command = [sys.executable, "-c", KILLED, str(disk.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().split() for _ in range(300)]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().splitlines(keepends=True)
    acknowledged += [line.split() for line in rest if line.endswith("\n")]
    api = disk.open()
    there = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in api.list("pods").obj["items"]}
    assert dict(acknowledged).items() <= there.items()
    assert api.server.revision >= max(int(version) for version in there.values())


def test_memory_store_is_durable_at_once(make_api):
    api = make_api(MemoryStore())
    listener = api.watch("pods")
    api.create("pods", api.pod())
    assert answered(api)
    assert listener.seen == [("ADDED", "web")]


def test_any_failure_of_the_writer_is_reported(tmp_path):
    failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()
    store = SqliteStore(tmp_path / "db", post=at_once, soon=at_once, refused=print, failed=failures.put)
    store.commit([StoreChange("ADDED", "pods", "default/a", 2**70, b"{}", b"")], lambda: None)
    assert isinstance(failures.get(timeout=10), OverflowError)
    store.close()


def test_error_in_a_watcher_does_not_affect_others(api):
    broken, sound = api.watch("pods"), api.watch("pods")
    ended = []

    def deliver(_lines):
        raise RuntimeError("a mistake")

    broken.watch._deliver, broken.watch._end = deliver, ended.append
    with pytest.raises(ExceptionGroup):
        api.create("pods", api.pod("a"))
    api.create("pods", api.pod("b"))
    assert sound.seen == [("ADDED", "a"), ("ADDED", "b")]
    assert len(ended) == 1


def test_object_that_sqlite_cannot_take_is_refused_and_later_writes_succeed(disk):
    api = disk.open()
    api.create("configmaps", config_map("kept"))
    disk.settle(api)
    disk.leave_length(20_000)
    api.create("configmaps", config_map("large", text="x" * 30_000))
    disk.settle_refused()
    assert disk.failures.empty()
    assert api.list("configmaps").names == ["kept"]
    api.create("configmaps", config_map("small"))
    disk.settle(api)
    disk.close()
    assert disk.open().list("configmaps").names == ["kept", "small"]
