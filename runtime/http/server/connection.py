"""Connection of the server: its requests are parsed, checked against limits, and handled in order."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import deque
from typing import Any, cast

import httptools

from kcm.runtime.http.server.request import LARGEST_HEAD, HttpRequest
from kcm.runtime.http.server.response_writer import ResponseWriter
from kcm.runtime.http.server.server import HttpServer

MOST_HEADERS = 500  # lines of a head, and again of trailers: each costs far more than its bytes; as Go since 1.27
MOST_PIECES = 4096  # reads for one head: at each the parser copies the incomplete line
READ_AT_ONCE = 16 * 1024  # bytes that are parsed before these limits are checked
MOST_PIPELINED = 64  # requests that may wait for the response to the one before; further ones stay unparsed
BODY_DEADLINE = 60.0  # seconds from the end of a request's head to that of its body, as upstream's --request-timeout
WRITE_BUFFER = 128 * 1024  # bytes that the transport may buffer before it pauses writing
_BAD_REQUEST, _HEAD_TOO_LARGE = "400 Bad Request", "431 Request Header Fields Too Large"
_NO_HOST, _WRONG_HOST = f"{_BAD_REQUEST}: missing required Host header", f"{_BAD_REQUEST}: malformed Host header"
_HOST = re.compile(rb"[!$%&'()*+,\-.0-9:;=@A-Z\[\]_a-z~]*")  # net/http's httpguts.ValidHostHeader
_EXPECTATION_FAILED = b"HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\nDate: %b\r\nContent-Length: 0\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpConnection(ResponseWriter):
    """Protocol of one connection: reads its requests and passes them to the handler in order."""

    __slots__ = (
        "_body",
        "_deadline",
        "_discarding",
        "_head_size",
        "_host",
        "_message_size",
        "_parser",
        "_pieces",
        "_request",
        "_trailers",
        "_unanswered",
        "_unparsed",
        "_waiting",
        "identity",
    )

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._parser: Any = httptools.HttpRequestParser(self)
        self._request = server.new_request(self)  # request that is being read
        self._head_size = 0  # bytes of an incomplete head, then of data outside of head and body
        self._host: bytes | None = b"/"  # of the last well-formed request
        self._pieces = 0  # reads that left this head incomplete
        self._trailers = 0  # lines
        self._message_size = 0  # bytes of a request whose head is complete but whose body is not
        self._body: bytes | bytearray = b""
        self._discarding = False  # the rest of the body is discarded
        self._deadline: asyncio.TimerHandle | None = None  # for the body
        self._waiting: deque[HttpRequest] = deque()  # complete, or refused
        self._unparsed = b""  # input after the requests that wait
        self._unanswered = 0  # requests whose head has arrived
        self.identity: Any = None

    # The transport's callbacks.

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
        if current is not None:
            current.on_lost(is_streaming=self._stream is not None)
        for timer in (self._deadline, self._stalled):
            if timer is not None:
                timer.cancel()
        self._hold(0)
        del self._parser, self._request  # they refer to the connection, and the collector runs seldom
        self._server.lost(self)
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.on_lost()

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        if self._stream is not None and self._current is not None:
            self._ignore_input(self._current)
            return
        if self._unparsed or len(data) > READ_AT_ONCE:
            self._unparsed += data
            self._parse_on()
        elif self._parse(data) and (self._held or not self._request.is_complete):
            self._note_incomplete()
        if self._waiting and self._stream is not None and self._current is not None:
            self._ignore_input(self._current)  # input that arrived together with the streaming request

    def _parse_on(self) -> None:
        """Parse the input, unless many requests are waiting already."""
        data = memoryview(self._unparsed)
        self._unparsed, at = b"", 0
        while at < len(data) and len(self._waiting) < MOST_PIPELINED:
            if not self._parse(data[at : at + READ_AT_ONCE]):
                return
            at += READ_AT_ONCE
        self._unparsed = bytes(data[at:])
        self._note_incomplete()

    def _parse(self, data: bytes | memoryview) -> bool:
        """Parse some input. Return False if the connection will be closed."""
        size_before = self._request.size
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            self.abort()
            raise
        except httptools.HttpParserUpgrade:
            return False  # an upgrade request is the last one, because other protocols are not supported
        except httptools.HttpParserError:
            if not self._is_closing:
                self._refuse_connection(_BAD_REQUEST)
            return False
        request = self._request
        if request.is_complete:
            return True
        if self._is_closing:
            return False
        # The input ends within a message: its limits are checked here instead of at each line.
        self._message_size += len(data)
        if not request.method or request.size == size_before:  # a head, trailers, or extensions of chunks
            self._head_size += len(data)
        if self._head_size > LARGEST_HEAD or len(request.headers) + len(request.repeated) > MOST_HEADERS:
            self._refuse_connection(_HEAD_TOO_LARGE)
        elif self._message_size > self._server.longest_message:
            self._refuse_connection(_BAD_REQUEST)
        return not self._is_closing

    def _note_incomplete(self) -> None:
        """Report the buffered bytes of an incomplete message, and limit its time. Called after each read.

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

    # The parser's callbacks. None of them raises to stop it: the parser would keep the exception, whose frames refer to
    # the parser, until the next collection. The rest of a piece after a refusal is ignored.

    def on_message_begin(self) -> None:
        self._request = self._server.new_request(self)
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
                    self._transport.write(_EXPECTATION_FAILED % server.date())
                self._close()
                return
            if self._unanswered == 1:
                self._transport.write(_CONTINUE)

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
            self._server.bounded.began(self)  # not before: only known users may delay their body
        if self._current is None and not self.is_full and not self._waiting:
            self._current = request
            self._server.handler.handle(request)
        else:
            self._waiting.append(request)
            self._transport.pause_reading()

    # One request after the other.

    def _refuse(self, request: HttpRequest) -> None:
        """Refuse a request in its turn, without waiting for its body, which is discarded."""
        self._discarding = True
        self._body = b""
        self._waiting.append(request)
        self._go_on()

    def _go_on(self) -> None:
        """Handle the waiting requests, until one is not answered at once or the client does not read."""
        while self._waiting and self._current is None and not self.is_full and not self._is_closing:
            self._current = request = self._waiting.popleft()
            if request.refusal is not None:
                request.refuse()
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
        if self._head_size and request is self._request:  # otherwise a large head stays until the next request
            request.headers, request.repeated, request.target = {}, (), b""
        if self._held:
            self._hold_all()
        if request.is_last or self._server.ending:
            self._close()
        elif self._waiting:
            # Not by a call: many small requests would cause a deep recursion.
            asyncio.get_running_loop().call_soon(self._go_on)
        elif self._unanswered == 0 and self._server.bounded is not None:
            self._server.bounded.ended(self)

    def _handle_waiting(self) -> None:
        if self._waiting:
            self._go_on()

    # What follows a request with a streamed response.

    def _before_stream(self, request: HttpRequest) -> None:
        if self._waiting or self._unparsed or not self._request.is_complete:
            self._ignore_input(request)

    def _ignore_input(self, streaming: HttpRequest) -> None:
        """Ignore the input after a request whose response may never end, and close the connection after it.

        Keeping the input would mean to stop reading, and then the end of the connection would not be noticed.
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

    # Buffered bytes.

    def _hold_all(self) -> None:
        """Report the number of buffered bytes, including the head of an incomplete request."""
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
            self._ignore_input(self._current)
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
        return cast("ssl.SSLObject | None", self._transport.get_extra_info("ssl_object"))

    def next_id(self) -> bytes:
        return self._server.next_id()

    @property
    def is_known(self) -> bool:
        """Report whether the user of the request that is being handled or read is known."""
        return (self._current or self._request).user is not None

    @property
    def target(self) -> bytes:
        return (self._current or self._request).target

    @property
    def peer(self) -> str:
        name = self._transport.get_extra_info("peername")
        return str(name[0]) if name else ""

    @property
    def is_idle(self) -> bool:
        """Report whether every request has a response."""
        return self._unanswered == 0

    def close_if_idle(self) -> None:
        if self.is_idle:
            self._close()

    def _refuse_connection(self, text: str) -> None:
        """Close the connection, after an error response unless a response is in progress.

        Called if the end of the present request is unknown, so that the next request cannot be found.
        """
        if self._current is None:
            head = f"HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{text}"
            self._transport.write(head.encode())
        self._close()


def _problem_of(request: HttpRequest, host: bytes | None) -> str:
    """Return the status line of a refusal, in the words of Go's net/http; "" for a valid head."""
    if len(request.headers) + len(request.repeated) > MOST_HEADERS:
        return _HEAD_TOO_LARGE
    if host is None:
        return "" if request.version == "1.0" or request.method == "CONNECT" else _NO_HOST
    if any(name == b"host" for name, _ in request.repeated):
        return _BAD_REQUEST
    return "" if _HOST.fullmatch(host) else _WRONG_HOST
