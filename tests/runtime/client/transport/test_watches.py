from __future__ import annotations

import asyncio
import queue
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import LogCapture

from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.credentials import HOLD_OFF, TokenFile

PATIENCE = 10.0
WATCH = Request(method="GET", path="/api/v1/pods", query={"watch": "1"})
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
Connect = Callable[..., Any]
Watch = Callable[..., Any]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def streaming(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> Any:
    """Return a raw handler that writes the chunks at once, then the end, and closes."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"".join(map(chunk, chunks)) + end)
        await writer.drain()

    return handle


@pytest.mark.parametrize(
    ("chunks", "end", "lines", "status", "says"),
    [
        ([b'{"a":1}\n{"b":2}\n'], b"0\r\n\r\n", b'{"a":1}\n{"b":2}\n', 200, ""),
        ([b'{"a"', b":1}", b"\n"], b"0\r\n\r\n", b'{"a":1}\n', 200, ""),
        ([], b"0\r\n\r\n", b"", 200, ""),
        ([b'{"a":1}\n{"b'], b"0\r\n\r\n", b'{"a":1}\n', 200, "the last line was cut off after 3 bytes"),
        ([b'{"a":1}\n'], b"", b'{"a":1}\n', 0, "was cut off"),
        ([b'{"a":1}\n{"b'], b"", b'{"a":1}\n', 0, "was cut off; the last line was cut off after 3 bytes"),
        ([], b"", b"", 0, "was cut off"),
        ([], b"zz\r\n", b"", 0, "does not speak HTTP"),
    ],
)
def test_whole_lines_are_delivered_and_the_end_reports_lost_bytes(
    watch: Watch, loopback: Any, chunks: list[bytes], end: bytes, lines: bytes, status: int, says: str
) -> None:
    watcher = watch(loopback.serve_raw(streaming(*chunks, end=end)))
    response = watcher.end()
    assert watcher.all_lines() == lines
    assert (response.status, response.begun) == (status, status == 0), "it was open"
    assert says in response.error
    assert bool(response.error) == bool(says)


def test_lines_of_a_chunk_are_delivered_in_one_call(watch: Watch, loopback: Any) -> None:
    lines = b"".join(b'{"n":%d}\n' % n for n in range(100))
    watcher = watch(loopback.serve_raw(streaming(lines)))
    assert watcher.lines() == lines
    assert watcher.end() == Response(status=200)


def test_line_is_delivered_when_it_is_complete(watch: Watch, loopback: Any) -> None:
    seen = threading.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + chunk(b"one\ntw"))
        await asyncio.to_thread(seen.wait, PATIENCE)
        writer.write(chunk(b"o\n"))
        await reader.read()

    watcher = watch(loopback.serve_raw(handle))
    assert watcher.lines() == b"one\n"
    seen.set()
    assert watcher.lines() == b"two\n"


def test_line_of_megabytes_is_delivered_whole(watch: Watch, loopback: Any) -> None:
    parts = [b"x" * 10_000] * 500
    watcher = watch(loopback.serve_raw(streaming(*parts, b"\n")))
    assert watcher.lines() == b"x" * 5_000_000 + b"\n"
    assert watcher.end() == Response(status=200)


def test_reset_connection_ends_the_watch_and_reports_lost_bytes(watch: Watch, loopback: Any) -> None:
    seen = threading.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + chunk(b"one\ntw"))
        await asyncio.to_thread(seen.wait, PATIENCE)
        linger = b"\1\0\0\0\0\0\0\0"  # on, 0 seconds: close() sends RST
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    watcher = watch(loopback.serve_raw(handle))
    assert watcher.lines() == b"one\n"
    seen.set()
    end = watcher.end()
    assert (end.status, end.sent) == (0, True)
    assert end.error.endswith("; the last line was cut off after 2 bytes")


@pytest.mark.parametrize(
    ("status", "headers", "retry_after"),
    [
        (403, {}, 0.0),
        (410, {}, 0.0),
        (429, {"Retry-After": "7"}, 7.0),
        (503, {"Retry-After": "1"}, 1.0),
        (302, {}, 0.0),
    ],
)
def test_rejected_watch_ends_with_the_response_and_is_not_repeated(
    watch: Watch, loopback: Any, status: int, headers: dict[str, str], retry_after: float
) -> None:
    asked: list[str] = []

    async def refuse(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        return web.Response(status=status, headers=headers, body=b'{"kind":"Status"}', content_type="application/json")

    end = watch(loopback.serve(refuse)).end()
    assert end == Response(status=status, body=b'{"kind":"Status"}', retry_after=retry_after)
    assert asked == ["/api/v1/pods"]


def test_rejection_with_an_endless_body_is_reported(watch: Watch, loopback: Any) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 500 Oops\r\nContent-Length: 10\r\n\r\nhalf")
        await reader.read()

    end = watch(loopback.serve_raw(handle), timeout=0.05).end()
    assert end == Response(status=500, error="the response did not come to its end")


def test_a_refused_connection_ends_the_watch(watch: Watch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        end = watch(f"http://127.0.0.1:{unused.getsockname()[1]}").end()
    assert (end.status, end.sent, end.begun) == (0, False, False)
    assert end.error.endswith(": connection refused")


class Endless:
    """Raw server whose watches last until the client disconnects.

    gone: receives an entry for each client that disconnected.
    """

    def __init__(self) -> None:
        self.gone: queue.Queue[bytes] = queue.Queue()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + chunk(b"hello\n"))
        self.gone.put(await reader.read())


def start(client: Any, *, on_lines: Callable[[bytes], None], on_end: Callable[[Response], None]) -> Any:
    return client.transport.watch(WATCH, client="tester", on_lines=on_lines, on_end=on_end)


def test_a_cancelled_watch_disconnects_and_does_not_call_on_end(connect: Connect, loopback: Any) -> None:
    server = Endless()
    client = connect(loopback.serve_raw(server))
    chunks: queue.Queue[bytes] = queue.Queue()
    ends: list[Response] = []
    stream = start(client, on_lines=chunks.put, on_end=ends.append)
    assert chunks.get(timeout=PATIENCE) == b"hello\n"
    stream.cancel()
    stream.cancel()
    server.gone.get(timeout=PATIENCE)
    client.transport.close(PATIENCE)
    assert ends == []


def test_watch_may_be_cancelled_in_its_callback(connect: Connect, loopback: Any) -> None:
    server = Endless()
    client = connect(loopback.serve_raw(server))
    streams: queue.Queue[Any] = queue.Queue()
    ends: list[Response] = []
    stream = start(client, on_lines=lambda _: streams.get(timeout=PATIENCE).cancel(), on_end=ends.append)
    streams.put(stream)
    server.gone.get(timeout=PATIENCE)
    client.transport.close(PATIENCE)
    assert ends == []


def test_watch_cancelled_before_its_start_is_never_sent(connect: Connect, loopback: Any) -> None:
    server = Endless()
    client = connect(loopback.serve_raw(server), started=False)
    calls: list[object] = []
    start(client, on_lines=calls.append, on_end=calls.append).cancel()
    client.transport.start()
    client.transport.close(PATIENCE)
    assert calls == []
    assert server.gone.empty()


def test_failing_consumer_ends_only_its_watch(connect: Connect, loopback: Any, logs: LogCapture) -> None:
    client = connect(loopback.serve_raw(Endless()))
    ends: queue.Queue[Response] = queue.Queue()

    def on_lines(lines: bytes) -> None:
        raise ValueError("a bug of the caller")

    start(client, on_lines=on_lines, on_end=ends.put)
    assert ends.get(timeout=PATIENCE).error.startswith("internal error: ValueError")
    assert [entry["event"] for entry in logs.entries] == ["watch failed"]
    chunks: queue.Queue[bytes] = queue.Queue()
    start(client, on_lines=chunks.put, on_end=ends.put)
    assert chunks.get(timeout=PATIENCE) == b"hello\n"


def test_error_in_on_end_is_logged(connect: Connect, loopback: Any, logs: LogCapture) -> None:
    client = connect(loopback.serve_raw(streaming()))
    ended = threading.Event()

    def on_end(end: Response) -> None:
        ended.set()
        raise ValueError("a bug of the caller")

    start(client, on_lines=lambda _: None, on_end=on_end)
    assert ended.wait(PATIENCE)
    client.transport.close(PATIENCE)
    assert [entry["event"] for entry in logs.entries] == ["callback failed"]


def test_watches_do_not_count_towards_the_limit_of_requests(connect: Connect, loopback: Any) -> None:
    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.rel_url.query:
            return web.Response()
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"hello\n")
        await asyncio.get_running_loop().create_future()
        return response

    client = connect(loopback.serve(serve), connections=1)
    chunks: queue.Queue[bytes] = queue.Queue()
    for _ in range(5):
        start(client, on_lines=chunks.put, on_end=lambda _: None)
    assert [chunks.get(timeout=PATIENCE) for _ in range(5)] == [b"hello\n"] * 5
    assert client.request("GET").status == 200


def test_watch_on_a_closed_connection_is_repeated(connect: Connect, loopback: Any) -> None:
    connections: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(len(connections))
        await reader.readuntil(b"\r\n\r\n")
        if len(connections) == 1:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")  # the watch gets no response
        else:
            writer.write(HEAD + chunk(b"hello\n") + b"0\r\n\r\n")

    client = connect(loopback.serve_raw(handle))
    assert client.request("GET").status == 200
    chunks: queue.Queue[bytes] = queue.Queue()
    start(client, on_lines=chunks.put, on_end=lambda _: None)
    assert chunks.get(timeout=PATIENCE) == b"hello\n"
    assert connections == [0, 1]


def test_unauthorized_watch_is_repeated_with_a_new_token(
    connect: Connect, loopback: Any, hand_clock: Any, tmp_path: Path
) -> None:
    async def serve(request: web.BaseRequest) -> web.Response:
        good = request.headers["Authorization"] == "Bearer new"
        return web.Response(body=b"hello\n") if good else web.Response(status=401)

    path = tmp_path / "token"
    path.write_text("old")
    config = {"credentials": TokenFile(str(path), origin="test")}
    client = connect(loopback.serve(serve), config=config, clock=hand_clock)
    assert client.request("GET").status == 401
    path.write_text("new")
    hand_clock.advance(HOLD_OFF)
    chunks: queue.Queue[bytes] = queue.Queue()
    start(client, on_lines=chunks.put, on_end=lambda _: None)
    assert chunks.get(timeout=PATIENCE) == b"hello\n"


def test_close_ends_every_watch(connect: Connect, loopback: Any) -> None:
    client = connect(loopback.serve_raw(Endless()))
    chunks: queue.Queue[bytes] = queue.Queue()
    ends: list[Response] = []
    start(client, on_lines=chunks.put, on_end=ends.append)
    chunks.get(timeout=PATIENCE)
    client.transport.close(PATIENCE)
    start(client, on_lines=chunks.put, on_end=ends.append)
    assert ends == [
        Response(status=0, error="the client is closed"),
        Response(status=0, error="the client is closed", sent=False),
    ]
