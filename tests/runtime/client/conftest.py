"""Servers on loopback, a clock that the test advances, and a client that is closed at the end of the test."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.typing import FilteringBoundLogger

from kcm.runtime.apiserver.process.certificates import Certificates, ensure_certificates
from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.config import ClientConfig
from kcm.runtime.client.credentials import ANONYMOUS, FixedCredential
from kcm.runtime.client.request_form import UserAgents
from kcm.runtime.client.transport import HttpTransport
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.simulation.clock import VirtualClock

PATIENCE = 10.0  # seconds until an expected event must occur; no test waits for the absence of an event
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
RawHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HandClock(VirtualClock):
    """Clock that the test advances, while another thread sets alarms. `alarms` receives (name, time) of each alarm."""

    def __init__(self) -> None:
        super().__init__()
        self.alarms: queue.Queue[tuple[str, float]] = queue.Queue()

    def call_at(self, who: str, when: float, what: Callable[[], None]) -> None:
        super().call_at(who, when, what)
        self.alarms.put((who, when))

    def advance(self, seconds: float) -> None:
        self.advance_to(self.monotonic() + seconds)
        while self.run_due():
            pass


class Loopback:
    """Servers on 127.0.0.1, on their own event loop and thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closers: list[Callable[[], Awaitable[Any]]] = []
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}  # raw ones, with their handlers
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def serve(self, handler: Handler, *, tls: ssl.SSLContext | None = None) -> str:
        """Start an HTTP server and return its URL."""
        return self._call(self._serve(handler, tls))

    def serve_raw(self, handler: RawHandler, *, tls: ssl.SSLContext | None = None) -> str:
        """Start a TCP server that writes what the handler writes, and return its URL."""
        return self._call(self._serve_raw(handler, tls))

    def close(self) -> None:
        for closer in reversed(self._closers):
            self._call(closer())
        self._call(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    async def _serve(self, handler: Handler, tls: ssl.SSLContext | None) -> str:
        protocols = web.Server(handler, access_log=None)
        server = await self._loop.create_server(protocols, "127.0.0.1", 0, ssl=tls)

        async def close() -> None:
            await _close(server)
            await protocols.shutdown(timeout=0.01)

        self._closers.append(close)
        return f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve_raw(self, handler: RawHandler, tls: ssl.SSLContext | None) -> str:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                with contextlib.suppress(ConnectionError):  # the client may close the connection
                    await handler(reader, writer)
            finally:
                writer.close()

        # Not a coroutine: a task that is cancelled before its first step would not close its connection.
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._connections[writer] = self._loop.create_task(handle(reader, writer))

        server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)

        self._closers.append(lambda: _close(server))
        return f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Connections whose handler had not begun, and of clients that do not read what is buffered, are still open.
        # asyncio has no public way to all transports of a loop.
        for transport in [*getattr(self._loop, "_transports", {}).values()]:
            transport.abort()
        await asyncio.sleep(0)  # the transports are closed in the next turn


async def _close(server: asyncio.Server) -> None:
    # Until Python 3.12, asyncio leaks a connection that was accepted in the turn of the event loop in which its server
    # is closed. So no more are accepted, and the server is closed a turn later.
    for listener in server.sockets:
        asyncio.get_running_loop().remove_reader(listener.fileno())
    await asyncio.sleep(0)
    server.close()


class Gate:
    """Handler that blocks requests until the test opens it.

    arrived: paths of the blocked requests.
    """

    def __init__(self) -> None:
        self._open = threading.Event()
        self.arrived: queue.Queue[str] = queue.Queue()

    def open(self) -> None:
        self._open.set()

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        self.arrived.put(request.path)
        await asyncio.to_thread(self._open.wait, PATIENCE)
        return web.Response()


