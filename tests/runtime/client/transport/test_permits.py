"""No byte of a request is sent after its permit expires, whatever delayed the request."""

from __future__ import annotations

import asyncio
import queue
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.config import Credential
from kcm.runtime.client.transport import NO_TURN
from kcm.runtime.http.client.failures import TOO_LATE
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.scheduling.permits import Permit, Tenure

PATIENCE = 10.0
BLOCKED = 3.0  # seconds
Connect = Callable[..., Any]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Arrivals:
    """Handler that records the requests that arrive.

    at_each: called for each request before the response.
    """

    def __init__(self, at_each: Callable[[], object] = lambda: None) -> None:
        self.seen: list[str] = []
        self._at_each = at_each

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        self.seen.append(f"{request.method} {request.path}")
        self._at_each()
        return web.Response(body=b"{}")


@pytest.mark.parametrize("way", ["permit", "timeout"])
def test_write_is_not_sent_if_its_permit_expires_while_the_loop_is_blocked(
    connect: Connect, loopback: Any, way: str
) -> None:
    """In real time. In an earlier version the half second began when the loop handled the request, 2.9 s too late."""
    arrivals, clock = Arrivals(), SystemClock()
    client = connect(loopback.serve(arrivals), clock=clock)
    assert client.request("GET", "/warm").status == 200  # opens a connection
    holding, answers = threading.Event(), queue.Queue[Response]()

    def block(_response: Response) -> None:
        holding.set()
        time.sleep(BLOCKED)

    client.transport.send(Request(method="GET", path="/holds"), client="tester", on_response=block)
    assert holding.wait(PATIENCE)
    tenure, began = Tenure(), clock.monotonic()
    tenure.extend(began + 0.5)
    limit: dict[str, Any] = {"timeout": 0.5} if way == "timeout" else {"permit": Permit(began + 0.5, tenure)}
    write = Request(method="POST", path="/write", body=b"{}", **limit)
    client.transport.send(write, client="tester", on_response=answers.put)
    response = answers.get(timeout=PATIENCE)
    assert clock.monotonic() - began > BLOCKED - 0.5, "the loop was held up"
    assert response == Response(status=0, error=NO_TURN, sent=False)
    assert client.request("GET", "/after").status == 200
    assert arrivals.seen == ["GET /warm", "GET /holds", "GET /after"]
    clock.close()


def test_queued_request_is_not_sent_after_the_tenure_ends(connect: Connect, loopback: Any, gate: Any) -> None:
    client, tenure = connect(loopback.serve(gate), connections=1), Tenure()
    tenure.extend(float("inf"))
    client.send("GET", "/first")
    assert gate.arrived.get(timeout=PATIENCE) == "/first"
    client.send("POST", "/second", permit=Permit(tenure=tenure))
    tenure.end()
    gate.open()
    assert {client.response().status for _ in range(2)} == {200, 0}
    assert gate.arrived.empty()


def test_permit_may_expire_during_the_tls_handshake(
    connect: Connect, loopback: Any, server_tls: ssl.SSLContext, hand_clock: Any
) -> None:
    arrivals = Arrivals()
    delays = [8.0]
    server_tls.sni_callback = lambda *_: hand_clock.advance(delays.pop() if delays else 0.0)  # type: ignore[assignment]
    config = {"verify": False, "tls_server_name": "kubernetes"}
    client = connect(loopback.serve(arrivals, tls=server_tls), config=config, clock=hand_clock)
    assert client.request("POST", "/late", permit=Permit(7.0)) == Response(status=0, error=TOO_LATE, sent=False)
    assert client.request("POST", "/in-time", permit=Permit(16.0)).status == 200
    assert arrivals.seen == ["POST /in-time"]


def test_permit_may_expire_while_credentials_are_loaded(connect: Connect, loopback: Any, hand_clock: Any) -> None:
    class Slow:
        def load(self) -> Credential:
            hand_clock.advance(5.0)
            return Credential(authorization="Bearer x")

    arrivals = Arrivals()
    client = connect(loopback.serve(arrivals), config={"credentials": Slow()}, clock=hand_clock)
    assert client.request("POST", permit=Permit(5.0)) == Response(status=0, error=TOO_LATE, sent=False)
    assert arrivals.seen == []


def test_retry_is_not_sent_after_the_lease_is_released(connect: Connect, loopback: Any, hand_clock: Any) -> None:
    tenure, seen = Tenure(), list[str]()
    tenure.extend(100.0)

    async def busy(request: web.BaseRequest) -> web.Response:
        seen.append(request.method)
        return web.Response(status=429, headers={"Retry-After": "1"})

    client = connect(loopback.serve(busy), clock=hand_clock)
    client.send("POST", body=b"{}", permit=Permit(100.0, tenure))
    hand_clock.alarms.get(timeout=PATIENCE)
    tenure.end()
    hand_clock.advance(1.0)
    assert client.response() == Response(status=0, error=NO_TURN, sent=False)
    assert seen == ["POST"]


def test_read_on_a_broken_connection_is_not_repeated_after_its_permit_expires(connect: Connect, loopback: Any) -> None:
    tenure, seen = Tenure(), list[bytes]()
    tenure.extend(float("inf"))

    async def breaks(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        tenure.end()

    client = connect(loopback.serve_raw(breaks))
    assert client.request("GET", permit=Permit(tenure=tenure)).error == TOO_LATE
    assert len(seen) == 1


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_buffered_bytes_are_not_sent_after_the_permit_expires(
    connect: Connect, loopback: Any, server_tls: ssl.SSLContext, encrypted: bool
) -> None:
    """Closing the socket would send the rest as soon as the server reads again, even after the lease was lost."""
    read_on, total = threading.Event(), queue.Queue[int]()

    async def reads_late(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        received = len(await reader.readuntil(b"\r\n\r\n"))
        await asyncio.to_thread(read_on.wait, PATIENCE)
        try:
            while chunk := await reader.read(1 << 16):
                received += len(chunk)
        except ConnectionError:
            pass
        total.put(received)

    url = loopback.serve_raw(reads_late, tls=server_tls if encrypted else None)
    client = connect(url, config={"verify": False} if encrypted else None)
    body = bytes(32_000_000)
    response = client.request("POST", body=body, timeout=1.0)
    assert (response.status, response.sent) == (0, True)
    read_on.set()
    assert total.get(timeout=PATIENCE) < len(body)


def test_request_within_its_permit_gets_a_response(connect: Connect, loopback: Any) -> None:
    clock = SystemClock()
    client = connect(loopback.serve(Arrivals()), clock=clock)
    assert client.request("POST", body=b"{}", permit=Permit(clock.monotonic() + PATIENCE)).status == 200
    clock.close()
