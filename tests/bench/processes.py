"""The measured processes: kcm, kube-controller-manager, and the API servers."""

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
RAISED_LIMITS = ("--kube-api-qps=5000", "--kube-api-burst=10000")
CONTROLLERS = "replicationcontroller,replicaset,deployment"
READY_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """API server to work on."""

    name: str  # in the table
    kubeconfig: Path
    pids: tuple[int, ...] = ()  # of the server, and of its etcd

    def cpu(self) -> float:
        """Return the CPU seconds that its processes have used so far."""
        return sum(cpu_of(pid) for pid in self.pids)

    def resident(self) -> float:
        """Return the resident memory of the server without its etcd, in MB."""
        return resident_of(self.pids[0])


class ApiConnection:
    """The benchmark's own connection to a server."""

    def __init__(self, cluster: Cluster) -> None:
        self._clock, metrics = SystemClock(), Metrics()
        config = load_config(
            kubeconfig=str(cluster.kubeconfig), master=None, environ={}, clock=self._clock, metrics=metrics
        )
        log = structlog.wrap_logger(None, processors=[_drop])
        self._transport: HttpTransport = connect(config, clock=self._clock, metrics=metrics, log=log)

    def request(
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
        """Watch a collection inside the `with` block. The existing objects come first, as ADDED.

        on_lines: as in kcm.runtime.client.api.Transport.watch
        """
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
    """A started program, and its figures in /proc."""

    def __init__(self, argv: Sequence[str], *, log: Path) -> None:
        self.began = time.monotonic()
        # With bytecode files, as users run it: without them each start compiles all of kcm.
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with log.open("wb") as out:
            self._popen = subprocess.Popen(argv, stdout=out, stderr=out, start_new_session=True, env=environ)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def cpu(self) -> float:
        """Return the CPU seconds used so far."""
        return cpu_of(self.pid)

    def demand(self) -> float:
        """Return the seconds for which its threads have run, or waited for a processor, so far."""
        total = 0
        for schedstat in Path(f"/proc/{self.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # the thread has ended
                running, waiting, _ = schedstat.read_text().split()
                total += int(running) + int(waiting)
        return total / 1e9

    def resident(self) -> float:
        """Return the resident memory in MB."""
        return resident_of(self.pid)

    def peak(self) -> float:
        """Return the maximum of the resident memory so far, in MB."""
        return peak_of(self.pid)

    def forget_peak(self) -> None:
        """Let `peak` return the maximum from now on."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def is_running(self) -> bool:
        return self._popen.poll() is None

    def send_signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_of(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    return _megabytes(pid, "VmRSS")


def peak_of(pid: int) -> float:
    """Return the maximum of the resident memory of a process so far, in MB."""
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
def hollow_nodes(
    cluster: Cluster, *, nodes: int, zones: int, attach: bool = False, devices: bool = False
) -> Iterator[None]:
    """Run kcm's hollow nodes and scheduler in a separate process.

    attach: with volumes that must be attached.
    devices: with devices that the scheduler allocates.
    """
    argv = [sys.executable, "-P", "-m", "kcm.actors.hollow.process", f"--kubeconfig={cluster.kubeconfig}"]
    process = subprocess.Popen(
        [
            *argv,
            f"--nodes={nodes}",
            f"--zones={zones}",
            *(["--volumes", "--attach"] if attach else []),
            *(["--devices"] if devices else []),
        ],
        stdin=subprocess.PIPE,  # the process ends when this is closed
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def simulated_kubelets(cluster: Cluster, namespace: str, *, nodes: int, ends: bool = False) -> Iterator[None]:
    """Run the simulated scheduler and kubelets of kubelets.py for the pods of a namespace.

    namespace: "" for all namespaces
    ends: the pods succeed
    """
    argv = [sys.executable, "-m", "tests.bench.kubelets", str(cluster.kubeconfig), namespace, str(nodes)]
    process = subprocess.Popen([*argv, *(["--end"] if ends else ())], cwd=ROOT, start_new_session=True)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def assets() -> Path:
    """Return the directory of the real binaries. Raises LookupError if KUBEBUILDER_ASSETS does not name it."""
    directory = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not directory or not (Path(directory) / "kube-apiserver").exists():
        raise LookupError("KUBEBUILDER_ASSETS names no folder with kube-apiserver")
    return Path(directory)


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
def embedded_cluster(
    *,
    disabled: Sequence[str] = tuple(NEED_CONTROLLERS),
    directory: Path | None = None,
    ready_within: float = READY_TIMEOUT,
) -> Iterator[Cluster]:
    """Run kcm's API server, on disk, without nodes or stand-ins for controllers.

    disabled: admission plugins
    directory: of the server's data; None for a new one that is removed
    ready_within: maximum seconds until it has read its data
    """
    with contextlib.ExitStack() as closing:
        settings = ServerSettings(
            directory=closing.enter_context(scratch()) if directory is None else directory,
            collect_garbage=False,
            empty_namespaces=False,
            disable_plugins=disabled,
        )
        server = launch(settings, ready_within=ready_within)
        closing.callback(server.stop)
        yield Cluster("embedded", server.kubeconfig, (server.child.pid,))


@dataclass(frozen=True, slots=True)
class Etcd:
    """Running etcd."""

    url: str
    pid: int


@contextlib.contextmanager
def etcd(directory: Path, *flags: str) -> Iterator[Etcd]:
    """Run etcd on loopback. The server may not listen yet when it is yielded.

    directory: of its data and its log
    """
    port, peer_port = _free_ports(2)
    url = f"http://127.0.0.1:{port}"
    process = Process(
        [
            str(assets() / "etcd"),
            f"--data-dir={directory}/etcd",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
            "--log-level=error",
            *flags,
        ],
        log=directory / "etcd.log",
    )
    try:
        yield Etcd(url, process.pid)
    finally:
        process.kill()


@contextlib.contextmanager
def real_cluster(
    *,
    audited: Path | None = None,
    disabled: Sequence[str] = (SERVICE_ACCOUNT,),
    store: Etcd | None = None,
    flags: Sequence[str] = (),
    ready_within: float = READY_TIMEOUT,
) -> Iterator[Cluster]:
    """Run kube-apiserver on loopback, without nodes.

    audited: directory for the audit log, see writes.py
    disabled: admission plugins
    store: None for a new etcd that is removed
    flags: of kube-apiserver, which override those that it has by default here
    ready_within: maximum seconds until it has read its objects
    """
    with contextlib.ExitStack() as closing:
        directory = closing.enter_context(scratch())
        store = store or closing.enter_context(etcd(directory))
        (port,) = _free_ports(1)
        key = directory / "sa.key"
        public = _write_key(key)
        (directory / "tokens.csv").write_text('bench,admin,admin,"system:masters"\n')
        server = Process(
            [
                str(assets() / "kube-apiserver"),
                f"--etcd-servers={store.url}",
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
                *flags,
            ],
            log=directory / "apiserver.log",
        )
        closing.callback(server.kill)
        cluster = Cluster("kube-apiserver", directory / "kubeconfig", (server.pid, store.pid))
        cluster.kubeconfig.write_text(_kubeconfig(port))
        _wait_until_ready(cluster, within=ready_within)
        yield cluster


def _kubeconfig(port: int) -> str:
    server = f'{{server: "https://127.0.0.1:{port}", insecure-skip-tls-verify: true}}'
    return (
        f"apiVersion: v1\nkind: Config\nclusters: [{{name: b, cluster: {server}}}]\n"
        "users: [{name: b, user: {token: bench}}]\ncontexts: [{name: b, context: {cluster: b, user: b}}]\n"
        "current-context: b\n"
    )


def _wait_until_ready(cluster: Cluster, *, within: float) -> None:
    api = ApiConnection(cluster)
    try:
        deadline = time.monotonic() + within
        while api.request("GET", "/readyz").status != 200:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{cluster.name} is not ready after {within:.0f} s")
            time.sleep(0.2)
    finally:
        api.close()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for sock in sockets:
        sock.bind(("127.0.0.1", 0))
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
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
