"""Idle and slow connections, on asyncio's default event loop and on ours."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from kcm.runtime.http.server.bounded_connections import BACKLOG, BoundedConnections, ConnectionLimits
from kcm.runtime.http.server.connection import HttpConnection
from kcm.runtime.http.server.server import HttpServer
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.process.event_loop import new_event_loop
from kcm.runtime.serving.application import LARGEST_BODY, Application, PageRequest, PageResponse, text_page
from tests.support.certificates import Authority, client_context

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Rig:
    """Server that responds to "/" at once, to "/known" as to a known user, and to "/slow" when the test permits it."""

    connections: BoundedConnections
    port: int
    tls: ssl.SSLContext | None
    let: asyncio.Event
    slow: list[str]  # paths of requests that wait for the test
    logged: LogCapture
    opened: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self, *, tls: bool = True) -> Ends:
        """Open a connection, with TLS if the server has it.

        tls: False to skip the handshake.
        """
        context = client_context() if tls and self.tls is not None else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        self.opened.append(writer)
        return reader, writer

    def cut_after(self, seconds: float) -> int:
        """Cut overdue connections as if `seconds` had passed, and return the number of the remaining connections."""
        self.connections.cut_overdue(asyncio.get_running_loop().time() + seconds)
        return len(self.connections)

    async def hang_up(self) -> None:
        """End all connections of this side."""
        for writer in self.opened:
            writer.transport.abort()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
        self.opened.clear()

    async def answered(self, ends: Ends, path: str = "/") -> bool:
        """Send a request, and report whether it gets a response. Returns False if the connection was cut."""
        reader, writer = ends
        writer.write(GET.replace(b"/", path.encode(), 1))
        return await is_answered(reader)

    async def ask(self, path: str = "/") -> Ends:
        """Open a connection, and wait for the response to a request."""
        ends = await self.connect()
        assert await self.answered(ends, path)
        return ends


async def is_answered(reader: asyncio.StreamReader) -> bool:
    try:
        head = await asyncio.wait_for(reader.readuntil(b"hello"), 10)
    except (asyncio.IncompleteReadError, OSError):
        return False
    return head.startswith(b"HTTP/1.1 200")


async def is_cut(ends: Ends) -> bool:
    """Wait for the end of the connection, and report whether it ended."""
    try:
        return await asyncio.wait_for(ends[0].read(), 10) == b""
    except OSError:
        return True


@asynccontextmanager
async def serving(bounds: ConnectionLimits, tls: ssl.SSLContext | None = None) -> AsyncIterator[Rig]:
    logged = LogCapture()
    connections = BoundedConnections(bounds, log=structlog.wrap_logger(None, processors=[logged]))
    let, slow = asyncio.Event(), list[str]()

    async def hello(request: PageRequest) -> PageResponse:
        if request.path == "/known":
            connections.mark_known(request.connection)
        if request.path == "/slow":
            slow.append(request.path)
            await let.wait()
        return text_page("hello")

    server = HttpServer(
        Application(hello, now=lambda: 0.0, log=quiet_log()),
        new_request=PageRequest,
        largest_body=LARGEST_BODY,
        now=lambda: 0.0,
        connections=connections,
    )
    listening = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    port = listening.getsockname()[1]
    connections.accept(listening, partial(HttpConnection, server), tls=tls)
    rig = Rig(connections, port, tls, let, slow, logged)
    try:
        yield rig
    finally:
        await rig.hang_up()
        await connections.stop_accepting()
        await server.end(1.0)


@pytest.fixture(params=["asyncio", "ours"])
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    def run_it(test: Any) -> None:
        factory = asyncio.new_event_loop if request.param == "asyncio" else new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(test, 30))

    return run_it


@pytest.fixture(params=["http", "https"])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> ssl.SSLContext | None:
    if request.param == "http":
        return None
    pair = Authority(tmp_path).issue("localhost", names=("localhost",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    return context


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_connection_idle_for_longest_is_cut_first(run: Any, tls: ssl.SSLContext | None) -> None:
    async def test() -> None:
        async with serving(ConnectionLimits(most=3), tls) as rig:
            silent = await rig.connect()
            first, second = await rig.ask(), await rig.ask()
            assert len(rig.connections) == 3
            fresh = await rig.ask()
            assert await is_cut(silent)
            assert await rig.answered(first)  # from now on it has been idle for less time than the second
            another = await rig.ask()
            assert await is_cut(second)
            assert [await rig.answered(ends) for ends in (first, fresh, another)] == [True] * 3
            assert len([entry for entry in rig.logged.entries if entry["log_level"] == "warning"]) == 1

    run(test())


def test_connections_of_known_users_are_cut_last(run: Any, tls: ssl.SSLContext | None) -> None:
    async def test() -> None:
        async with serving(ConnectionLimits(most=3), tls) as rig:
            known = await rig.ask("/known")
            strangers = [await rig.ask() for _ in range(5)]
            assert await rig.answered(known)
            assert [await is_cut(stranger) for stranger in strangers[:3]] == [True] * 3
            for _ in range(3):
                await rig.ask("/known")
            assert await is_cut(known)

    run(test())


def test_busy_connections_stay_open_and_new_ones_wait(run: Any, tls: ssl.SSLContext | None) -> None:
    async def test() -> None:
        async with serving(ConnectionLimits(most=2), tls) as rig:
            busy = [await rig.connect() for _ in range(2)]
            for _, writer in busy:
                writer.write(GET.replace(b"/", b"/slow", 1))
            await until(lambda: len(rig.slow) == 2)
            others = [asyncio.create_task(rig.ask("/slow")) for _ in range(2)]
            await rig.connect(tls=False)  # the kernel accepts it, and the server does not
            assert len(rig.connections) == 2
            rig.let.set()
            assert [await is_answered(reader) for reader, _ in busy] == [True] * 2
            await asyncio.gather(*others)

    run(test())


@pytest.mark.parametrize("sent", [b"", GET[:-2]])
def test_incomplete_head_is_cut_after_a_timeout(run: Any, tls: ssl.SSLContext | None, sent: bytes) -> None:
    async def test() -> None:
        async with serving(ConnectionLimits(most=9, head=32.0, idle=900.0), tls) as rig:
            ends = await rig.connect()
            ends[1].write(sent)
            await until(lambda: len(rig.connections) == 1)
            rig.cut_after(31.0)
            assert len(rig.connections) == 1
            rig.cut_after(33.0)
            assert await is_cut(ends)
            later = await rig.ask()
            rig.cut_after(899.0)
            later[1].write(GET[:1])
            await until(lambda: rig.cut_after(33.0) == 0)
            assert await is_cut(later)

    run(test())


def test_incomplete_handshake_is_cut_after_a_timeout(run: Any, tmp_path: Path) -> None:
    async def test() -> None:
        pair = Authority(tmp_path).issue("localhost", names=("localhost",))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        async with serving(ConnectionLimits(most=9, head=0.05), context) as rig:
            silent = await rig.connect(tls=False)
            await until(lambda: len(rig.connections) == 1)
            assert await is_cut(silent)  # by itself
            await until(lambda: len(rig.connections) == 0)

    run(test())


def test_idle_connection_is_closed_after_a_timeout_that_is_longer_for_known_users(
    run: Any, tls: ssl.SSLContext | None
) -> None:
    async def test() -> None:
        async with serving(ConnectionLimits(most=9, idle=90.0, idle_known=900.0), tls) as rig:
            stranger, known = await rig.ask(), await rig.ask("/known")
            assert rig.cut_after(89.0) == 2
            assert rig.cut_after(91.0) == 1
            assert await is_cut(stranger)
            assert await rig.answered(known)
            rig.cut_after(901.0)
            assert await is_cut(known)

    run(test())


def test_no_descriptor_is_left_behind(run: Any, tls: ssl.SSLContext | None) -> None:
    async def test() -> None:
        async with serving(ConnectionLimits(most=5, head=30.0), tls) as rig:
            await rig.ask()
            await rig.hang_up()
            await until(lambda: len(rig.connections) == 0)
            before = open_descriptors()
            for _ in range(40):
                await rig.connect(tls=False)
            await rig.ask()
            await until(lambda: len(rig.connections) <= 5)
            await until(lambda: open_descriptors() <= before + 40 + 1 + 5)
            await rig.hang_up()
            await until(lambda: len(rig.connections) == 0)
            await until(lambda: open_descriptors() <= before)
            assert len(rig.connections) == 0

    run(test())


def test_stopped_server_does_not_listen(run: Any) -> None:
    async def test() -> None:
        async with serving(ConnectionLimits(most=5)) as rig:
            await rig.connect()
        with pytest.raises(OSError):
            await rig.connect()

    run(test())


def test_connection_is_not_cut_once_its_user_is_known(run: Any) -> None:
    """The API server reads a head before it authenticates: its watches were once cut 32 s after they began."""

    async def scene() -> None:
        async with serving(ConnectionLimits(most=2)) as rig:
            await rig.connect()
            await until(lambda: len(rig.connections) == 1)
            [protocol] = rig.connections._open
            rig.connections.mark_known(protocol)
            rig.connections.began(protocol)
            assert rig.cut_after(3600.0) == 1

    run(scene())
