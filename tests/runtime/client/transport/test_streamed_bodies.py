"""Streaming of response bodies with read()."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from kcm.runtime.client.api import ReadsAsItComes, Request, Response
from kcm.runtime.client.watch_stream import PIECE
from tests.runtime.client.transport.test_watches import HEAD, PATIENCE, chunk, streaming

LIST = Request(method="GET", path="/api/v1/pods")
Connect = Callable[..., Any]


class Reader:
    """Collector of the body that read() delivers."""

    def __init__(self, connect: Connect, url: str) -> None:
        self.pieces: queue.Queue[bytes] = queue.Queue()
        self.ends: queue.Queue[Response] = queue.Queue()
        transport = connect(url).transport
        assert isinstance(transport, ReadsAsItComes)
        self.stream = transport.read(LIST, client="tester", on_bytes=self.pieces.put, on_end=self.ends.put)

    def all(self) -> tuple[list[bytes], Response]:
        end = self.ends.get(timeout=PATIENCE)
        return [self.pieces.get_nowait() for _ in range(self.pieces.qsize())], end


def test_small_body_is_delivered_in_one_piece_before_the_end(connect: Connect, loopback: Any) -> None:
    reader = Reader(connect, loopback.serve_raw(streaming(b'{"items":', b"[]}\n")))
    assert reader.all() == ([b'{"items":[]}\n'], Response(status=200))


def test_large_body_is_delivered_in_large_pieces(connect: Connect, loopback: Any) -> None:
    body = [b"%06d" % number * 1000 for number in range(200)]
    pieces, end = Reader(connect, loopback.serve_raw(streaming(*body))).all()
    assert b"".join(pieces) == b"".join(body)
    assert all(len(piece) >= PIECE for piece in pieces[:-1])
    assert end == Response(status=200)


def test_piece_is_delivered_while_the_server_still_writes(connect: Connect, loopback: Any) -> None:
    seen = threading.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + chunk(b"x" * PIECE))
        await asyncio.to_thread(seen.wait, PATIENCE)
        writer.write(chunk(b"y") + b"0\r\n\r\n")
        await writer.drain()

    reader = Reader(connect, loopback.serve_raw(handle))
    assert reader.pieces.get(timeout=PATIENCE) == b"x" * PIECE
    seen.set()
    assert reader.all() == ([b"y"], Response(status=200))


def test_end_of_a_truncated_body_reports_it_and_drops_the_rest(connect: Connect, loopback: Any) -> None:
    pieces, end = Reader(connect, loopback.serve_raw(streaming(b"half", end=b""))).all()
    assert pieces == []
    assert end.status == 0
    assert "was cut off" in end.error
    assert "line" not in end.error


def test_end_of_a_rejected_request_has_status_and_body(connect: Connect, loopback: Any) -> None:
    async def refuse(_request: web.Request) -> web.Response:
        return web.json_response({"message": "no"}, status=403)

    pieces, end = Reader(connect, loopback.serve(refuse)).all()
    assert (pieces, end.status, end.body) == ([], 403, b'{"message": "no"}')


@pytest.mark.parametrize("size", [10, PIECE])
def test_failing_consumer_receives_the_end(connect: Connect, loopback: Any, size: int) -> None:
    client, ends = connect(loopback.serve_raw(streaming(b"x" * size))), queue.Queue[Response]()

    def fail(_piece: bytes) -> None:
        raise ValueError("cannot take it")

    client.transport.read(LIST, client="tester", on_bytes=fail, on_end=ends.put)
    end = ends.get(timeout=PATIENCE)
    assert (end.status, "cannot take it" in end.error) == (0, True)


def test_callback_may_cancel_the_read(connect: Connect, loopback: Any) -> None:
    taken, ends = queue.Queue[bytes](), queue.Queue[Response]()
    client = connect(loopback.serve_raw(streaming(*[b"x" * PIECE] * 3)))
    streams: list[Any] = []
    ready = threading.Event()

    def take(piece: bytes) -> None:
        ready.wait(PATIENCE)
        streams[0].cancel()
        taken.put(piece)

    streams.append(client.transport.read(LIST, client="tester", on_bytes=take, on_end=ends.put))
    ready.set()
    taken.get(timeout=PATIENCE)
    client.transport.close(1)
    assert (taken.qsize(), ends.qsize()) == (0, 0)
