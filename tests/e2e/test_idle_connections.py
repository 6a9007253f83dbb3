"""Everybody who reaches a port opens connections and says nothing: few descriptors, and the cluster works on."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.e2e.conftest import in_namespace
from tests.e2e.programs import Manager, Program, ending, free_port, spawn, until, until_working
from tests.e2e.scenarios import workload

# The API server keeps 128 for itself, the manager's own connections are some 70: that many again for strangers, or the
# newest would have to make room for one another.
DESCRIPTORS = 280
IDLE = 320  # connections to each port


@contextmanager
def limited(directory: Path, secure_port: int) -> Iterator[Manager]:
    """Run kcm with an embedded cluster and a limit of descriptors for each process."""
    plain = free_port()
    flags = (
        f"--embedded-dir={directory / 'kcm'}",
        "--hollow-nodes=2",
        f"--secure-port={secure_port}",
        "--address=127.0.0.1",
        f"--port={plain}",
        "--v=2",  # until_working looks for lines of that verbosity
    )
    command = [sys.executable, "-P", "-m", "kcm.actors.command", *flags]
    limit = ["sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh"]
    program = spawn([*limit, *command], directory / "kcm.log")
    manager = Manager(program, f"http://127.0.0.1:{plain}")
    with ending(program):
        until_working(manager)
        yield manager


@contextmanager
def idle_connections(port: int) -> Iterator[None]:
    """Open connections, with a complete handshake unless the server refuses it."""
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    with ExitStack() as opened:
        for _ in range(IDLE):
            plain = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=2.0))
            try:
                opened.enter_context(unverified.wrap_socket(plain))
            except OSError:  # the server could not, or would not
                continue
        yield


def secure_health(port: int) -> int:
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10.0, context=unverified)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    finally:
        connection.close()


def most_descriptors(program: Program) -> int:
    return max(len(os.listdir(f"/proc/{pid}/fd")) for pid in (program.process.pid, *program.descendants()))


def test_idle_connections_take_neither_the_probe_nor_the_work_away(tmp_path: Path) -> None:
    port = free_port()
    with limited(tmp_path, port) as manager:
        kubectl = in_namespace(tmp_path / "kcm" / "kubeconfig", "t")
        api_port = int(kubectl.api.url.rpartition(":")[2])
        with idle_connections(port), idle_connections(api_port):
            assert secure_health(port) == 200
            kubectl.apply(workload("Deployment", "web", 3, "web:1"))
            kubectl.until_pods(3)
            until(manager.healthy, "all is well", why=manager.program.text)
            assert most_descriptors(manager.program) < DESCRIPTORS
        text = manager.program.text()
        assert "Too many open files" not in text
        assert text.count('"too many connections') == 2  # the manager's port, and the server's
