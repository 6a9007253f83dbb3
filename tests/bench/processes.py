"""The processes that are measured: our manager, the real one, and the servers they work on."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kcm.actors.app.connection import connect
from kcm.protocols.admission_plugins import NEED_CONTROLLERS, SERVICE_ACCOUNT
from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from kcm.runtime.client.api import JSON, Request, Response
from kcm.runtime.client.connection_settings import load_config
from kcm.runtime.client.transport import HttpTransport
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import SystemClock
from tests.bench.isolation import ROOT
from tests.bench.writes import audit_flags

TICKS = os.sysconf("SC_CLK_TCK")
LIFTED = ("--kube-api-qps=5000", "--kube-api-burst=10000")
CONTROLLERS = "replicationcontroller,replicaset,deployment"
READY_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """An API server to work on. name: what the table calls it. pids: of the server, and of its etcd."""

    name: str
    kubeconfig: Path
    pids: tuple[int, ...] = ()

    def cpu(self) -> float:
        """Seconds of CPU that its processes have used so far."""
        return sum(cpu_of(pid) for pid in self.pids)

    def resident(self) -> float:
        """MB of the server, without its etcd."""
        return resident_of(self.pids[0])


class Hand:
    """The benchmark's own connection to a server."""

    def __init__(self, cluster: Cluster) -> None:
        self._clock, metrics = SystemClock(), Metrics()
        config = load_config(
            kubeconfig=str(cluster.kubeconfig), master=None, environ={}, clock=self._clock, metrics=metrics
        )
        log = structlog.wrap_logger(None, processors=[_drop])
        self._transport: HttpTransport = connect(config, clock=self._clock, metrics=metrics, log=log)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        query: dict[str, str] | None = None,
        content_type: str = JSON,
    ) -> Response:
        request = Request(
            method=method, path=path, body=body, query=query or {}, content_type=content_type, timeout=60.0
        )
        return self._transport.request(request, client="bench", timeout=60.0)

    @contextlib.contextmanager
    def watching(self, path: str, on_lines: Callable[[bytes], None]) -> Iterator[None]:
        """on_lines: as kcm.runtime.client.api.Transport.watch has it; first what is there is told as ADDED."""
        request = Request(method="GET", path=path, query={"watch": "true"}, timeout=60.0)
        stream = self._transport.watch(request, client="bench", on_lines=on_lines, on_end=lambda _end: None)
        try:
            yield
        finally:
            stream.cancel()

    def close(self) -> None:
        self._transport.close(1.0)
        self._clock.close()


class Process:
    """A started program, and what /proc says of it."""

    def __init__(self, argv: Sequence[str], *, log: Path) -> None:
        self.began = time.monotonic()
        # With bytecode, as it is run: without it each start compiles all of kcm.
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with log.open("wb") as out:
            self._popen = subprocess.Popen(argv, stdout=out, stderr=out, start_new_session=True, env=environ)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        return cpu_of(self.pid)

    def resident(self) -> float:
        """MB."""
        return resident_of(self.pid)

    def peak(self) -> float:
        """MB, the most so far."""
        return peak_of(self.pid)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_of(pid: int) -> float:
    """MB."""
    return _megabytes(pid, "VmRSS")


def peak_of(pid: int) -> float:
    """MB, the most so far."""
    return _megabytes(pid, "VmHWM")


