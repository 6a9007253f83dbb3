"""HTTP on the wire: bytes that are written to a connection, and those that are received."""

from __future__ import annotations

import asyncio
import gc
import re
import tracemalloc
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httptools
import orjson
import pytest

from kcm.runtime.apiserver.http.api_request import ApiRequest
from kcm.runtime.apiserver.http.handler import LARGEST_BODY
from kcm.runtime.apiserver.registry.users import User
from kcm.runtime.client.api import Response
from kcm.runtime.http.server.buffered_bytes import BufferedBytes
from kcm.runtime.http.server.connection import (
    BODY_DEADLINE,
    MOST_HEADERS,
    MOST_PIECES,
    MOST_PIPELINED,
    HttpConnection,
)
from kcm.runtime.http.server.request import LARGEST_HEAD, StreamedBody
from kcm.runtime.http.server.response_writer import IN_ONE_WRITE, STALLED
from kcm.runtime.http.server.server import HttpServer
from kcm.runtime.logs.standard_log import quiet_log
from tests.runtime.apiserver.http.served import PODS, TOKEN, Served, posted_pod, run
from tests.runtime.apiserver.stores import HeldStore

HEAD = f"Host: h\r\nAuthorization: Bearer {TOKEN}\r\n"
DATE = b"Date: Fri, 02 Jan 2026 03:00:00 GMT\r\n"


def request_bytes(method: str, path: str, *lines: str, body: bytes = b"", version: str = "1.1") -> bytes:
    more = "".join(f"{line}\r\n" for line in (*lines, *([f"Content-Length: {len(body)}"] if body else [])))
    return f"{method} {path} HTTP/{version}\r\n{HEAD}{more}\r\n".encode() + body


def pod_body(name: str) -> bytes:
    return orjson.dumps(posted_pod(name))


class Line:
    """Client end of a connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def response(self, *, head_only: bool = False) -> tuple[int, bytes, bytes]:
        """Return status, head and body of the next response."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"Content-Length: (\d+)", head)
        body = b"" if found is None or head_only else await self.reader.readexactly(int(found[1]))
        return int(head.split()[1]), head, body

    async def is_closed(self) -> bool:
        return await self.reader.read() == b""


async def line_to(served: Served) -> Line:
    host, port = served.url.removeprefix("http://").split(":")
    return Line(*await asyncio.open_connection(host, int(port)))


def on_the_wire(scenario: Callable[[Served, Line], Awaitable[None]], **options: Any) -> None:
    async def whole(served: Served) -> None:
        line = await line_to(served)
        async with asyncio.timeout(20):
            await scenario(served, line)
        line.writer.close()

    run(whole, **options)


def test_response_has_expected_bytes() -> None:
    async def scenario(_: Served, line: Line) -> None:
        line.writer.write(request_bytes("GET", "/livez", "Audit-Id: of the client"))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
        head += b"Cache-Control: no-cache, private\r\nAudit-Id: of the client\r\nContent-Length: 2\r\n"
        assert await line.response() == (200, head + DATE + b"Server: kcm\r\n\r\n", b"ok")
        line.writer.write(request_bytes("GET", "/livez") * 2)
        ids = {re.findall(rb"\r\nAudit-Id: ([0-9a-f-]{36})\r\n", (await line.response())[1])[0] for _ in range(2)}
        assert len(ids) == 2

    on_the_wire(scenario)


def test_large_response_is_compressed_if_accepted() -> None:
    async def scenario(served: Served) -> None:
        await served.create("small")
        await served.create("large", metadata={"name": "large", "annotations": {"a": "x" * 140_000}})
        for name, accepted, encoding in (
            ("large", "gzip, deflate", "gzip"),
            ("large", "identity", None),
            ("small", "gzip", None),
        ):
            answer = await served.get(f"{PODS}/{name}", headers={"Accept-Encoding": accepted})
            assert answer.headers.get("Content-Encoding") == encoding
            assert answer.headers.get("Vary") == (encoding and "Accept-Encoding")
            assert int(answer.headers["Content-Length"]) < 5_000 or encoding is None
            assert answer.json["metadata"]["name"] == name  # the client has decompressed it

    run(scenario)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_request_may_arrive_in_pieces(size: int) -> None:
    async def scenario(_: Served, line: Line) -> None:
        whole = request_bytes("POST", PODS, body=pod_body("a"))
        for start in range(0, len(whole), size):
            line.writer.write(whole[start : start + size])
            await asyncio.sleep(0)
        assert (await line.response())[0] == 201

    on_the_wire(scenario)


