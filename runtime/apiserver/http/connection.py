"""HTTP/1.1 between connections and a handler: an asyncio protocol for each connection, an object for each request.

Kept thin, since every request of a busy cluster passes here. llhttp (httptools) parses; no task and no future is made
for a request, its head stays bytes, and a response that is small goes out in one write. Requests of one connection are
handled in order, the next one after the response to the one before.

Source for what clients see: Go's net/http, server.go.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Protocol, cast

import httptools

from runtime.apiserver.errors.field_errors import quoted
from runtime.apiserver.errors.warnings import Warnings
from runtime.apiserver.http.authentication import CertificateUser
from runtime.apiserver.registry.users import User
from runtime.client.api import Response
from runtime.process.bounded_connections import BoundedConnections

LARGEST_HEAD = 1024 * 1024  # bytes, as upstream
COMPRESSED_FROM = 128 * 1024  # bytes of a body, as upstream, which compresses little and fast, too
_GZIP = 31  # zlib's largest window, with gzip's head and end
IN_ONE_WRITE = 64 * 1024  # bytes of a body that are copied to stand behind their head
_NOBODY_KEEPS_IT = b"no-cache, private"
_BAD_REQUEST, _HEAD_TOO_LARGE = "400 Bad Request", "431 Request Header Fields Too Large"
_BEFORE_ITS_BODY = b"HTTP/1.1 100 Continue\r\n\r\n"
# By whether it is HTTP/1.1 and whether the connection ends: what is no matter of course is said.
_CONNECTION = {
    (True, False): b"",
    (True, True): b"Connection: close\r\n",
    (False, False): b"Connection: keep-alive\r\n",
    (False, True): b"",
}


class Streamed(Protocol):
    """A body that is written bit by bit."""

    def on_room(self) -> None:
        """The connection is not full any more."""

    def on_lost(self) -> None:
        """The client is gone."""


class Handler(Protocol):
    """Its methods do not raise, nor wait."""

    def admit(self, request: HttpRequest) -> Response | None:
        """Look at the head. A Response refuses the request: its body is not kept."""

    def handle(self, request: HttpRequest) -> None:
        """Have the request answered, now or later: by respond, or by stream and finish."""

    def too_large(self) -> Response:
        """To a request with too large a body."""


class Observer(Protocol):
    """What becomes of one request. id: for its response's head."""

    id: bytes

    def impersonated(self, user: User, constraint: str) -> None: ...

    def decided(self, *, allowed: bool, reason: str) -> None: ...

    def requested(self, body: bytes) -> None: ...

    def responded(self, response: Response) -> None: ...

    def started(self) -> None: ...

    def finished(self) -> None: ...