def _megabytes(pid: int, figure: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{figure}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def our_manager(cluster: Cluster, directory: Path, *flags: str, controllers: str = CONTROLLERS) -> Process:
    argv = [sys.executable, "-P", "-m", "kcm.actors.command", f"--kubeconfig={cluster.kubeconfig}"]
    more = ["--leader-elect=false", "--secure-port=0", f"--controllers={controllers}"]
    return Process([*argv, *more, *flags], log=directory / "ours.log")


def real_manager(cluster: Cluster, directory: Path, *flags: str, controllers: str = CONTROLLERS) -> Process:
    argv = [str(assets() / "kube-controller-manager"), f"--kubeconfig={cluster.kubeconfig}", "--leader-elect=false"]
    more = ["--bind-address=127.0.0.1", "--secure-port=0", f"--controllers={controllers}"]
    return Process([*argv, *more, f"--flex-volume-plugin-dir={directory}/flex", *flags], log=directory / "real.log")


@contextlib.contextmanager
def hollow_nodes(cluster: Cluster, *, nodes: int, zones: int) -> Iterator[None]:
    """Nodes, kubelets and a scheduler of ours, in a process of their own."""
    argv = [sys.executable, "-P", "-m", "kcm.actors.hollow.process", f"--kubeconfig={cluster.kubeconfig}"]
    process = subprocess.Popen(
        [*argv, f"--nodes={nodes}", f"--zones={zones}"],
        stdin=subprocess.PIPE,  # it ends when this is closed
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def players(cluster: Cluster, namespace: str, *, nodes: int, ends: bool = False) -> Iterator[None]:
    """What a scheduler and kubelets do for the pods of a namespace, see kubelets.py. ends: the pods succeed."""
    argv = [sys.executable, "-m", "tests.bench.kubelets", str(cluster.kubeconfig), namespace, str(nodes)]
    process = subprocess.Popen([*argv, *(["--end"] if ends else ())], cwd=ROOT, start_new_session=True)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def assets() -> Path:
    """Where the real binaries are. Raises LookupError when KUBEBUILDER_ASSETS does not say."""
    where = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not where or not (Path(where) / "kube-apiserver").exists():
        raise LookupError("KUBEBUILDER_ASSETS names no folder with kube-apiserver")
    return Path(where)


def has_assets() -> bool:
    try:
        assets()
    except LookupError:
        return False
    return True


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="kcm-bench-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def embedded_cluster(*, disabled: Sequence[str] = tuple(NEED_CONTROLLERS)) -> Iterator[Cluster]:
    """Ours, on disk, without nodes; nothing stands in for controllers. disabled: admission plugins."""
    with scratch() as directory:
        server = launch(
            ServerSettings(directory=directory, collect_garbage=False, empty_namespaces=False, disable_plugins=disabled)
        )
        try:
            yield Cluster("embedded", server.kubeconfig, (server.child.pid,))
        finally:
            server.stop()


@contextlib.contextmanager
def real_cluster(*, audited: Path | None = None, disabled: Sequence[str] = (SERVICE_ACCOUNT,)) -> Iterator[Cluster]:
    """etcd and kube-apiserver on loopback, without nodes. audited: a directory for its audit log, see writes.py.
    disabled: admission plugins.
    """
    with scratch() as directory:
        etcd_port, peer_port, port = _free_ports(3)
        key = directory / "sa.key"
        public = _write_key(key)
        (directory / "tokens.csv").write_text('bench,admin,admin,"system:masters"\n')
        etcd = Process(
            [
                str(assets() / "etcd"),
                f"--data-dir={directory}/etcd",
                f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
                f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
                f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
                "--log-level=error",
            ],
            log=directory / "etcd.log",
        )
        server = Process(
            [
                str(assets() / "kube-apiserver"),
                f"--etcd-servers=http://127.0.0.1:{etcd_port}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={directory}/certs",
                f"--token-auth-file={directory}/tokens.csv",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={public}",
                f"--service-account-signing-key-file={key}",
                f"--disable-admission-plugins={','.join(disabled)}",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--endpoint-reconciler-type=none",
                "--max-requests-inflight=4000",
                "--max-mutating-requests-inflight=2000",
                *(audit_flags(audited) if audited is not None else ()),
            ],
            log=directory / "apiserver.log",
        )
        cluster = Cluster("kube-apiserver", directory / "kubeconfig", (server.pid, etcd.pid))
        cluster.kubeconfig.write_text(_kubeconfig(port))
        try:
            _wait_until_ready(cluster)
            yield cluster
        finally:
            server.kill()
            etcd.kill()


def _kubeconfig(port: int) -> str:
    server = f'{{server: "https://127.0.0.1:{port}", insecure-skip-tls-verify: true}}'
    return (
        f"apiVersion: v1\nkind: Config\nclusters: [{{name: b, cluster: {server}}}]\n"
        "users: [{name: b, user: {token: bench}}]\ncontexts: [{name: b, context: {cluster: b, user: b}}]\n"
        "current-context: b\n"
    )


def _wait_until_ready(cluster: Cluster) -> None:
    hand = Hand(cluster)
    try:
        deadline = time.monotonic() + READY_WITHIN
        while hand.ask("GET", "/readyz").status != 200:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{cluster.name} did not get ready")
            time.sleep(0.2)
    finally:
        hand.close()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _write_key(path: Path) -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    public = path.with_suffix(".pub")
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return public


def _drop(*_: object) -> str:
    raise structlog.DropEvent