def test_body_may_be_chunked() -> None:
    async def scenario(_: Served, line: Line) -> None:
        body = pod_body("a")
        line.writer.write(request_bytes("POST", PODS, "Transfer-Encoding: chunked"))
        for part in (body[:10], body[10:]):
            line.writer.write(b"%x\r\n%b\r\n" % (len(part), part))
        line.writer.write(b"0\r\n\r\n")
        assert (await line.response())[0] == 201

    on_the_wire(scenario)


def test_pipelined_requests_are_answered_in_order() -> None:
    store = HeldStore()

    async def scenario(served: Served, line: Line) -> None:
        store.release()
        several = [
            request_bytes("POST", PODS, body=pod_body("a")),
            request_bytes("GET", f"{PODS}/a"),
            request_bytes("DELETE", f"{PODS}/a"),
        ]
        line.writer.write(b"".join([*several, request_bytes("GET", f"{PODS}/a"), request_bytes("GET", "/nothing")]))
        while not store.held:
            await asyncio.sleep(0.001)
        assert served.api.revision < 10
        statuses = []
        for _ in range(5):
            releasing = asyncio.create_task(_keep_releasing(store))
            statuses.append((await line.response())[0])
            releasing.cancel()
        assert statuses == [201, 200, 200, 404, 404]

    on_the_wire(scenario, store=store)


async def _keep_releasing(store: HeldStore) -> None:
    while True:
        store.release()
        await asyncio.sleep(0.001)


def test_thousand_pipelined_requests_cause_no_deep_recursion() -> None:
    async def scenario(_: Served, line: Line) -> None:
        wrong = b"GET /livez HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer wrong\r\n\r\n"
        line.writer.write((request_bytes("GET", "/livez") + wrong) * 1500)
        statuses = [(await line.response())[0] for _ in range(3000)]
        assert statuses == [200, 401] * 1500

    on_the_wire(scenario)


@pytest.mark.parametrize(
    ("lines", "version", "connection"),
    [
        ((), "1.1", None),
        (("Connection: close",), "1.1", b"close"),
        ((), "1.0", b""),
        (("Connection: keep-alive",), "1.0", b"keep-alive"),
    ],
)
def test_connection_is_closed_when_the_client_requests_it(
    lines: tuple[str, ...], version: str, connection: bytes | None
) -> None:
    """Parametrized with the Connection header of the response; it stays open for None and keep-alive."""

    async def scenario(_: Served, line: Line) -> None:
        line.writer.write(request_bytes("GET", "/livez", *lines, version=version))
        _, head, body = await line.response()
        assert head.startswith(f"HTTP/{version} 200".encode())
        assert body == b"ok"
        match = re.search(rb"Connection: (.*)\r", head)
        assert (match[1] if match else b"") == (connection or b"")
        if connection in (b"close", b""):
            assert await line.is_closed()
        else:
            line.writer.write(request_bytes("GET", "/livez"))
            assert (await line.response())[0] == 200

    on_the_wire(scenario)


def test_a_watch_over_http_1_0_ends_with_its_connection() -> None:
    async def scenario(served: Served, line: Line) -> None:
        await served.create("a")
        line.writer.write(request_bytes("GET", f"{PODS}?watch=true&resourceVersion=0", version="1.0"))
        _, head, _ = await line.response(head_only=True)
        assert b"chunked" not in head
        assert orjson.loads(await line.reader.readline())["type"] == "ADDED"
        served.front.end_watches()
        assert await line.is_closed()

    on_the_wire(scenario)


def test_a_response_to_head_has_no_body() -> None:
    async def scenario(_: Served, line: Line) -> None:
        line.writer.write(request_bytes("HEAD", PODS) + request_bytes("GET", "/livez"))
        assert (await line.response(head_only=True))[0] == 405
        assert (await line.response())[0] == 200

    on_the_wire(scenario)