class Client:
    """A transport, and the responses that it received."""

    def __init__(self, transport: HttpTransport, metrics: Metrics) -> None:
        self.transport, self.metrics = transport, metrics
        self.responses: queue.Queue[Response] = queue.Queue()

    def send(self, method: str, path: str = "/api/v1/pods", *, client: str = "tester", **fields: Any) -> None:
        self.transport.send(Request(method=method, path=path, **fields), client=client, on_response=self.responses.put)

    def response(self) -> Response:
        return self.responses.get(timeout=PATIENCE)

    def request(self, method: str = "GET", path: str = "/api/v1/pods", **fields: Any) -> Response:
        self.send(method, path, **fields)
        return self.response()

    def counted(self) -> dict[tuple[str, ...], float]:
        """Return {(family, label values except the host…): value}.

        The value of a histogram is its number of observations.
        """
        values = {}
        for family, all_series in self.metrics.collect():
            for labels, series in all_series:
                shown = tuple(value for name, value in zip(family.labels, labels, strict=True) if name != "host")
                values[family.name, *shown] = series.value if family.kind == "counter" else sum(series.counts)
        return values


class Watcher:
    """Collects what a watch delivers: lines in `chunks`, its end in `ends`."""

    def __init__(self) -> None:
        self.chunks: queue.Queue[bytes] = queue.Queue()
        self.ends: queue.Queue[Response] = queue.Queue()

    def lines(self) -> bytes:
        return self.chunks.get(timeout=PATIENCE)

    def end(self) -> Response:
        return self.ends.get(timeout=PATIENCE)

    def all_lines(self) -> bytes:
        """Return all lines that were received. Call after the end of the watch."""
        found = b""
        while not self.chunks.empty():
            found += self.chunks.get()
        return found


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    servers = Loopback()
    yield servers
    servers.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


@pytest.fixture
def hand_clock() -> HandClock:
    return HandClock()


def client_config(server: str, **fields: Any) -> ClientConfig:
    return ClientConfig(**{"origin": "test", "credentials": FixedCredential(ANONYMOUS), **fields, "server": server})


@pytest.fixture
def connect(loopback: Loopback, gate: Gate, log: FilteringBoundLogger) -> Iterator[Callable[..., Client]]:
    """Return connect(url, config=…, clock=…, timeout=…), which creates a client and starts it by default."""
    clients: list[Client] = []
    clock = SystemClock()

    def start(server: str, *, config: dict[str, Any] | None = None, started: bool = True, **arguments: Any) -> Client:
        metrics = Metrics()
        transport = HttpTransport(
            client_config(server, **(config or {})),
            **{
                "agents": UserAgents(program="kcm", version="1.2", platform="linux/amd64", commit="c0ffee"),
                "clock": clock,
                "metrics": metrics,
                "log": log,
                "timeout": PATIENCE,
                **arguments,
            },
        )
        if started:
            transport.start()
        clients.append(Client(transport, metrics))
        return clients[-1]

    yield start
    for client in clients:
        client.transport.close(0)
    clock.close()


@pytest.fixture
def watch(connect: Callable[..., Client]) -> Callable[..., Watcher]:
    """Return watch(url), which starts a watch and collects its lines."""

    def start(server: str, **arguments: Any) -> Watcher:
        client, watcher = connect(server, **arguments), Watcher()
        client.transport.watch(
            Request(method="GET", path="/api/v1/pods", query={"watch": "1"}),
            client="tester",
            on_lines=watcher.chunks.put,
            on_end=watcher.ends.put,
        )
        return watcher

    return start


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Create certificates of an authority, of a server for 127.0.0.1 and "kubernetes", and of a client."""
    return ensure_certificates(tmp_path_factory.mktemp("certificates"), now=SystemClock().now())


@pytest.fixture(scope="session")
def other_certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Create certificates of an authority that clients do not trust."""
    return ensure_certificates(tmp_path_factory.mktemp("others"), now=SystemClock().now())


@pytest.fixture
def server_tls(certificates: Certificates) -> ssl.SSLContext:
    """Create the context of a server that requests a client certificate but does not require it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.serving.certificate, certificates.serving.key)
    context.load_verify_locations(certificates.authority.certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[[str], str]:
    """Return plugin(script), which writes a shell script and returns its path."""

    def write(script: str) -> str:
        path = tmp_path / "plugin"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return write


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    """Create a directory with the files of a pod's service account."""
    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "ca.crt").write_text("pod-ca")
    return tmp_path


@pytest.fixture
def refusing() -> Iterator[str]:
    """Yield the URL of a port that refuses connections."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"
