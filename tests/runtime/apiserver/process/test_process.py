import asyncio
import base64
import os
import resource
import shutil
import signal
import socket
import sqlite3
import ssl
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from kcm.runtime.apiserver.process.launch import EmbeddedServer, LaunchError, launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.runtime.apiserver.http.served import PODS, posted_pod


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    running = launch(ServerSettings(directory=tmp_path_factory.mktemp("shared") / "kcm"))
    yield running
    running.stop()


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """Start a server that the test may stop."""
    running = launch(ServerSettings(directory=tmp_path / "kcm"))
    yield running
    running.stop()


def ask(kubeconfig: Path, method: str, path: str, *, tls: ssl.SSLContext | None = None, **options: Any) -> Any:
    """Send a request with the kubeconfig, and return (status, JSON). With `tls`, no token is sent."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    headers = {"Authorization": f"Bearer {user['token']}"} if tls is None else {}
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = tls or ssl.create_default_context(cadata=authority)

    async def exchange() -> Any:
        async with aiohttp.ClientSession(headers=headers) as session:
            async with session.request(method, cluster["server"] + path, ssl=context, **options) as response:
                return response.status, await response.json(content_type=None)

    return asyncio.run(exchange())


def healthy(kubeconfig: Path, path: str) -> int:
    """Return the status of a health endpoint."""
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()

    async def exchange() -> int:
        async with aiohttp.ClientSession() as session:
            context = ssl.create_default_context(cadata=authority)
            async with session.get(cluster["server"] + path, ssl=context) as response:
                return int(response.status)

    return asyncio.run(exchange())


def test_kubeconfig_is_private_and_contains_the_server(server: EmbeddedServer) -> None:
    assert stat.S_IMODE(server.kubeconfig.stat().st_mode) == 0o600
    assert yaml.safe_load(server.kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == server.url
    assert ask(server.kubeconfig, "GET", "/api/v1/namespaces/default")[0] == 200
    private = {path for path in server.kubeconfig.parent.rglob("*") if path.is_file()}
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}


def test_admin_certificate_authenticates_like_the_token(server: EmbeddedServer) -> None:
    certificates = server.kubeconfig.parent / "certificates"
    context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    assert ask(server.kubeconfig, "GET", "/api/v1/pods", tls=context)[0] == 403
    context.load_cert_chain(certificates / "admin.crt", certificates / "admin.key")
    assert ask(server.kubeconfig, "GET", "/api/v1/pods", tls=context)[0] == 200


def test_acknowledged_writes_survive_a_kill(mortal: EmbeddedServer) -> None:
    assert ask(mortal.kubeconfig, "POST", PODS, json=posted_pod("a"))[0] == 201
    mortal.child.kill()
    again = launch(ServerSettings(directory=mortal.kubeconfig.parent))
    try:
        status, found = ask(again.kubeconfig, "GET", f"{PODS}/a")
        assert (status, found["metadata"]["name"]) == (200, "a")
    finally:
        again.stop()


def test_next_run_uses_the_same_port_if_it_is_free(mortal: EmbeddedServer) -> None:
    mortal.stop()
    directory = mortal.kubeconfig.parent
    again = launch(ServerSettings(directory=directory))
    again.stop()
    assert again.url == mortal.url
    config = yaml.safe_load(mortal.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = "mine"
    mortal.kubeconfig.write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", int(mortal.url.rpartition(":")[2]))):
        elsewhere = launch(ServerSettings(directory=directory))
    try:
        assert elsewhere.url != mortal.url
        assert ask(mortal.kubeconfig, "GET", "/api/v1/pods")[0] == 200
        assert yaml.safe_load(mortal.kubeconfig.read_text())["contexts"][0]["context"]["namespace"] == "mine"
    finally:
        elsewhere.stop()


def test_unreadable_kubeconfig_is_renamed(tmp_path: Path) -> None:
    (tmp_path / "kcm").mkdir(mode=0o700)
    kubeconfig = tmp_path / "kcm" / "kubeconfig"
    kubeconfig.write_text("a: [")
    server = launch(ServerSettings(directory=tmp_path / "kcm"))
    try:
        assert ask(kubeconfig, "GET", "/api/v1/pods")[0] == 200
        assert kubeconfig.with_name("kubeconfig.unreadable").read_text() == "a: ["
    finally:
        server.stop()


def test_launch_with_timeout_waits_for_the_directory(mortal: EmbeddedServer) -> None:
    threading.Timer(0.3, mortal.stop).start()
    again = launch(ServerSettings(directory=mortal.kubeconfig.parent, patience=20.0))
    try:
        assert ask(again.kubeconfig, "GET", "/api/v1/pods")[0] == 200
    finally:
        again.stop()


def test_full_disk_only_fails_writes(mortal: EmbeddedServer) -> None:
    written = max(path.stat().st_size for path in mortal.kubeconfig.parent.iterdir())
    _, hard = resource.prlimit(mortal.child.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(mortal.child.pid, resource.RLIMIT_FSIZE, (written, hard))
    maps = "/api/v1/namespaces/default/configmaps"
    large = {"metadata": {"name": "a"}, "data": {"a": "b" * 900_000}}  # more than the initial size of the store
    for _ in range(2):
        status, refused = ask(mortal.kubeconfig, "POST", maps, json=large)
        assert (status, refused["message"]) == (500, "etcdserver: mvcc: database space exceeded")
        assert "reason" not in refused
        assert ask(mortal.kubeconfig, "GET", f"{maps}/a")[0] == 404
    resource.prlimit(mortal.child.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert ask(mortal.kubeconfig, "POST", maps, json=large)[0] == 201
    mortal.child.kill()
    again = launch(ServerSettings(directory=mortal.kubeconfig.parent))
    try:
        assert ask(again.kubeconfig, "GET", f"{maps}/a")[0] == 200
    finally:
        again.stop()


def test_writes_fail_within_seconds_after_the_directory_is_deleted(mortal: EmbeddedServer, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    shutil.copy(mortal.kubeconfig, kubeconfig)
    assert ask(kubeconfig, "POST", PODS, json=posted_pod("a"))[0] == 201
    shutil.rmtree(mortal.kubeconfig.parent)
    status, refused = ask(kubeconfig, "POST", PODS, json=posted_pod("b"))
    assert (status, refused["reason"]) == (503, "ServiceUnavailable")
    assert refused["message"].startswith("the store is lost: ")
    assert "cluster.db was deleted, moved or replaced" in refused["message"]
    assert ask(kubeconfig, "GET", PODS)[0] == 503
    assert mortal.child.exit_code is None


def test_deleted_directory_is_detected_without_writes(mortal: EmbeddedServer, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    shutil.copy(mortal.kubeconfig, kubeconfig)
    shutil.rmtree(mortal.kubeconfig.parent)
    deadline = time.monotonic() + 10.0
    while (ready := healthy(kubeconfig, "/readyz")) == 200:
        assert time.monotonic() < deadline, "not noticed within 10 s"
        time.sleep(0.1)
    assert (ready, healthy(kubeconfig, "/livez")) == (500, 500)


def test_directory_is_used_by_one_server_only(server: EmbeddedServer) -> None:
    with pytest.raises(LaunchError, match=rf"kcm is in use by process {server.child.pid}$"):
        launch(ServerSettings(directory=server.kubeconfig.parent))
    assert ask(server.kubeconfig, "GET", "/api/v1/pods")[0] == 200


def test_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        complaint = (
            rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use \(--embedded-port=0 takes a free one\)$"
        )
        with pytest.raises(LaunchError, match=complaint):
            launch(ServerSettings(directory=tmp_path / "kcm", port=port))


def test_path_that_is_not_a_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LaunchError, match=r"did not start: cannot use .*/file: File exists$"):
        launch(ServerSettings(directory=tmp_path / "file"))


def test_server_ends_with_its_parent_process(mortal: EmbeddedServer) -> None:
    mortal.child.stop(15.0)  # closes its standard input, as the kernel does when the parent process dies
    assert mortal.child.exit_code == 0


def test_server_shuts_down_gracefully_on_sigterm(mortal: EmbeddedServer) -> None:
    os.kill(mortal.child.pid, signal.SIGTERM)
    assert mortal.child.wait() == 0


def test_a_server_that_prints_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"not ready after 0\.001 s"):
        launch(ServerSettings(directory=tmp_path / "kcm"), ready_within=0.001)


def test_kubernetes_service_has_the_address_of_the_server(server: EmbeddedServer) -> None:
    endpoints = ask(server.kubeconfig, "GET", "/api/v1/namespaces/default/endpoints/kubernetes")[1]
    port = int(server.url.rpartition(":")[2])
    assert endpoints["subsets"][0]["ports"][0]["port"] == port


def test_a_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "kcm"
    directory.mkdir()
    directory.chmod(0o775)
    with pytest.raises(LaunchError, match=r"kcm can be written by others: chmod -R go-w "):
        launch(ServerSettings(directory=directory))


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("name", ["token", "kubeconfig", "managers"])
def test_a_file_that_another_user_has_planted_is_refused(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "kcm"
    directory.mkdir(mode=0o700)
    (directory / name).write_text("planted")
    os.chown(directory / name, 12345, -1)
    with pytest.raises(LaunchError, match=rf"{name} belongs to another user \(uid 12345\)"):
        launch(ServerSettings(directory=directory))


@pytest.mark.parametrize("content", [b"no database, but long enough for a header" * 99, b""])
def test_corrupt_database_is_reported_in_one_line(tmp_path: Path, content: bytes) -> None:
    directory = tmp_path / "kcm"
    directory.mkdir(mode=0o700)
    database = directory / "cluster.db"
    if content:
        database.write_bytes(content)
    else:
        with sqlite3.connect(database) as connection:
            connection.executescript(
                "CREATE TABLE objects (storage TEXT, key TEXT, revision INTEGER, body BLOB);"
                "CREATE TABLE newest (revision INTEGER); INSERT INTO newest VALUES (1);"
                "INSERT INTO objects VALUES ('pods', 'default/a', 1, 'no JSON'); PRAGMA user_version=1;"
            )
        connection.close()
    database.chmod(0o600)
    reason = r"cluster\.db: file is not a database" if content else r"the stored object pods default/a cannot be read"
    with pytest.raises(LaunchError, match=reason):
        launch(ServerSettings(directory=directory))