def test_expect_continue_is_answered_with_100() -> None:
    async def scenario(_: Served, line: Line) -> None:
        body = pod_body("a")
        line.writer.write(request_bytes("POST", PODS, "Expect: 100-continue", f"Content-Length: {len(body)}"))
        assert await line.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.writer.write(body)
        assert (await line.response())[0] == 201

    on_the_wire(scenario)


def test_request_refused_by_its_head_is_answered_before_its_body() -> None:
    async def scenario(_: Served, line: Line) -> None:
        stranger = f"POST {PODS} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
        line.writer.write(stranger.encode())
        assert (await line.response())[0] == 401
        line.writer.write(b"body" + request_bytes("POST", PODS, f"Content-Length: {LARGEST_BODY + 1}"))
        assert (await line.response())[0] == 413
        line.writer.write(b" " * (LARGEST_BODY + 1))
        line.writer.write(request_bytes("POST", PODS, "Transfer-Encoding: chunked") + b"%x\r\n" % (LARGEST_BODY + 1))
        line.writer.write(b" " * (LARGEST_BODY + 1))
        assert (await line.response())[0] == 413
        line.writer.write(b"\r\n0\r\n\r\n" + request_bytes("GET", "/livez"))
        assert (await line.response())[0] == 200

    on_the_wire(scenario)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"hello there\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nbroken\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * LARGEST_HEAD, 431),
    ],
    ids=["no HTTP", "no header", "two lengths", "a head without end"],
)
def test_malformed_request_is_refused_and_the_connection_closed(sent: bytes, status: int) -> None:
    async def scenario(_: Served, line: Line) -> None:
        line.writer.write(sent)
        head = await line.reader.readuntil(b"\r\n\r\n")
        assert int(head.split()[1]) == status
        assert b"Connection: close" in head

    on_the_wire(scenario)


def test_headers_of_eight_kilobytes_and_more_are_read() -> None:
    async def scenario(_: Served, line: Line) -> None:
        line.writer.write(request_bytes("GET", f"{PODS}?labelSelector=a+in+({','.join(['value'] * 5000)})"))
        assert (await line.response())[0] == 200

    on_the_wire(scenario)


def test_upgrade_to_another_protocol_is_ignored() -> None:
    async def scenario(_: Served, line: Line) -> None:
        line.writer.write(request_bytes("GET", "/livez", "Connection: Upgrade", "Upgrade: websocket") + b"\x81\x00")
        assert (await line.response())[0] == 200
        assert await line.is_closed()

    on_the_wire(scenario)


def test_token_is_checked_in_each_request() -> None:
    async def scenario(_: Served, line: Line) -> None:
        get = request_bytes("GET", f"{PODS}")
        for sent, status in ((get, 200), (get.replace(TOKEN.encode(), b"wrong"), 401), (get, 200)):
            line.writer.write(sent)
            assert (await line.response())[0] == status

    on_the_wire(scenario)


class Transport:
    """Fake transport that keeps what is written and reports that it is full on request."""

    def __init__(self) -> None:
        self.written, self.ends = b"", list[str]()
        self.is_reading = True
        self.full: Callable[[], None] | None = None
        self.room = 0

    def room_for(self, connection: HttpConnection, writes: int) -> None:
        """Report that the transport is full after this number of writes."""
        self.full, self.room = connection.pause_writing, writes

    def write(self, data: bytes) -> None:
        self.written += data
        if self.full is not None:
            self.room -= 1
            if not self.room:
                self.full()

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_extra_info(self, _name: str) -> None:
        return None

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.ends.append("closed")

    def abort(self) -> None:
        self.ends.append("aborted")