class HttpRequest:
    """method: in capitals. target: as it was sent. headers: by name in lower case; of several of one name the first.

    began: when it came to the handler, in unix seconds. observer: is told what becomes of it. repeated: further headers
    of a name. user: for the handler, None for nobody.
    """

    __slots__ = (
        "_connection",
        "began",
        "body",
        "headers",
        "is_last",
        "method",
        "observer",
        "refusal",
        "repeated",
        "size",
        "target",
        "user",
        "version",
    )

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection
        self.method, self.target, self.body, self.version = "", b"", b"", "1.1"
        self.began = 0.0
        self.user: User | None = None
        self.headers: dict[bytes, bytes] = {}
        self.repeated: tuple[tuple[bytes, bytes], ...] = ()
        self.refusal: Response | None = None
        self.observer: Observer | None = None
        self.is_last = False  # the connection is closed after the response
        self.size = 0  # bytes of the body that have come

    @property
    def connection(self) -> HttpConnection:
        return self._connection

    @property
    def is_awaited(self) -> bool:
        """Whether its client is still there, and has no response yet."""
        return self._connection.awaits(self)

    def respond(
        self,
        response: Response,
        *,
        warnings: Sequence[str] = (),
        lines: bytes = b"",
        cache: bytes = b"",
        whole: Response | None = None,
    ) -> None:
        """warnings: kubectl prints them. lines: more of the head. cache: who may keep it, by default nobody. whole: the
        response in JSON, for who observes, where this is another form.

        Once for each request. Does nothing if the client is gone.
        """
        if self.observer is not None:
            self.observer.responded(whole or response)
            lines += b"Audit-Id: %b\r\n" % self.observer.id
        if response.retry_after:
            lines += b"Retry-After: %d\r\n" % math.ceil(response.retry_after)
        lines += _warning_lines(warnings)
        if len(response.body) > COMPRESSED_FROM and b"gzip" in self.headers.get(b"accept-encoding", b""):
            response = replace(response, body=zlib.compress(response.body, 1, wbits=_GZIP))
            lines += b"Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n"
        self._connection.respond(self, response, b"Cache-Control: %b\r\n%b" % (cache or _NOBODY_KEEPS_IT, lines))

    def stream(self, content_type: str, body: Streamed, *, warnings: Sequence[str] = ()) -> None:
        """Begin a response whose body comes by `write`, until `finish`. Does nothing if the client is gone."""
        if self.observer is not None:
            self.observer.started()
        self._connection.stream(self, content_type, body, _warning_lines(warnings))

    def write(self, data: bytes) -> None:
        """Part of a streamed body; not empty."""
        self._connection.write(self, data)

    @property
    def is_full(self) -> bool:
        """More should be written when the body is told that there is room."""
        return self._connection.is_full

    def finish(self) -> None:
        """The end of a streamed body."""
        if self.observer is not None:
            self.observer.finished()
        self._connection.finish(self)

    def abort(self) -> None:
        """Cut the client off."""
        self._connection.abort()


