"""Waiting for sockets with and without epoll."""

from __future__ import annotations

import asyncio
import math
import queue
import select
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from kcm.runtime.client.api import Request, Response
from kcm.runtime.http.client import connections
from kcm.runtime.http.client.readiness import READ, LoopReadiness, SocketReadiness, new_readiness

Connect = Callable[..., Any]
PATIENCE = 10.0


class Reported:
    """Records the events that a SocketReadiness reports, and reads what has arrived."""

    def __init__(self, make: Callable[..., SocketReadiness]) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.read = b""
        self.readiness = make(asyncio.get_running_loop(), self._act, lambda: None)
        self.readiness.watch(self.ours.fileno(), READ)

    def _act(self, descriptor: int, events: int) -> None:
        assert (descriptor, events) == (self.ours.fileno(), READ)
        self.read += self.ours.recv(100)

    async def after(self, data: bytes) -> bytes:
        """Send data, and return what has been read of all data soon after."""
        self.theirs.sendall(data)
        for _ in range(5):
            await asyncio.sleep(0)
        return self.read

    def close(self) -> None:
        self.readiness.watch(self.ours.fileno(), 0)
        self.readiness.close()
        self.ours.close()
        self.theirs.close()


@pytest.mark.parametrize("make", [LoopReadiness, new_readiness])
def test_resting_socket_is_read_again_after_resume(make: Callable[..., SocketReadiness]) -> None:
    async def rest() -> None:
        reported = Reported(make)
        readiness, descriptor = reported.readiness, reported.ours.fileno()
        assert await reported.after(b"a") == b"a"
        readiness.rest(descriptor)
        assert await reported.after(b"b") == b"a"
        readiness.watch(descriptor, READ)  # libcurl repeats its request
        assert await reported.after(b"c") == b"a"
        readiness.resume([descriptor])
        assert await reported.after(b"") == b"abc"
        readiness.rest(descriptor)
        readiness.watch(descriptor, 0)  # the connection has ended, and another one gets its descriptor
        readiness.watch(descriptor, READ)
        assert await reported.after(b"d") == b"abcd"
        readiness.resume([descriptor])  # it does not rest
        assert await reported.after(b"e") == b"abcde"
        reported.close()

    asyncio.run(rest())


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="the loop watches all descriptors here anyway")
def test_loop_watches_sockets_without_epoll(connect: Connect, loopback: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.rel_url.query:
            return web.Response(body=await request.read())
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(3):
            await response.write(b"%d\n" % number)
        return response

    monkeypatch.setattr(connections, "new_readiness", LoopReadiness)
    client = connect(loopback.serve(serve))
    body = b"x" * 500_000
    for _ in range(20):
        client.send("POST", body=body)
    assert all(client.response().body == body for _ in range(20))
    received: queue.Queue[bytes | Response] = queue.Queue()
    watch = Request(method="GET", path="/", query={"watch": "1"})
    client.transport.watch(watch, client="tester", on_lines=received.put, on_end=received.put)
    lines = b""
    while not isinstance(item := received.get(timeout=PATIENCE), Response):
        lines += item
    assert (lines, item) == (b"0\n1\n2\n", Response(status=200))


def test_lines_of_a_busy_watch_are_delivered_together(connect: Connect, loopback: Any) -> None:
    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(50):
            await response.write(b"%d\n" % number)
            await asyncio.sleep(connections.GATHER / 5)
        return response

    client = connect(loopback.serve(serve))
    received: queue.Queue[bytes | Response] = queue.Queue()
    client.transport.watch(Request(method="GET", path="/"), client="tester", on_lines=received.put, on_end=received.put)
    parts = list(iter(lambda: received.get(timeout=PATIENCE), Response(status=200)))
    assert b"".join(parts).split() == [b"%d" % number for number in range(50)]
    assert len(parts) < 40


def test_lines_of_a_watch_that_may_lag_are_read_after_pauses(connect: Connect, loopback: Any, gate: Any) -> None:
    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        await gate(request)  # opened when the first line was delivered
        for number in range(50):
            await response.write(b"%d\n" % number)
            await asyncio.sleep(connections.GATHER / 5)
        return response

    client = connect(loopback.serve(serve))
    received: queue.Queue[bytes | Response] = queue.Queue()
    lag = 0.2
    watch = Request(method="GET", path="/", may_lag=lag)
    client.transport.watch(watch, client="tester", on_lines=received.put, on_end=received.put)
    assert received.get(timeout=PATIENCE) == b"first\n"
    began = time.monotonic()
    gate.open()
    parts = list(iter(lambda: received.get(timeout=PATIENCE), Response(status=200)))
    assert b"".join(parts).split() == [b"%d" % number for number in range(50)]
    assert len(parts) <= 2 + (time.monotonic() - began) / lag  # a busy machine takes longer


@pytest.mark.parametrize(
    ("elapsed", "received", "pause"),
    [
        (math.inf, 100, 0.25),  # the first part
        (0.25, 1000, 0.25),
        (0.25, connections.MOST_UNREAD, 0.25),
        (0.25, 2 * connections.MOST_UNREAD, 0.125),
        (0.01, 10 * connections.MOST_UNREAD, 0.001),
    ],
)
def test_large_parts_shorten_the_pause_of_a_watch_that_may_lag(elapsed: float, received: int, pause: float) -> None:
    assert connections.pause_after(received, elapsed=elapsed, may_lag=0.25) == pytest.approx(pause)