class RequestCollector:
    """Handler that collects requests without responding."""

    def __init__(self) -> None:
        self.requests: list[ApiRequest] = []
        self.cut: list[tuple[bytes, str]] = []
        self.admitted: list[ApiRequest] = []

    def admit(self, request: ApiRequest) -> Response | None:
        self.admitted.append(request)
        name = request.headers.get(b"user", b"").decode()
        request.user = User(name) if name else None
        return None

    def too_large(self) -> Response:
        return Response(status=413)

    def too_late(self) -> Response:
        return Response(status=504)

    def needs_body(self, request: ApiRequest) -> bool:
        assert request in self.admitted
        return request.method != "GET"

    def cut_off(self, connection: HttpConnection, why: str) -> None:
        self.cut.append((connection.target, why))

    def handle(self, request: ApiRequest) -> None:
        self.requests.append(request)


class Body:
    def __init__(self) -> None:
        self.events: list[str] = []

    def on_room(self) -> None:
        self.events.append("room")

    def on_lost(self) -> None:
        self.events.append("lost")


@contextmanager
def connected(
    bounds: Any = None, *, largest_body: int = 10
) -> Iterator[tuple[HttpServer, HttpConnection, Transport, list[ApiRequest]]]:
    handler, transport = RequestCollector(), Transport()
    buffered = BufferedBytes(now=lambda: 0.0, later=lambda _, do: None, log=quiet_log())
    server = HttpServer(
        handler,
        new_request=ApiRequest,
        largest_body=largest_body,
        now=lambda: 0.0,
        connections=bounds,
        buffered=buffered,
    )
    connection: Any = HttpConnection(server)
    connection.connection_made(transport)
    yield server, connection, transport, handler.requests


def test_next_request_is_not_read_while_the_client_does_not_read() -> None:
    async def scenario() -> None:
        with connected() as (_, connection, transport, requests):
            connection.data_received(request_bytes("GET", "/a"))
            connection.pause_writing()
            requests[0].respond(Response(status=200, body=b"much"))
            connection.data_received(request_bytes("GET", "/b"))
            assert (len(requests), transport.is_reading) == (1, False)
            connection.resume_writing()
            assert (requests[1].target, transport.is_reading) == (b"/b", True)

    asyncio.run(scenario())


def test_stream_is_notified_of_room_and_of_the_end() -> None:
    async def scenario() -> None:
        with connected() as (_, connection, transport, requests):
            connection.data_received(request_bytes("GET", "/a"))
            body: StreamedBody = (recorded := Body())
            requests[0].stream("text/plain", body)
            requests[0].write(b"abc")
            assert transport.written.endswith(b"\r\n\r\n3\r\nabc\r\n")
            connection.pause_writing()
            assert requests[0].is_full
            connection.resume_writing()
            connection.connection_lost(None)
            requests[0].write(b"late")
            requests[0].finish()
            assert (recorded.events, transport.written[-3:]) == (["room", "lost"], b"c\r\n")

    asyncio.run(scenario())


def test_a_request_is_answered_once() -> None:
    with connected() as (_, connection, transport, requests):
        connection.data_received(request_bytes("GET", "/a"))
        requests[0].respond(Response(status=200, body=b"one"))
        connection.data_received(request_bytes("GET", "/b"))
        requests[0].respond(Response(status=500, body=b"two"))
        assert transport.written.endswith(b"one\n")


def test_stopping_server_finishes_requests_and_cuts_slow_ones() -> None:
    async def scenario() -> None:
        with connected() as (server, connection, transport, requests):
            connection.data_received(request_bytes("GET", "/a"))
            idle: Any = HttpConnection(server)
            idle.connection_made(idle_transport := Transport())
            ending = asyncio.create_task(server.end(0.01))
            await asyncio.sleep(0)
            assert (idle_transport.ends, transport.ends) == (["closed"], [])
            idle.connection_lost(None)
            requests[0].respond(Response(status=200, body=b"one"))
            assert transport.ends == ["closed"]
            await ending
            assert transport.ends == ["closed", "aborted"]  # connection_lost has not been called

    asyncio.run(scenario())


