"""HTTP as it stands on the wire: what is written into a connection, byte for byte, and what comes back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest

from runtime.apiserver.http.connection import LARGEST_HEAD, HttpConnection, HttpRequest, HttpServer, Streamed
from runtime.apiserver.http.handler import LARGEST_BODY
from runtime.apiserver.registry.users import User
from runtime.client.api import Response
from tests.runtime.apiserver.http.served import PODS, TOKEN, Served, posted_pod, run
from tests.runtime.apiserver.stores import HeldStore

HEAD = f"Host: h\r\nAuthorization: Bearer {TOKEN}\r\n"
DATE = b"Date: Fri, 02 Jan 2026 03:00:00 GMT\r\n"


def asked(method: str, path: str, *lines: str, body: bytes = b"", version: str = "1.1") -> bytes:
    more = "".join(f"{line}\r\n" for line in (*lines, *([f"Content-Length: {len(body)}"] if body else [])))
    return f"{method} {path} HTTP/{version}\r\n{HEAD}{more}\r\n".encode() + body


def pod_body(name: str) -> bytes:
    return orjson.dumps(posted_pod(name))


class Line:
    """A connection of bytes to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def response(self, *, head_only: bool = False) -> tuple[int, bytes, bytes]:
        """Status, head, body."""
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


def test_a_response_is_these_bytes() -> None:
    async def scenario(_: Served, line: Line) -> None:
        line.writer.write(asked("GET", "/livez"))
        status = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
        status += b"Cache-Control: no-cache, private\r\nContent-Length: 2\r\n"
        assert await line.response() == (200, status + DATE + b"Server: kcm\r\n\r\n", b"ok")

    on_the_wire(scenario)


def test_a_large_response_is_compressed_for_who_takes_it() -> None:
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
            assert answer.json["metadata"]["name"] == name  # its client has unpacked it

    run(scenario)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_request_may_come_in_pieces(size: int) -> None:
    async def scenario(_: Served, line: Line) -> None:
        whole = asked("POST", PODS, body=pod_body("a"))
        for start in range(0, len(whole), size):
            line.writer.write(whole[start : start + size])
            await asyncio.sleep(0)
        assert (await line.response())[0] == 201

    on_the_wire(scenario)


def test_a_body_may_come_in_chunks() -> None:
    async def scenario(_: Served, line: Line) -> None:
        body = pod_body("a")
        line.writer.write(asked("POST", PODS, "Transfer-Encoding: chunked"))
        for part in (body[:10], body[10:]):
            line.writer.write(b"%x\r\n%b\r\n" % (len(part), part))
        line.writer.write(b"0\r\n\r\n")
        assert (await line.response())[0] == 201

    on_the_wire(scenario)


def test_requests_that_come_together_are_answered_in_order() -> None:
    store = HeldStore()

    async def scenario(served: Served, line: Line) -> None:
        store.release()
        several = [asked("POST", PODS, body=pod_body("a")), asked("GET", f"{PODS}/a"), asked("DELETE", f"{PODS}/a")]
        line.writer.write(b"".join([*several, asked("GET", f"{PODS}/a"), asked("GET", "/nothing")]))
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


def test_a_thousand_requests_at_once_are_no_deep_recursion() -> None:
    async def scenario(_: Served, line: Line) -> None:
        wrong = b"GET /livez HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer wrong\r\n\r\n"
        line.writer.write((asked("GET", "/livez") + wrong) * 1500)
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
def test_who_wants_the_connection_closed_has_it_closed(
    lines: tuple[str, ...], version: str, connection: bytes | None
) -> None:
    """connection: what the response says; None and keep-alive: it stays open."""

    async def scenario(_: Served, line: Line) -> None:
        line.writer.write(asked("GET", "/livez", *lines, version=version))
        _, head, body = await line.response()
        assert head.startswith(f"HTTP/{version} 200".encode())
        assert body == b"ok"
        said = re.search(rb"Connection: (.*)\r", head)
        assert (said[1] if said else b"") == (connection or b"")
        if connection in (b"close", b""):
            assert await line.is_closed()
        else:
            line.writer.write(asked("GET", "/livez"))
            assert (await line.response())[0] == 200

    on_the_wire(scenario)


