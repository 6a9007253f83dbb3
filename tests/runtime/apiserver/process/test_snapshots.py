"""Snapshots of running and stopped clusters."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcm.actors.app.connection import api_transport
from kcm.actors.command import snapshot as command
from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from kcm.runtime.apiserver.process.snapshots import Send, SnapshotError, restore, save
from kcm.runtime.apiserver.storage.snapshots import SKIPPED
from kcm.runtime.apiserver.storage.sqlite_store import SqliteStore
from kcm.runtime.apiserver.storage.store import StoreChange
from kcm.runtime.client.api import Request
from tests.runtime.apiserver.http.served import PODS, posted_pod
from tests.runtime.apiserver.process.test_process import ask


def at_once(callback: Callable[[], None]) -> None:
    callback()


def nobody() -> Send:
    raise AssertionError("no server runs")


@pytest.fixture
def idle(tmp_path: Path) -> Path:
    """Return the directory of a stopped server, with one pod at revision 7."""
    directory = tmp_path / "idle"
    directory.mkdir(mode=0o700)
    store = SqliteStore(directory / "cluster.db", post=at_once, soon=at_once, refused=print, failed=print)
    store.commit([StoreChange("ADDED", "pods", "default/a", 7, b'{"metadata":{"name":"a"}}', b"")], lambda: None)
    store.close()
    return directory


def held(directory: Path) -> tuple[int, list[Any]]:
    store = SqliteStore(directory / "cluster.db", post=at_once, soon=at_once, refused=print, failed=print)
    try:
        return store.revision(), [(record.key, record.revision) for record in store.load()]
    finally:
        store.close()


def test_snapshot_of_a_running_cluster_is_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = launch(ServerSettings(directory=tmp_path / "kcm"))
    saved, restored = tmp_path / "saved", tmp_path / "restored"
    try:
        assert ask(server.kubeconfig, "POST", PODS, json=posted_pod("kept"))[0] == 201
        assert command.main(["save", str(saved), f"--embedded-dir={tmp_path / 'kcm'}"]) == 0
        _, late = ask(server.kubeconfig, "POST", PODS, json=posted_pod("late"))
        assert command.main(["save", str(saved), f"--embedded-dir={tmp_path / 'kcm'}"]) == 1
        assert capsys.readouterr().err == f"Error: {saved} exists already\n"
        assert not list((tmp_path / "kcm").glob("snapshot-*"))
        assert stat.S_IMODE(saved.stat().st_mode) == 0o600
        with api_transport(server.kubeconfig) as transport:  # of an account without secrets
            path = "/api/v1/namespaces/default/serviceaccounts/poor"
            body = b'{"metadata":{"name":"poor"}}'
            transport.request(Request(method="POST", path=path.rpartition("/")[0], body=body), client="test", timeout=9)
        token = ask(server.kubeconfig, "POST", f"{path}/token", json={"spec": {}})[1]["status"]["token"]
        headers = {"Authorization": f"Bearer {token}"}
        status, refused = ask(server.kubeconfig, "POST", "/kcm/snapshot", headers=headers)
        assert (status, refused["reason"]) == (403, "Forbidden")
        assert refused["message"] == (
            'forbidden: User "system:serviceaccount:default:poor" cannot post path "/kcm/snapshot"'
        )
    finally:
        server.stop()

    assert command.main(["restore", str(saved), f"--embedded-dir={restored}"]) == 0
    assert command.main(["restore", str(saved), f"--embedded-dir={restored}"]) == 1
    assert capsys.readouterr().err == f"Error: {restored} is not empty\n"
    again = launch(ServerSettings(directory=restored))
    try:
        _, pods = ask(again.kubeconfig, "GET", PODS)
        assert [pod["metadata"]["name"] for pod in pods["items"]] == ["kept"]
        seen = int(late["metadata"]["resourceVersion"])
        _, new = ask(again.kubeconfig, "POST", PODS, json=posted_pod("new"))
        assert int(new["metadata"]["resourceVersion"]) > max(seen, SKIPPED)
        _, gone = ask(again.kubeconfig, "GET", f"{PODS}?watch=1&resourceVersion={seen}")
        assert (gone["type"], gone["object"]["code"]) == ("ERROR", 410)
    finally:
        again.stop()


def test_stopped_cluster_is_saved_without_a_server(idle: Path, tmp_path: Path) -> None:
    save(idle, tmp_path / "saved", nobody)
    assert restore(tmp_path / "saved", tmp_path / "new" / "cluster") == 7
    assert held(tmp_path / "new" / "cluster") == (7 + SKIPPED, [("default/a", 7)])
    assert held(idle) == (7, [("default/a", 7)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["idle", "new", "saved"]


def test_error_names_what_cannot_be_saved(idle: Path, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"new contains no cluster$"):
        save(tmp_path / "new", tmp_path / "saved", nobody)
    with pytest.raises(SnapshotError, match=r"^cannot write .*/nowhere/saved: No such file or directory$"):
        save(idle, tmp_path / "nowhere" / "saved", nobody)
    assert sorted(path.name for path in idle.iterdir()) == ["cluster.db", "lock"]


def test_invalid_snapshot_is_named_and_leaves_no_files(idle: Path, tmp_path: Path) -> None:
    file, to = tmp_path / "file", tmp_path / "to"
    with pytest.raises(SnapshotError, match=r"^cannot restore .*/file: No such file or directory$"):
        restore(file, to)
    file.write_bytes(b"no database, but long enough for a header" * 99)
    with pytest.raises(SnapshotError, match=r"/file is not a valid snapshot: file is not a database$"):
        restore(file, to)
    file.unlink()
    sqlite3.connect(file).close()
    with pytest.raises(
        SnapshotError, match=r"/file is not a valid snapshot: it is of format 0, this version reads format 1$"
    ):
        restore(file, to)
    assert os.listdir(to) == ["lock"]


def test_failed_copy_does_not_affect_the_server(tmp_path: Path) -> None:
    outcomes: list[Exception | None] = []
    store = SqliteStore(tmp_path / "db", post=at_once, soon=at_once, refused=print, failed=print)
    (tmp_path / "taken").touch()
    store.copy(tmp_path / "taken", outcomes.append)
    store.commit([StoreChange("ADDED", "pods", "default/a", 1, b"{}", b"")], lambda: None)
    store.copy(tmp_path / "whole", outcomes.append)
    store.close()
    assert isinstance(outcomes[0], FileExistsError)
    assert outcomes[1:] == [None]
    assert (tmp_path / "taken").stat().st_size == 0