class FakeBounds:
    """Records when the handling of requests begins and ends."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def began(self, _connection: object) -> None:
        self.events.append("began")

    def ended(self, _connection: object) -> None:
        self.events.append("ended")


@pytest.mark.parametrize(("user", "events"), [("admin", ["began"]), ("", [])])
def test_slow_body_is_tolerated_only_from_known_users(user: str, events: list[str]) -> None:
    """A connection whose request is being handled is never cut, however long it takes."""
    bounds = FakeBounds()

    async def scenario() -> None:
        with connected(bounds) as (_, connection, _, requests):
            connection.data_received(request_bytes("POST", "/livez", f"User: {user}", "Content-Length: 2"))
            assert bounds.events == events
            connection.data_received(b"{}")
            assert bounds.events[-1:] == ["began"]
            requests[0].respond(Response(status=200))
            assert bounds.events[-1:] == ["ended"]

    asyncio.run(scenario())


# Bounds on what a client sends.


def head_of(count: int) -> bytes:
    """Return a request with many header lines, most of which repeat a name."""
    return b"GET /a HTTP/1.1\r\nHost: h\r\n" + b"".join(b"x%d: y\r\n" % (i % 7) for i in range(count)) + b"\r\n"


def pieces_of(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
CHUNKED = request_bytes("POST", "/a", "Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (head_of(MOST_HEADERS - 1), b""),
        (head_of(MOST_HEADERS), TOO_LARGE),
        (head_of(300_000), TOO_LARGE),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * (2 * LARGEST_HEAD) + b"\r\n\r\n", TOO_LARGE),
        (b"GET /" + b"x" * (2 * LARGEST_HEAD) + b" HTTP/1.1\r\nHost: h\r\n\r\n", TOO_LARGE),
        (CHUNKED + b"0\r\n" + b"a: b\r\n" * MOST_HEADERS + b"\r\n", b""),
        (CHUNKED + b"0\r\n" + b"a: b\r\n" * (MOST_HEADERS + 1) + b"\r\n", TOO_LARGE),
        (CHUNKED + b"0\r\na: " + b"b" * (2 * LARGEST_HEAD) + b"\r\n\r\n", TOO_LARGE),
        (CHUNKED + b"1;a=" + b"b" * (2 * LARGEST_HEAD) + b"\r\nx\r\n0\r\n\r\n", TOO_LARGE),
        (CHUNKED + b"0" * (2 * LARGEST_HEAD) + b"1\r\nx\r\n0\r\n\r\n", TOO_LARGE),
    ],
    ids=[
        "as many lines as allowed",
        "one line more",
        "many lines",
        "a long line",
        "a long target",
        "as many trailers as allowed",
        "one trailer more",
        "a long trailer",
        "a long chunk extension",
        "a long chunk size",
    ],
)
@pytest.mark.parametrize("size", [1_000, 64_000, 10_000_000], ids=["pieces", "large pieces", "at once"])
def test_head_or_trailers_above_the_limits_are_rejected(sent: bytes, status: bytes, size: int) -> None:
    async def scenario() -> None:
        with connected() as (_, connection, transport, requests):
            for piece in pieces_of(sent, size):
                connection.data_received(piece)
                if transport.ends:
                    break
            assert transport.written.startswith(status)
            assert (len(requests), transport.ends) == ((0, ["closed"]) if status else (1, []))

    asyncio.run(scenario())


def test_parsing_stops_soon_after_the_limit_of_a_head() -> None:
    """The cost of short lines depends on their number, not on their bytes."""

    async def scenario() -> None:
        with connected() as (_, connection, _, _):
            seen = list[bytes]()
            real = connection.on_header

            def counted(name: bytes, value: bytes | None) -> None:
                seen.append(name)
                real(name, value)

            connection._parser = httptools.HttpRequestParser(CallbackProxy(connection, counted))
            connection.data_received(head_of(300_000))
            assert len(seen) < 4_000

    asyncio.run(scenario())


class CallbackProxy:
    """Parser callbacks of a connection, with a replaced `on_header`."""

    def __init__(self, connection: HttpConnection, on_header: Callable[[bytes, bytes | None], None]) -> None:
        self.on_header = on_header
        for name in ("on_message_begin", "on_url", "on_headers_complete", "on_body", "on_message_complete"):
            setattr(self, name, getattr(connection, name))


def test_head_in_too_many_pieces_is_rejected() -> None:
    """The parser copies the incomplete line for each piece."""

    async def scenario() -> None:
        with connected() as (_, connection, transport, _):
            connection.data_received(b"GET / HTTP/1.1\r\nX: ")
            for number in range(MOST_PIECES):
                assert not transport.ends, number
                connection.data_received(b"x")
            assert transport.written.startswith(TOO_LARGE)

    asyncio.run(scenario())


def test_trailers_are_ignored() -> None:
    async def scenario() -> None:
        with connected() as (_, connection, _, requests):
            trailers = b"Impersonate-User: root\r\nHost: other\r\nContent-Type: text/plain\r\n\r\n"
            connection.data_received(CHUNKED + b"2\r\n{}\r\n0\r\n" + trailers)
            names = {b"host", b"authorization"}
            assert (requests[0].body, requests[0].headers.keys(), requests[0].repeated) == (
                b"{}",
                {*names, b"transfer-encoding"},
                (),
            )
            requests[0].respond(Response(status=200))
            connection.data_received(request_bytes("GET", "/b"))
            assert (requests[1].headers.keys(), requests[1].repeated) == (names, ())

    asyncio.run(scenario())


def test_a_user_in_a_trailer_is_not_impersonated() -> None:
    async def scenario(_: Served, line: Line) -> None:
        body = pod_body("a")
        line.writer.write(
            request_bytes("POST", PODS, "Transfer-Encoding: chunked") + b"%x\r\n%b\r\n0\r\n" % (len(body), body)
        )
        line.writer.write(b"Impersonate-User: nobody\r\n\r\n")
        assert (await line.response())[0] == 201

    on_the_wire(scenario, role_based=True, users={TOKEN: User("admin", groups=("system:masters",))})


@pytest.mark.parametrize(
    ("lines", "version", "answer"),
    [
        ("", "1.1", "400 Bad Request: missing required Host header"),
        ("Host: a\r\nHost: a\r\n", "1.1", "400 Bad Request"),
        ("Host: a\r\nHost: b\r\n", "1.0", "400 Bad Request"),
        ("Host: a/b\r\n", "1.1", "400 Bad Request: malformed Host header"),
        ("Host: [::1]:6443\r\n", "1.1", ""),
        ("Host:\r\n", "1.1", ""),
        ("", "1.0", ""),
    ],
)
def test_a_request_without_exactly_one_well_formed_host_is_refused(lines: str, version: str, answer: str) -> None:
    async def scenario() -> None:
        with connected() as (_, connection, transport, requests):
            connection.data_received(f"GET /a HTTP/{version}\r\n{lines}\r\n".encode())
            assert len(requests) == (0 if answer else 1)
            close = f"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{answer}"
            assert transport.written.decode() == (f"HTTP/1.1 {answer}\r\n{close}" if answer else "")

    asyncio.run(scenario())


def test_a_body_in_many_chunks_takes_no_more_memory_than_its_bytes() -> None:
    async def scenario() -> None:
        with connected(largest_body=200_000) as (server, connection, _, requests):
            tracemalloc.start()
            connection.data_received(CHUNKED)
            for _ in range(1000):
                connection.data_received(b"2\r\nxy\r\n" * 100)
            assert tracemalloc.get_traced_memory()[0] < 500_000
            tracemalloc.stop()
            assert server.buffered is not None
            assert server.buffered.total >= 200_000
            connection.data_received(b"0\r\n\r\n")
            assert requests[0].body == b"xy" * 100_000
            requests[0].respond(Response(status=200))
            assert server.buffered.total == 0

    asyncio.run(scenario())


def test_unneeded_body_is_not_kept() -> None:
    async def scenario() -> None:
        with connected(largest_body=200_000) as (server, connection, _, requests):
            connection.data_received(request_bytes("GET", "/a", "Content-Length: 200000"))
            assert server.buffered is not None
            for _ in range(4):
                held = server.buffered.total
                connection.data_received(b"x" * 50_000)
                assert server.buffered.total <= max(held, 1000)
            assert [request.body for request in requests] == [b""]

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/healthz", "/version", "/apis", PODS, "/nothing"])
def test_no_body_of_an_anonymous_request_is_kept(path: str) -> None:
    async def scenario(served: Served) -> None:
        server = served.front.server()
        connection: Any = HttpConnection(server)
        connection.connection_made(Transport())
        connection.data_received(f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n".encode())
        for _ in range(20):
            connection.data_received(b"x" * 100_000)
        assert server.buffered is not None
        assert server.buffered.total < 10_000

    run(scenario, role_based=True)


def test_requests_behind_a_pending_one_are_not_parsed() -> None:
    async def scenario() -> None:
        with connected() as (_, connection, transport, requests):
            connection.data_received(request_bytes("GET", "/a"))
            connection.data_received(request_bytes("GET", "/b") * 4000)
            waiting = len(connection._waiting)
            assert MOST_PIPELINED <= waiting < MOST_PIPELINED + 300
            assert not transport.is_reading
            for number in range(4001):
                requests[number].respond(Response(status=200))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert len(connection._waiting) < MOST_PIPELINED + 300
            assert transport.written.count(b"HTTP/1.1 200 OK") == 4001
            assert transport.is_reading

    asyncio.run(scenario())


class AdvancingLoop(asyncio.SelectorEventLoop):
    """Event loop whose clock can be advanced."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead

    async def advance(self, seconds: float) -> None:
        self.ahead += seconds
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def run_with_advancing_loop(scenario: Callable[[AdvancingLoop], Awaitable[None]]) -> None:
    async def whole() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, AdvancingLoop)
        await scenario(loop)

    with asyncio.Runner(loop_factory=AdvancingLoop) as runner:
        runner.run(whole())