class HttpServer:
    """Makes the protocols of its connections. For the event loop's thread."""

    def __init__(
        self,
        handler: Handler,
        *,
        largest_body: int,
        now: Callable[[], float],
        connections: BoundedConnections | None = None,
    ) -> None:
        """largest_body: bytes. now: unix seconds. connections: those that it will have, if they are bounded."""
        self.handler, self.largest_body, self.bounded = handler, largest_body, connections
        self.ending = False
        self._now = now
        self._dated, self._date = -1, b""
        self._open: set[HttpConnection] = set()
        self._all_closed: asyncio.Event | None = None

    def __call__(self) -> asyncio.Protocol:
        return HttpConnection(self)

    def date(self) -> bytes:
        second = int(self._now())
        if second != self._dated:
            self._dated, self._date = second, formatdate(second, usegmt=True).encode()
        return self._date

    async def end(self, patience: float) -> None:
        """Close all connections, those in use after their response; after so many seconds all that are left."""
        self.ending, self._all_closed = True, asyncio.Event()
        for connection in [*self._open]:
            connection.close_if_idle()
        if self._open:
            try:
                async with asyncio.timeout(patience):
                    await self._all_closed.wait()
            except TimeoutError:
                for connection in [*self._open]:
                    connection.abort()

    def made(self, connection: HttpConnection) -> None:
        self._open.add(connection)

    def lost(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        if not self._open and self._all_closed is not None:
            self._all_closed.set()


class HttpConnection(asyncio.Protocol):
    """One connection.

    authorization: the header of its last request with the token of a permanent user; known_as: that user.
    certificate: the user that the client certificate names; None until the first request is authenticated.
    """

    __slots__ = (
        "_body",
        "_current",
        "_discarding",
        "_head_size",
        "_is_closing",
        "_parser",
        "_request",
        "_server",
        "_stream",
        "_transport",
        "_unanswered",
        "_waiting",
        "authorization",
        "certificate",
        "is_full",
        "known_as",
    )

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport
        self._parser: Any = httptools.HttpRequestParser(self)
        self._request = HttpRequest(self)  # that is being read
        self._head_size = 0  # bytes of a head that is not complete
        self._body: list[bytes] = []
        self._discarding = False  # the body of a request that was refused
        self._current: HttpRequest | None = None  # that is being handled
        self._waiting: deque[HttpRequest] = deque()  # complete, or refused
        self._unanswered = 0  # requests whose head has come
        self._stream: Streamed | None = None
        self._is_closing = False  # nothing is read or written any more
        self.is_full = False
        self.authorization: bytes | None = None
        self.certificate: CertificateUser | None = None
        self.known_as: User | None = None

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.made(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._is_closing = True
        self._waiting.clear()
        current, self._current = self._current, None
        if current is not None and current.observer is not None and self._stream is not None:
            current.observer.finished()
        del self._parser, self._request  # they refer to us, and the collector comes seldom
        self._server.lost(self)
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.on_lost()

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        if self._stream is not None:
            self._stream.on_room()
        elif self._waiting:
            self._go_on()

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            self.abort()
            raise
        except httptools.HttpParserUpgrade:
            pass  # its request is the last one here; nothing else is spoken
        except httptools.HttpParserError:
            self._refuse_connection(_BAD_REQUEST)
        else:
            self._head_size += len(data)
            if self._head_size > LARGEST_HEAD and not self._request.method:
                self._refuse_connection(_HEAD_TOO_LARGE)

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._request = HttpRequest(self)
        self._head_size = 0

    def on_url(self, part: bytes) -> None:
        self._request.target += part

    def on_header(self, name: bytes, value: bytes | None) -> None:
        request, name, value = self._request, name.lower(), value or b""
        if request.headers.setdefault(name, value) is not value:
            request.repeated += ((name, value),)

    def on_headers_complete(self) -> None:
        if self._is_closing:
            return
        request, parser, server = self._request, self._parser, self._server
        request.method = parser.get_method().decode()
        request.version = parser.get_http_version()
        request.is_last = server.ending or not parser.should_keep_alive() or parser.should_upgrade()
        headers = request.headers
        request.refusal = server.handler.admit(request)
        if self._unanswered == 0 and server.bounded is not None and (request.user or request.refusal is not None):
            server.bounded.began(self)
        self._unanswered += 1
        if request.refusal is None:
            length = headers.get(b"content-length", b"")
            if length.isdigit() and int(length) > server.largest_body:
                request.refusal = server.handler.too_large()
        if request.refusal is not None:
            self._refuse(request)
        elif b"expect" in headers and headers[b"expect"].lower() == b"100-continue" and self._unanswered == 1:
            self._transport.write(_BEFORE_ITS_BODY)

    def on_body(self, part: bytes) -> None:
        if self._discarding or self._is_closing:
            return
        request = self._request
        request.size += len(part)
        if request.size <= self._server.largest_body:
            self._body.append(part)
            return
        request.refusal = self._server.handler.too_large()
        self._refuse(request)

    def on_message_complete(self) -> None:
        if self._discarding or self._is_closing:
            self._discarding = False
            return
        request = self._request
        body = self._body
        if body:
            request.body = body[0] if len(body) == 1 else b"".join(body)
            body.clear()
        if not request.user and self._server.bounded is not None:
            self._server.bounded.began(self)  # not before: nobody else may let us wait for a body
        if self._current is None and not self.is_full and not self._waiting:
            self._current = request
            self._server.handler.handle(request)
        else:
            self._waiting.append(request)
            self._transport.pause_reading()

    # One request after the other.

    def _refuse(self, request: HttpRequest) -> None:
        """In its turn, which does not wait for its body."""
        self._discarding = True
        self._body.clear()
        self._waiting.append(request)
        self._go_on()

    def _go_on(self) -> None:
        """Handle what waits, until something has to be waited for."""
        while self._waiting and self._current is None and not self.is_full and not self._is_closing:
            self._current = request = self._waiting.popleft()
            if request.refusal is not None:
                request.respond(request.refusal)
            else:
                self._server.handler.handle(request)
        if self._is_closing:
            return
        if self._waiting:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _answered(self, request: HttpRequest) -> None:
        self._current = None
        self._unanswered -= 1
        if request.is_last or self._server.ending:
            self._close()
        elif self._waiting:
            # Not here: a long row of small requests would go as deep as it is long.
            asyncio.get_running_loop().call_soon(self._go_on)
        elif self._unanswered == 0 and self._server.bounded is not None:
            self._server.bounded.ended(self)

    def awaits(self, request: HttpRequest) -> bool:
        return self._current is request and not self._is_closing

    # What is sent.

    def respond(self, request: HttpRequest, response: Response, lines: bytes) -> None:
        """lines: of the head, after its Content-Type."""
        if self._is_closing or self._current is not request:
            return
        transport = self._transport
        body = response.body
        head = b"%b%bContent-Length: %d\r\nDate: %b\r\nServer: kcm\r\n%b\r\n" % (
            _status_and_type(request.version, response.status, response.content_type),
            lines,
            len(body),
            self._server.date(),
            _CONNECTION[request.version == "1.1", request.is_last],
        )
        if request.method == "HEAD":
            body = b""
        if len(body) <= IN_ONE_WRITE:
            transport.write(head + body)
        else:
            transport.writelines((head, body))
        self._answered(request)

    def stream(self, request: HttpRequest, content_type: str, body: Streamed, lines: bytes) -> None:
        """lines: of the head."""
        if self._is_closing or self._current is not request:
            return
        transport = self._transport
        self._stream = body
        head = _status_and_type(request.version, 200, content_type)
        end = b"%bCache-Control: no-cache, private\r\nDate: %b\r\nServer: kcm\r\n" % (lines, self._server.date())
        if request.observer is not None:
            end += b"Audit-Id: %b\r\n" % request.observer.id
        if request.version == "1.1":
            end = b"Transfer-Encoding: chunked\r\n" + end
        else:
            request.is_last = True  # else nobody would see its end
        transport.write(b"%b%b%b\r\n" % (head, end, _CONNECTION[request.version == "1.1", request.is_last]))

    def write(self, request: HttpRequest, data: bytes) -> None:
        if self._is_closing or self._current is not request:
            return
        transport = self._transport
        if request.version != "1.1":
            transport.write(data)
        elif len(data) <= IN_ONE_WRITE:
            transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            transport.writelines((b"%x\r\n" % len(data), data, b"\r\n"))

    def finish(self, request: HttpRequest) -> None:
        if self._is_closing or self._current is not request:
            return
        self._stream = None
        if request.version == "1.1":
            self._transport.write(b"0\r\n\r\n")
        self._answered(request)

    # The end.

    @property
    def tls(self) -> ssl.SSLObject | None:
        """None without TLS."""
        return cast("ssl.SSLObject | None", self._transport.get_extra_info("ssl_object"))

    @property
    def peer(self) -> str:
        """The other side's address, for people."""
        name = self._transport.get_extra_info("peername")
        return str(name[0]) if name else ""

    def close_if_idle(self) -> None:
        if self._unanswered == 0:
            self._close()

    def abort(self) -> None:
        self._is_closing = True
        self._transport.abort()

    def _close(self) -> None:
        """What is written already still goes out."""
        self._is_closing = True
        self._transport.close()

    def _refuse_connection(self, text: str) -> None:
        """What comes cannot be told apart any more. What is being answered is cut short too."""
        if self._current is None:
            head = f"HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{text}"
            self._transport.write(head.encode())
        self._close()


def _warning_lines(warnings: Sequence[str]) -> bytes:
    if not warnings:
        return b""
    shown = Warnings(warnings).shown()
    return b"".join(b"Warning: 299 - %b\r\n" % quoted(text).encode() for text in shown)


@lru_cache(maxsize=256)
def _status_and_type(version: str, status: int, content_type: str) -> bytes:
    """The beginning of a response's head."""
    return f"HTTP/{version} {status} {HTTPStatus(status).phrase}\r\nContent-Type: {content_type}\r\n".encode()