def test_a_watch_over_http_1_0_ends_with_its_connection() -> None:
    async def scenario(served: Served, line: Line) -> None:
        await served.create("a")
        line.writer.write(asked("GET", f"{PODS}?watch=true&resourceVersion=0", version="1.0"))
        _, head, _ = await line.response(head_only=True)
        assert b"chunked" not in head
        assert orjson.loads(await line.reader.readline())["type"] == "ADDED"
        served.front.end_watches()
        assert await line.is_closed()

    on_the_wire(scenario)


def test_a_response_to_head_has_no_body() -> None:
    async def scenario(_: Served, line: Line) -> None:
        line.writer.write(asked("HEAD", PODS) + asked("GET", "/livez"))
        assert (await line.response(head_only=True))[0] == 405
        assert (await line.response())[0] == 200

    on_the_wire(scenario)


def test_who_waits_to_send_a_body_is_told_to_go_on() -> None:
    async def scenario(_: Served, line: Line) -> None:
        body = pod_body("a")
        line.writer.write(asked("POST", PODS, "Expect: 100-continue", f"Content-Length: {len(body)}"))
        assert await line.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.writer.write(body)
        assert (await line.response())[0] == 201

    on_the_wire(scenario)


def test_what_is_refused_by_its_head_is_answered_before_its_body_which_is_not_kept() -> None:
    async def scenario(_: Served, line: Line) -> None:
        stranger = f"POST {PODS} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
        line.writer.write(stranger.encode())
        assert (await line.response())[0] == 401
        line.writer.write(b"body" + asked("POST", PODS, f"Content-Length: {LARGEST_BODY + 1}"))
        assert (await line.response())[0] == 413
        line.writer.write(b" " * (LARGEST_BODY + 1))
        line.writer.write(asked("POST", PODS, "Transfer-Encoding: chunked") + b"%x\r\n" % (LARGEST_BODY + 1))
        line.writer.write(b" " * (LARGEST_BODY + 1))
        assert (await line.response())[0] == 413
        line.writer.write(b"\r\n0\r\n\r\n" + asked("GET", "/livez"))
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
def test_what_cannot_be_read_is_refused_and_the_connection_closed(sent: bytes, status: int) -> None:
    async def scenario(_: Served, line: Line) -> None:
        line.writer.write(sent)
        head = await line.reader.readuntil(b"\r\n\r\n")
        assert int(head.split()[1]) == status
        assert b"Connection: close" in head

    on_the_wire(scenario)


def test_headers_of_eight_kilobytes_and_more_are_read() -> None:
    async def scenario(_: Served, line: Line) -> None:
        line.writer.write(asked("GET", f"{PODS}?labelSelector=a+in+({','.join(['value'] * 5000)})"))
        assert (await line.response())[0] == 200

    on_the_wire(scenario)


def test_another_protocol_is_not_spoken() -> None:
    async def scenario(_: Served, line: Line) -> None:
        line.writer.write(asked("GET", "/livez", "Connection: Upgrade", "Upgrade: websocket") + b"\x81\x00")
        assert (await line.response())[0] == 200
        assert await line.is_closed()

    on_the_wire(scenario)


def test_a_token_is_looked_at_in_each_request() -> None:
    async def scenario(_: Served, line: Line) -> None:
        get = asked("GET", f"{PODS}")
        for one, status in ((get, 200), (get.replace(TOKEN.encode(), b"wrong"), 401), (get, 200)):
            line.writer.write(one)
            assert (await line.response())[0] == status

    on_the_wire(scenario)


class Transport:
    """A transport that keeps what is written, and says that it is full when told so."""

    def __init__(self) -> None:
        self.written, self.ends = b"", list[str]()
        self.is_reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.ends.append("closed")

    def abort(self) -> None:
        self.ends.append("aborted")


