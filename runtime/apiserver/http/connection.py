"""HTTP/1.1 between connections and a handler: an asyncio protocol for each connection, an object for each request.

Kept thin, since every request of a busy cluster passes here. llhttp (httptools) parses; no task and no future is made
for a request, its head stays bytes, and a response that is small goes out in one write. Requests of one connection are
handled in order, the next one after the response to the one before.

Source for what clients see: Go's net/http, server.go.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import re
import ssl
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Protocol, cast

import httptools

from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.warnings import Warnings
from kcm.runtime.apiserver.http.authentication import CertificateUser
from kcm.runtime.apiserver.http.buffered_bytes import BufferedBytes
from kcm.runtime.apiserver.http.json_bodies import encoded
from kcm.runtime.apiserver.registry.users import User
from kcm.runtime.client.api import JSON, Response
from kcm.runtime.process.bounded_connections import BoundedConnections

LARGEST_HEAD = 1024 * 1024  # bytes of a request's head and trailers, as upstream
MOST_HEADERS = 500  # lines of a head, and again of trailers: each costs far more than its bytes; as Go since 1.27
MOST_PIECES = 4096  # reads that one head may take: the parser copies what it has of a line at each
READ_AT_ONCE = 16 * 1024  # bytes that are parsed before these bounds are checked
MOST_PIPELINED = 64  # requests that may wait for the response to the one before; further ones stay unparsed
# Bytes on the wire per byte of a body. A chunk of one byte takes six.
MOST_OVERHEAD = 8
BODY_DEADLINE = 60.0  # seconds from the end of a request's head to that of its body, as upstream's --request-timeout
# Connections. What TLS leaves of one that its client has cut off is in cycles: few objects for the collector, which
# comes seldom, but some 100 kB of OpenSSL's.
COLLECT_EVERY = 64
STALLED = 60.0  # seconds after which a client that reads nothing of its response is cut off
WRITE_BUFFER = 128 * 1024  # bytes that the transport may buffer before it has us wait
COMPRESSED_FROM = 128 * 1024  # bytes of a body, as upstream, which compresses little and fast, too
_GZIP = 31  # zlib's largest window, with gzip's head and end
IN_ONE_WRITE = 64 * 1024  # bytes of a body that go to the transport at a time, together with the head if that is all
TEXT = "text/plain; charset=utf-8"
NO_SNIFFING = b"X-Content-Type-Options: nosniff\r\n"
_NOBODY_KEEPS_IT = b"no-cache, private"
_BAD_REQUEST, _HEAD_TOO_LARGE = "400 Bad Request", "431 Request Header Fields Too Large"
_NO_HOST, _WRONG_HOST = f"{_BAD_REQUEST}: missing required Host header", f"{_BAD_REQUEST}: malformed Host header"
_HOST = re.compile(rb"[!$%&'()*+,\-.0-9:;=@A-Z\[\]_a-z~]*")  # net/http's httpguts.ValidHostHeader
_UNEXPECTED = b"HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\nDate: %b\r\nContent-Length: 0\r\n\r\n"
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
        """Return the response to a request with too large a body."""

    def needs_body(self, request: HttpRequest) -> bool:
        """Report whether the body will be used; otherwise none of it is kept. Called when its first bytes arrive."""

    def too_late(self) -> Response:
        """Return the response to a request whose body did not arrive in time."""

    def cut_off(self, connection: HttpConnection, why: str) -> None:
        """Log that a connection is closed because of its client."""


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
    """One request and its response.

    method: in capitals; empty until the head is complete.
    target: as it was sent.
    headers: by name in lower case; of several lines with one name the first.
    repeated: further headers with a name that was there already.
    began: when it came to the handler, in Unix seconds.
    observer: is informed of what happens to it.
    place: set by the handler: what the target means to it.
    user: set by the handler; None for an unknown user.
    """

    __slots__ = (
        "_connection",
        "began",
        "body",
        "headers",
        "is_complete",
        "is_last",
        "method",
        "observer",
        "place",
        "refusal",
        "refusal_lines",
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
        self.repeated: list[tuple[bytes, bytes]] | tuple[()] = ()
        self.refusal: Response | None = None
        self.refusal_lines = b""
        self.observer: Observer | None = None
        self.place: Any = None
        self.is_last = False  # the connection is closed after the response
        self.size = 0  # bytes of the body that have come
        self.is_complete = False  # all of it has come

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
        as_it_is: bool = False,
    ) -> None:
        """warnings: kubectl prints them. lines: more of the head. cache: who may keep it, by default nobody. whole: the
        response in JSON, for who observes, where this is another form. as_it_is: the body, which otherwise, if it is
        JSON, is written as upstream's serializer writes objects.

        Once for each request. Does nothing if the client is gone.
        """
        if self.observer is not None:
            self.observer.responded(whole or response)
        headers, body = self.headers, response.body
        lines = b"Audit-Id: %b\r\n%b" % (self._audit_id(), lines)
        if response.retry_after:
            lines += b"Retry-After: %d\r\n" % math.ceil(response.retry_after)
        if warnings:
            lines += _warning_lines(warnings)
        if not as_it_is and response.content_type.startswith(JSON):
            body = encoded(body, self.target, headers.get(b"user-agent", b""))
        if len(body) > COMPRESSED_FROM and b"gzip" in headers.get(b"accept-encoding", b""):
            body = zlib.compress(body, 1, wbits=_GZIP)
            lines += b"Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n"
        self._connection.respond(self, response, body, b"Cache-Control: %b\r\n%b" % (cache or _NOBODY_KEEPS_IT, lines))

    def _audit_id(self) -> bytes:
        if self.observer is not None:
            return self.observer.id
        return self.headers.get(b"audit-id") or self._connection.server.next_id()

    def stream(self, content_type: str, body: Streamed, *, warnings: Sequence[str] = ()) -> None:
        """Begin a response whose body comes by `write`, until `finish`. Does nothing if the client is gone."""
        if self.observer is not None:
            self.observer.started()
        lines = b"Audit-Id: %b\r\n%b" % (self._audit_id(), _warning_lines(warnings))
        self._connection.stream(self, content_type, body, lines)

    def write(self, data: bytes) -> None:
        """Part of a streamed body; not empty."""
        self._connection.write(self, data)

    def hold(self, size: int) -> None:
        """Record how many bytes of a streamed body wait to be written."""
        self._connection.hold_streamed(size)

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
        buffered: BufferedBytes | None = None,
    ) -> None:
        """largest_body: bytes. now: Unix seconds.

        connections, buffered: the bounds on its connections and on what these buffer, if there are any.
        """
        self.handler, self.largest_body, self.bounded, self.buffered = handler, largest_body, connections, buffered
        self.longest_message = LARGEST_HEAD + MOST_OVERHEAD * largest_body  # bytes of one request on the wire
        self.ending = False
        self._now = now
        self._dated, self._date = -1, b""
        self._id_prefix, self._numbers = str(uuid.uuid4())[:24].encode(), itertools.count()
        self._open: set[HttpConnection] = set()
        self._lost = 0
        self._all_closed: asyncio.Event | None = None

    def __call__(self) -> asyncio.Protocol:
        return HttpConnection(self)

    def next_id(self) -> bytes:
        """A UUID for the next request, of which only the last part changes."""
        return b"%b%012x" % (self._id_prefix, next(self._numbers))

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
        self._lost += 1
        if not self._lost % COLLECT_EVERY:
            asyncio.get_running_loop().call_soon(gc.collect, 1 if not self._lost % (16 * COLLECT_EVERY) else 0)
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
        "_deadline",
        "_discarding",
        "_head_size",
        "_held",
        "_host",
        "_is_closing",
        "_is_last",
        "_message_size",
        "_parser",
        "_pieces",
        "_request",
        "_server",
        "_stalled",
        "_stream",
        "_streamed",
        "_trailers",
        "_transport",
        "_unanswered",
        "_unparsed",
        "_unsent",
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
        self._head_size = 0  # bytes of a head that is not complete, then of what is neither head nor body
        self._host: bytes | None = b"/"  # of the last request, which was well-formed
        self._pieces = 0  # reads that left this head incomplete
        self._trailers = 0  # lines
        self._message_size = 0  # bytes of a request whose head is complete but whose body is not
        self._body: bytes | bytearray = b""
        self._discarding = False  # the body of a request that was refused, or that needs none
        self._deadline: asyncio.TimerHandle | None = None  # for the body
        self._current: HttpRequest | None = None  # that is being handled
        self._waiting: deque[HttpRequest] = deque()  # complete, or refused
        self._unparsed = b""  # requests behind those that wait
        self._unanswered = 0  # requests whose head has come
        self._stream: Streamed | None = None
        self._unsent: deque[memoryview] = deque()  # of the response, until the transport has room
        self._is_last = False  # what is unsent ends the response
        self._streamed = 0  # bytes that wait in the stream
        self._held = 0  # bytes that were last reported as held
        self._stalled: asyncio.TimerHandle | None = None  # for the client to read
        self._is_closing = False  # nothing is read or written any more
        self.is_full = False
        self.authorization: bytes | None = None
        self.certificate: CertificateUser | None = None
        self.known_as: User | None = None

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        self._server.made(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._is_closing = True
        self._waiting.clear()
        self._unsent.clear()
        self._unparsed = self._body = b""
        current, self._current = self._current, None
        if current is not None and current.observer is not None and self._stream is not None:
            current.observer.finished()
        for timer in (self._deadline, self._stalled):
            if timer is not None:
                timer.cancel()
        self._hold(0)
        del self._parser, self._request  # they refer to us, and the collector comes seldom
        self._server.lost(self)
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.on_lost()

    def pause_writing(self) -> None:
        self.is_full = True
        self._stalled = asyncio.get_running_loop().call_later(STALLED, self._cut_off, "its client does not read")

    def resume_writing(self) -> None:
        self.is_full = False
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        if self._unsent:
            self._send_on()
        if self.is_full or self._unsent or self._is_closing:
            return
        if self._stream is not None:
            self._stream.on_room()
        elif self._waiting:
            self._go_on()

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        if self._stream is not None and self._current is not None:
            self._drop_what_waits(self._current)
            return
        if self._unparsed or len(data) > READ_AT_ONCE:
            self._unparsed += data
            self._parse_on()
        elif self._parse(data) and (self._held or not self._request.is_complete):
            self._note_incomplete()
        if self._waiting and self._stream is not None and self._current is not None:
            self._drop_what_waits(self._current)  # it came together with the request that streams

    def _parse_on(self) -> None:
        """Parse what has been read, unless many requests wait already."""
        data = memoryview(self._unparsed)
        self._unparsed, at = b"", 0
        while at < len(data) and len(self._waiting) < MOST_PIPELINED:
            if not self._parse(data[at : at + READ_AT_ONCE]):
                return
            at += READ_AT_ONCE
        self._unparsed = bytes(data[at:])
        self._note_incomplete()

    def _parse(self, data: bytes | memoryview) -> bool:
        """Return False if nothing more is to be parsed: the connection is about to be closed."""
        size_before = self._request.size
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            self.abort()
            raise
        except httptools.HttpParserUpgrade:
            return False  # its request is the last one here; nothing else is spoken
        except httptools.HttpParserError:
            if not self._is_closing:
                self._refuse_connection(_BAD_REQUEST)
            return False
        request = self._request
        if request.is_complete:
            return True
        if self._is_closing:
            return False
        # What was parsed ends within a message: its bounds are checked here rather than at each line.
        self._message_size += len(data)
        if not request.method or request.size == size_before:  # a head, trailers, or extensions of chunks
            self._head_size += len(data)
        if self._head_size > LARGEST_HEAD or len(request.headers) + len(request.repeated) > MOST_HEADERS:
            self._refuse_connection(_HEAD_TOO_LARGE)
        elif self._message_size > self._server.longest_message:
            self._refuse_connection(_BAD_REQUEST)
        return not self._is_closing

    def _note_incomplete(self) -> None:
        """After each read: report what is held of a message that is not complete, and see that it does not take long.

        Until its body is complete a request of an unknown user is subject to BoundedConnections.
        """
        request = self._request
        if request.is_complete:
            if self._held or self._message_size:
                self._hold_all()
            return
        if not request.method:
            self._pieces += 1
            if self._pieces > MOST_PIECES:
                self._refuse_connection(_HEAD_TOO_LARGE)
                return
        elif self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(BODY_DEADLINE, self._body_is_late)
        self._hold_all()

    # What the parser calls. No callback raises to stop it: the parser would keep the exception, whose frames refer to
    # the parser, until the next collection. What is left of a piece after a refusal is ignored.

    def on_message_begin(self) -> None:
        self._request = HttpRequest(self)
        if self._message_size or self._trailers:
            self._head_size = self._pieces = self._trailers = self._message_size = 0

    def on_url(self, part: bytes) -> None:
        self._request.target += part

    def on_header(self, name: bytes, value: bytes | None) -> None:
        request, name, value = self._request, name.lower(), value or b""
        if self._is_closing:
            return
        if request.method:  # a trailer, which has no meaning here
            self._trailers += 1
            self._head_size += len(name) + len(value)
            if self._trailers > MOST_HEADERS or self._head_size > LARGEST_HEAD:
                self._refuse_connection(_HEAD_TOO_LARGE)
        elif name in request.headers:
            if not request.repeated:
                request.repeated = []
            request.repeated.append((name, value))
        else:
            request.headers[name] = value

    def on_headers_complete(self) -> None:
        if self._is_closing:
            return
        request, parser, server = self._request, self._parser, self._server
        request.method = parser.get_method().decode()
        request.version = parser.get_http_version()
        request.is_last = server.ending or not parser.should_keep_alive() or parser.should_upgrade()
        headers = request.headers
        host = headers.get(b"host")
        if host != self._host or request.repeated or len(headers) > MOST_HEADERS:
            if problem := _problem_of(request, host):
                self._refuse_connection(problem)
                return
            self._host = host
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
        elif b"expect" in headers:
            if headers[b"expect"].lower() != b"100-continue":
                self._unanswered -= 1
                if self._current is None:
                    self._transport.write(_UNEXPECTED % server.date())
                self._close()
                return
            if self._unanswered == 1:
                self._transport.write(_BEFORE_ITS_BODY)

    def on_body(self, part: bytes) -> None:
        if self._is_closing:
            return
        request = self._request
        if not request.size and not self._discarding:
            self._discarding = not self._server.handler.needs_body(request)
        request.size += len(part)
        if request.size > self._server.largest_body:
            if request.refusal is None:
                request.refusal = self._server.handler.too_large()
                self._refuse(request)
        elif not self._discarding:
            if not self._body:
                self._body = part
            else:
                if isinstance(self._body, bytes):
                    self._body = bytearray(self._body)
                self._body += part

    def on_message_complete(self) -> None:
        request = self._request
        request.is_complete = True
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._discarding = False
        if request.refusal is not None or self._is_closing:
            return
        if self._body:
            request.body, self._body = bytes(self._body), b""
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
        """Respond in its turn, without waiting for its body, none of which is kept."""
        self._discarding = True
        self._body = b""
        self._waiting.append(request)
        self._go_on()

    def _go_on(self) -> None:
        """Handle what waits, until something has to be waited for."""
        while self._waiting and self._current is None and not self.is_full and not self._is_closing:
            self._current = request = self._waiting.popleft()
            if request.refusal is not None:
                request.respond(request.refusal, lines=request.refusal_lines)
            else:
                self._server.handler.handle(request)
        if self._is_closing:
            return
        if self._waiting:
            self._transport.pause_reading()
        elif self._unparsed:
            asyncio.get_running_loop().call_soon(self._read_on)
        else:
            self._transport.resume_reading()

    def _read_on(self) -> None:
        if self._is_closing or self._waiting or not self._unparsed:
            return
        self._parse_on()
        if not self._waiting and not self._unparsed and not self._is_closing:
            self._transport.resume_reading()

    def _answered(self, request: HttpRequest) -> None:
        self._current = None
        self._unanswered -= 1
        if self._head_size and request is self._request:  # a large head would stay until the next request
            request.headers, request.repeated, request.target = {}, (), b""
        if self._held:
            self._hold_all()
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

    def respond(self, request: HttpRequest, response: Response, body: bytes, lines: bytes) -> None:
        """body: of the response, as it is sent. lines: of the head, after its Content-Type."""
        if self._is_closing or self._current is not request or self._unsent:
            return
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
            self._transport.write(head + body)
            self._answered(request)
        else:
            self._send(head, body, is_last=True)

    def stream(self, request: HttpRequest, content_type: str, body: Streamed, lines: bytes) -> None:
        """lines: of the head."""
        if self._is_closing or self._current is not request:
            return
        transport = self._transport
        self._stream = body
        if self._waiting or self._unparsed or not self._request.is_complete:
            self._drop_what_waits(request)
        head = _status_and_type(request.version, 200, content_type)
        end = b"%bCache-Control: no-cache, private\r\nDate: %b\r\nServer: kcm\r\n" % (lines, self._server.date())
        if request.version == "1.1":
            end = b"Transfer-Encoding: chunked\r\n" + end
        else:
            request.is_last = True  # else nobody would see its end
        transport.write(b"%b%b%b\r\n" % (head, end, _CONNECTION[request.version == "1.1", request.is_last]))

    def _drop_what_waits(self, streaming: HttpRequest) -> None:
        """Ignore what comes behind a request whose response may never end, and close the connection after it.

        To keep it would mean to stop reading, and the end of the connection would not be seen.
        """
        streaming.is_last = True
        self._unanswered = 1
        self._waiting.clear()
        self._unparsed = self._body = b""
        self._request = streaming
        self._head_size = self._message_size = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._transport.resume_reading()
        self._hold_all()

    def write(self, request: HttpRequest, data: bytes) -> None:
        if self._is_closing or self._current is not request:
            return
        whole = (data,) if request.version != "1.1" else (b"%x\r\n" % len(data), data, b"\r\n")
        if len(data) <= IN_ONE_WRITE and not self._unsent:
            self._transport.write(b"".join(whole))
        else:
            self._send(*whole)

    def finish(self, request: HttpRequest) -> None:
        if self._is_closing or self._current is not request:
            return
        self._stream = None
        end = b"0\r\n\r\n" if request.version == "1.1" else b""
        if self._unsent:
            self._send(end, is_last=True)
            return
        if end:
            self._transport.write(end)
        self._answered(request)

    def _send(self, *parts: bytes, is_last: bool = False) -> None:
        """Hand over to the transport what it has room for, and the rest when there is room again.

        A transport takes whatever it is given: a whole list would be in memory twice with TLS, and nothing would tell
        a client that reads slowly from one that does not read.
        """
        self._unsent += map(memoryview, filter(None, parts))
        self._is_last = is_last
        self._send_on()
        if self._unsent or self._held:
            self._hold_all()

    def _send_on(self) -> None:
        unsent, transport = self._unsent, self._transport
        while unsent and not self.is_full and not self._is_closing:
            part = unsent[0]
            transport.write(part[:IN_ONE_WRITE])
            if len(part) > IN_ONE_WRITE:
                unsent[0] = part[IN_ONE_WRITE:]
            else:
                unsent.popleft()
        if unsent or self._is_closing:
            return
        if self._is_last and self._current is not None:
            self._is_last = False
            self._answered(self._current)
        elif self._held:
            self._hold_all()

    # What is held for the client.

    def hold_streamed(self, size: int) -> None:
        self._streamed = size
        if not self._is_closing:
            self._hold_all()

    def _hold_all(self) -> None:
        """Report what is held: of requests that are small only what is incomplete."""
        size = len(self._body) + len(self._unparsed) + self._streamed + sum(map(len, self._unsent))
        if not self._request.is_complete or self._request is self._current:
            size += self._head_size
        if self._current is not None:
            size += len(self._current.body)
        self._hold(size + sum(len(request.body) for request in self._waiting))

    def _hold(self, size: int) -> None:
        buffered = self._server.buffered
        if buffered is not None and size != self._held:
            self._held = size
            buffered.hold(self, size)

    def _body_is_late(self) -> None:
        self._deadline = None
        request = self._request
        if self._stream is not None and self._current is not None:
            self._drop_what_waits(self._current)
        elif request.refusal is None:
            request.is_last, request.refusal = True, self._server.handler.too_late()
            self._refuse(request)
        else:
            self._cut_off("its client does not send the rest of a request")

    def _cut_off(self, why: str) -> None:
        if not self._is_closing:
            self._server.handler.cut_off(self, why)
            self.abort()

    # The end.

    @property
    def tls(self) -> ssl.SSLObject | None:
        """None without TLS."""
        return cast("ssl.SSLObject | None", self._transport.get_extra_info("ssl_object"))

    @property
    def server(self) -> HttpServer:
        return self._server

    @property
    def is_known(self) -> bool:
        """Whether the user of the request that is being handled or read is known."""
        return (self._current or self._request).user is not None

    @property
    def target(self) -> bytes:
        """That of the request which is being handled, or else read."""
        return (self._current or self._request).target

    @property
    def peer(self) -> str:
        """The other side's address, for people."""
        name = self._transport.get_extra_info("peername")
        return str(name[0]) if name else ""

    @property
    def is_idle(self) -> bool:
        """Whether all requests that have come are answered."""
        return self._unanswered == 0

    def close_if_idle(self) -> None:
        if self.is_idle:
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


def _problem_of(request: HttpRequest, host: bytes | None) -> str:
    """Return the status line of a refusal, as Go's net/http words it; "" for a head without a problem."""
    if len(request.headers) + len(request.repeated) > MOST_HEADERS:
        return _HEAD_TOO_LARGE
    if host is None:
        return "" if request.version == "1.0" or request.method == "CONNECT" else _NO_HOST
    if any(name == b"host" for name, _ in request.repeated):
        return _BAD_REQUEST
    return "" if _HOST.fullmatch(host) else _WRONG_HOST


def _warning_lines(warnings: Sequence[str]) -> bytes:
    if not warnings:
        return b""
    shown = Warnings(warnings).shown()
    return b"".join(b"Warning: 299 - %b\r\n" % quoted(text).encode() for text in shown)


@lru_cache(maxsize=256)
def _status_and_type(version: str, status: int, content_type: str) -> bytes:
    """The beginning of a response's head."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:  # a webhook may refuse with any number
        phrase = f"status code {status}"  # as Go writes it
    more = "X-Content-Type-Options: nosniff\r\n" if content_type == TEXT else ""
    return f"HTTP/{version} {status} {phrase}\r\nContent-Type: {content_type}\r\n{more}".encode()
