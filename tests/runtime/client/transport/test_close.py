"""End of a client: by close(), or with its event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import LogCapture

from kcm.runtime.client.api import Request, Response
from tests.runtime.client.transport.test_faults import OK, Script, throttled

PATIENCE = 10.0
CLOSED = "the client is closed"
Connect = Callable[..., Any]


def test_close_lets_requests_under_way_finish(connect: Connect, loopback: Any, gate: Any) -> None:
    client = connect(loopback.serve(gate))
    client.send("POST")
    gate.arrived.get(timeout=PATIENCE)
    closing = threading.Thread(target=client.transport.close, args=(PATIENCE,))
    closing.start()
    gate.open()
    assert client.response().status == 200
    closing.join(PATIENCE)
    assert not closing.is_alive()


def test_request_throttled_while_the_client_closes_is_not_retried(
    connect: Connect, loopback: Any, gate: Any, hand_clock: Any
) -> None:
    async def serve(request: web.BaseRequest) -> web.Response:
        await gate(request)
        return web.Response(status=429, headers={"Retry-After": "1"})

    client = connect(loopback.serve(serve), clock=hand_clock)
    client.send("POST")
    # Closing ends the watch, whose end lets the server respond: so the response arrives while the client closes.
    watch = Request(method="GET", path="/watched")
    client.transport.watch(watch, client="tester", on_lines=lambda _: None, on_end=lambda _: gate.open())
    for _ in range(2):
        gate.arrived.get(timeout=PATIENCE)
    client.transport.close(PATIENCE)
    assert client.responses.get_nowait() == Response(status=429, retry_after=1.0)
    assert hand_clock.alarms.empty()


def test_close_ends_every_request_and_watch(connect: Connect, loopback: Any, gate: Any, hand_clock: Any) -> None:
    script = Script(throttled(5))
    client = connect(loopback.serve(gate), connections=1)
    other = connect(loopback.serve_raw(script), clock=hand_clock)
    client.send("POST", "/under-way")
    gate.arrived.get(timeout=PATIENCE)
    client.send("POST", "/waits")
    other.send("POST", "/throttled")
    hand_clock.alarms.get(timeout=PATIENCE)
    for client_to_close in (client, other):
        client_to_close.transport.close(0.01)
        client_to_close.transport.close(0.01)
    assert [client.responses.get_nowait() for _ in range(2)] == [
        Response(status=0, error=CLOSED, sent=False),
        Response(status=0, error=CLOSED, sent=True),
    ]
    assert other.responses.get_nowait() == Response(status=429, body=b"busy", retry_after=5.0)
    assert hand_clock.next_alarm() is None


def test_after_close_requests_are_refused_at_once(connect: Connect, loopback: Any) -> None:
    server = Script(OK)
    client = connect(loopback.serve_raw(server))
    client.transport.close(PATIENCE)
    client.send("POST")
    assert client.responses.get_nowait() == Response(status=0, error=CLOSED, sent=False)
    assert server.seen == []


def exits(_response: Response) -> None:
    raise SystemExit("a callback's")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # connections whose loop has ended
def test_all_requests_fail_with_the_reason_when_the_loop_ends(
    connect: Connect, loopback: Any, gate: Any, hand_clock: Any, logs: LogCapture
) -> None:
    """A callback ends its thread, which is that of the loop."""
    script, ended = Script(throttled(5)), queue.Queue[Response]()
    watched = Request(method="GET", path="/watched")
    client = connect(loopback.serve(gate), connections=1)
    other = connect(loopback.serve_raw(script), clock=hand_clock)
    client.transport.watch(watched, client="watcher", on_lines=lambda _lines: None, on_end=ended.put)
    client.send("POST", "/under-way")
    for _ in range(2):
        gate.arrived.get(timeout=PATIENCE)
    client.send("POST", "/waits")
    other.send("POST", "/throttled")
    hand_clock.alarms.get(timeout=PATIENCE)
    assert (client.transport.trouble, other.transport.trouble) == (None, None)

    why = "the client of the API server is broken: SystemExit: a callback's"
    for client_to_close in (client, other):
        client_to_close.transport.send(
            Request(method="GET", path="/exit", timeout=0.0), client="exiting", on_response=exits
        )
    assert [client.response() for _ in range(2)] == [
        Response(status=0, error=why, sent=False),
        Response(status=0, error=why, sent=True),
    ]
    assert ended.get(timeout=PATIENCE) == Response(status=0, error=why)
    assert other.response() == Response(status=429, body=b"busy", retry_after=5.0)
    assert (client.transport.trouble, other.transport.trouble) == (why, why)
    assert client.request("POST", "/later") == Response(status=0, error=why, sent=False)
    assert client.transport.request(watched, client="kcm", timeout=PATIENCE).error == why
    client.transport.watch(watched, client="watcher", on_lines=lambda _lines: None, on_end=ended.put)
    assert ended.get(timeout=PATIENCE) == Response(status=0, error=why, sent=False)
    assert [entry["log_level"] for entry in logs.entries if entry["event"] == "event loop ended"] == ["error"] * 2


def test_closed_client_reports_no_trouble(connect: Connect, loopback: Any, gate: Any) -> None:
    client = connect(loopback.serve(gate))
    client.transport.close(PATIENCE)
    assert client.transport.trouble is None


def test_closing_a_client_before_its_start_rejects_sent_requests(connect: Connect, refusing: str) -> None:
    client = connect(refusing, started=False)
    client.send("POST")
    client.transport.close(PATIENCE)
    assert client.responses.get_nowait() == Response(status=0, error=CLOSED, sent=False)


def test_close_ends_every_connection(connect: Connect, loopback: Any) -> None:
    ended: queue.Queue[str] = queue.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(OK)
        except (asyncio.IncompleteReadError, ConnectionError) as err:
            ended.put(type(err).__name__)

    client = connect(loopback.serve_raw(serve))
    for _ in range(3):
        client.send("GET")
    assert [client.response().status for _ in range(3)] == [200] * 3
    client.transport.close(PATIENCE)
    ended.get(timeout=PATIENCE)