class Kept:
    """A handler that keeps requests."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []

    def admit(self, request: HttpRequest) -> Response | None:
        name = request.headers.get(b"user", b"").decode()
        request.user = User(name) if name else None
        return None

    def too_large(self) -> Response:
        return Response(status=413)

    def handle(self, request: HttpRequest) -> None:
        self.requests.append(request)


class Body:
    def __init__(self) -> None:
        self.told: list[str] = []

    def on_room(self) -> None:
        self.told.append("room")

    def on_lost(self) -> None:
        self.told.append("lost")


@contextmanager
def connected(bounds: Any = None) -> Iterator[tuple[HttpServer, HttpConnection, Transport, list[HttpRequest]]]:
    handler, transport = Kept(), Transport()
    server = HttpServer(handler, largest_body=10, now=lambda: 0.0, connections=bounds)
    connection: Any = server()
    connection.connection_made(transport)
    yield server, connection, transport, handler.requests


def test_while_the_client_takes_nothing_its_next_request_waits_unread() -> None:
    async def scenario() -> None:
        with connected() as (_, connection, transport, requests):
            connection.data_received(asked("GET", "/a"))
            connection.pause_writing()
            requests[0].respond(Response(status=200, body=b"much"))
            connection.data_received(asked("GET", "/b"))
            assert (len(requests), transport.is_reading) == (1, False)
            connection.resume_writing()
            assert (requests[1].target, transport.is_reading) == (b"/b", True)

    asyncio.run(scenario())


def test_a_stream_is_told_of_room_and_of_the_end() -> None:
    with connected() as (_, connection, transport, requests):
        connection.data_received(asked("GET", "/a"))
        body: Streamed = (told := Body())
        requests[0].stream("text/plain", body)
        requests[0].write(b"abc")
        assert transport.written.endswith(b"\r\n\r\n3\r\nabc\r\n")
        connection.pause_writing()
        assert requests[0].is_full
        connection.resume_writing()
        connection.connection_lost(None)
        requests[0].write(b"late")
        requests[0].finish()
        assert (told.told, transport.written[-3:]) == (["room", "lost"], b"c\r\n")


def test_a_request_is_answered_once() -> None:
    with connected() as (_, connection, transport, requests):
        connection.data_received(asked("GET", "/a"))
        requests[0].respond(Response(status=200, body=b"one"))
        connection.data_received(asked("GET", "/b"))
        requests[0].respond(Response(status=500, body=b"two"))
        assert transport.written.endswith(b"one")


def test_a_server_that_ends_lets_requests_be_answered_and_cuts_what_takes_too_long() -> None:
    async def scenario() -> None:
        with connected() as (server, connection, transport, requests):
            connection.data_received(asked("GET", "/a"))
            idle: Any = server()
            idle.connection_made(idle_transport := Transport())
            ending = asyncio.create_task(server.end(0.01))
            await asyncio.sleep(0)
            assert (idle_transport.ends, transport.ends) == (["closed"], [])
            idle.connection_lost(None)
            requests[0].respond(Response(status=200, body=b"one"))
            assert transport.ends == ["closed"]
            await ending
            assert transport.ends == ["closed", "aborted"]  # it never said that it was lost

    asyncio.run(scenario())


class Bounds:
    """Keeps when a connection does not wait."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def began(self, _connection: object) -> None:
        self.told.append("began")

    def ended(self, _connection: object) -> None:
        self.told.append("ended")


@pytest.mark.parametrize(("user", "told"), [("admin", ["began"]), ("", [])])
def test_the_body_of_a_request_is_waited_for_only_if_its_user_is_known(user: str, told: list[str]) -> None:
    """A connection that does not wait is never cut, however long its request takes."""
    bounds = Bounds()
    with connected(bounds) as (_, connection, _, requests):
        connection.data_received(asked("GET", "/livez", f"User: {user}", "Content-Length: 2"))
        assert bounds.told == told
        connection.data_received(b"{}")
        assert bounds.told[-1:] == ["began"]
        requests[0].respond(Response(status=200))
        assert bounds.told[-1:] == ["ended"]