def test_a_body_that_takes_too_long_is_refused_and_the_connection_closed() -> None:
    async def scenario(loop: AdvancingLoop) -> None:
        with connected() as (_, connection, transport, _):
            connection.data_received(request_bytes("POST", "/a", "User: admin", "Content-Length: 9"))
            for _ in range(5):
                await loop.advance(BODY_DEADLINE / 5 - 1)
                connection.data_received(b"x")
                assert not transport.written
            await loop.advance(5)
            assert transport.written.startswith(b"HTTP/1.1 504 Gateway Timeout\r\n")
            assert transport.ends == ["closed"]

    run_with_advancing_loop(scenario)


def test_a_refused_body_that_does_not_end_is_cut_off() -> None:
    async def scenario(loop: AdvancingLoop) -> None:
        with connected() as (_, connection, transport, _):
            connection.data_received(request_bytes("POST", "/a", "Content-Length: 99"))
            assert transport.written.startswith(b"HTTP/1.1 413 ")
            assert not transport.ends
            await loop.advance(BODY_DEADLINE + 1)
            assert transport.ends == ["aborted"]

    run_with_advancing_loop(scenario)


def test_discarded_body_above_the_limit_ends_the_connection() -> None:
    async def scenario() -> None:
        with connected() as (server, connection, transport, _):
            connection.data_received(CHUNKED + b"99999999\r\n")
            for _ in range(server.longest_message // 10_000 + 3):
                connection.data_received(b"x" * 10_000)
            assert transport.ends == ["closed"]

    asyncio.run(scenario())


# Clients that do not read.


LONG = bytes(range(128, 256)) * 8192  # 1 MiB


def test_long_response_is_written_as_buffer_space_permits() -> None:
    async def scenario() -> None:
        with connected() as (server, connection, transport, requests):
            transport.room_for(connection, 3)
            connection.data_received(request_bytes("GET", "/a") + request_bytes("GET", "/b"))
            requests[0].respond(Response(status=200, body=LONG))
            assert server.buffered is not None
            at_first = len(transport.written)
            assert at_first <= 3 * IN_ONE_WRITE
            assert len(LONG) - at_first <= server.buffered.total <= len(LONG) + 1000
            while len(requests) == 1:
                transport.room_for(connection, 3)
                connection.resume_writing()
                await asyncio.sleep(0)
            assert transport.written.partition(b"\r\n\r\n")[2] == LONG + b"\n"
            assert server.buffered.total == 0

    asyncio.run(scenario())


def test_connection_is_closed_after_its_long_response_is_written() -> None:
    async def scenario() -> None:
        with connected() as (_, connection, transport, requests):
            transport.room_for(connection, 1)
            connection.data_received(request_bytes("GET", "/a", "Connection: close"))
            requests[0].respond(Response(status=200, body=LONG))
            while not transport.ends:
                transport.room_for(connection, 1)
                connection.resume_writing()
            assert transport.written.endswith(LONG + b"\n")
            assert transport.ends == ["closed"]

    asyncio.run(scenario())


def test_a_client_that_reads_nothing_is_cut_off_and_a_slow_one_is_not() -> None:
    async def scenario(loop: AdvancingLoop) -> None:
        with connected() as (server, connection, transport, requests):
            transport.room_for(connection, 1)
            connection.data_received(request_bytes("GET", "/a"))
            requests[0].respond(Response(status=200, body=LONG))
            for _ in range(10):  # ten minutes
                await loop.advance(STALLED - 1)
                transport.room_for(connection, 1)
                connection.resume_writing()
            assert not transport.ends
            await loop.advance(STALLED + 1)
            assert transport.ends == ["aborted"]
            handler: Any = server.handler
            assert handler.cut == [(b"/a", "its client does not read")]

    run_with_advancing_loop(scenario)


def test_a_watch_whose_client_reads_nothing_is_cut_off() -> None:
    async def scenario(loop: AdvancingLoop) -> None:
        with connected() as (server, connection, transport, requests):
            connection.data_received(request_bytes("GET", "/a"))
            requests[0].stream("text/plain", Body())
            transport.room_for(connection, 1)
            requests[0].write(LONG)
            requests[0].hold(1000)
            assert server.buffered is not None
            assert server.buffered.total > 1000
            await loop.advance(STALLED + 1)
            assert transport.ends == ["aborted"]

    run_with_advancing_loop(scenario)


def test_large_head_is_freed_after_the_response() -> None:
    async def scenario() -> None:
        with connected() as (server, connection, _, requests):
            connection.data_received(request_bytes("GET", "/a", f"X: {'x' * 500_000}"))
            assert server.buffered is not None
            assert server.buffered.total >= 480_000
            requests[0].respond(Response(status=200))
            assert (connection._request.headers, server.buffered.total) == ({}, 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("is_early", [True, False], ids=["with the watch", "after it has begun"])
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
def test_requests_behind_a_watch_are_ignored_and_disconnection_is_detected(is_early: bool, at_once: bool) -> None:
    async def scenario() -> None:
        with connected() as (server, connection, transport, requests):
            body = Body()
            if at_once:
                handler: Any = server.handler
                handler.handle = lambda request: requests.append(request) or request.stream("text/plain", body)
            behind = request_bytes("GET", "/b") * 4000 + request_bytes("POST", "/c", "User: admin", "Content-Length: 9")
            connection.data_received(request_bytes("GET", "/a") + (behind if is_early else b""))
            if not at_once:
                requests[0].stream("text/plain", body)
            connection.data_received(behind)
            connection.data_received(request_bytes("GET", "/d"))
            assert server.buffered is not None
            assert (transport.is_reading, server.buffered.total, len(requests)) == (True, 0, 1)
            requests[0].finish()
            assert transport.ends == ["closed"]
            connection.connection_lost(None)
            assert body.events == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "sent",
    [
        head_of(MOST_HEADERS),
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        CHUNKED + b"0\r\n" + b"a: b\r\n" * (MOST_HEADERS + 1) + b"\r\n",
        request_bytes("GET", "/", "Expect: x"),
        b"broken\r\n\r\n",
    ],
    ids=["many lines", "no host", "many trailers", "unknown expectation", "garbage"],
)
def test_rejected_connection_gets_one_response_and_is_freed_at_once(sent: bytes) -> None:
    """Freed without the garbage collector, which runs rarely."""

    async def scenario() -> None:
        with connected() as (server, _, _, requests):
            connection: Any = HttpConnection(server)
            connection.connection_made(transport := Transport())
            connection.data_received(sent)
            assert transport.written.count(b"HTTP/1.1 ") == 1
            assert transport.ends == ["closed"]
            connection.connection_lost(None)
            handler: Any = server.handler
            requests.clear()
            handler.admitted.clear()
            gc.disable()
            left = weakref.ref(connection._transport)
            del connection, transport
            assert left() is None
            gc.enable()

    asyncio.run(scenario())
