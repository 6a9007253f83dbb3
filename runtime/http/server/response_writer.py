"""Sending half of a connection: responses, as fast as the client reads them."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import lru_cache
from http import HTTPStatus

from kcm.runtime.http.server.request import TEXT, Connection, HttpRequest, StreamedBody
from kcm.runtime.http.server.server import HttpServer

STALLED = 60.0  # seconds after which a client that reads nothing of its response is cut off
IN_ONE_WRITE = 64 * 1024  # bytes of a body that are written at a time; a body up to this size is written with the head
# By whether the request is HTTP/1.1 and whether the connection ends. The version's default is omitted.
_CONNECTION = {
    (True, False): b"",
    (True, True): b"Connection: close\r\n",
    (False, False): b"Connection: keep-alive\r\n",
    (False, True): b"",
}


class ResponseWriter(Connection):
    """Writes the responses of one connection; HttpConnection reads its requests."""

    __slots__ = (
        "_current",
        "_held",
        "_is_closing",
        "_is_last",
        "_server",
        "_stalled",
        "_stream",
        "_streamed",
        "_transport",
        "_unsent",
        "is_full",
    )

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport
        self._current: HttpRequest | None = None  # request that is being handled
        self._stream: StreamedBody | None = None
        self._unsent: deque[memoryview] = deque()  # parts of the response that wait for room in the transport
        self._is_last = False  # _unsent contains the end of the response
        self._streamed = 0  # bytes that wait in the stream
        self._held = 0  # bytes that were last reported as held
        self._stalled: asyncio.TimerHandle | None = None  # limits the time in which the client reads nothing
        self._is_closing = False  # nothing is read or written any more
        self.is_full = False

    # Implemented by the reading half.

    def _answered(self, request: HttpRequest) -> None:
        """Continue with the next request after the response to this one was written."""
        raise NotImplementedError

    def _before_stream(self, request: HttpRequest) -> None:
        """Drop the requests that have arrived after this one, whose response may never end."""
        raise NotImplementedError

    def _handle_waiting(self) -> None:
        """Handle the requests that wait for the buffer to empty."""
        raise NotImplementedError

    def _hold_all(self) -> None:
        """Report how many bytes this connection buffers."""
        raise NotImplementedError

    def _cut_off(self, why: str) -> None:
        """Log and close a connection whose client does not read or send."""
        raise NotImplementedError

    # The transport's callbacks.

    def pause_writing(self) -> None:
        self.is_full = True
        self._stalled = asyncio.get_running_loop().call_later(STALLED, self._cut_off, "its client does not read")

    def resume_writing(self) -> None:
        self.is_full = False
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        if self._unsent:
            self._send_unsent()
        if self.is_full or self._unsent or self._is_closing:
            return
        if self._stream is not None:
            self._stream.on_room()
        else:
            self._handle_waiting()

    # Responses.

    def awaits(self, request: HttpRequest) -> bool:
        return self._current is request and not self._is_closing

    def respond(self, request: HttpRequest, status: int, content_type: str, body: bytes, lines: bytes) -> None:
        if self._is_closing or self._current is not request or self._unsent:
            return
        head = b"%b%bContent-Length: %d\r\n%b%b\r\n" % (
            _status_and_type(request.version, status, content_type),
            lines,
            len(body),
            self._server.date_lines(),
            _CONNECTION[request.version == "1.1", request.is_last],
        )
        if request.method == "HEAD":
            body = b""
        if len(body) <= IN_ONE_WRITE:
            self._transport.write(head + body)
            self._answered(request)
        else:
            self._send(head, body, is_last=True)

    def stream(self, request: HttpRequest, content_type: str, body: StreamedBody, lines: bytes) -> None:
        if self._is_closing or self._current is not request:
            return
        self._stream = body
        self._before_stream(request)
        head = _status_and_type(request.version, 200, content_type)
        end = b"%bCache-Control: no-cache, private\r\n%b" % (lines, self._server.date_lines())
        if request.version == "1.1":
            end = b"Transfer-Encoding: chunked\r\n" + end
        else:
            request.is_last = True  # otherwise the client would not notice the end of the response
        self._transport.write(b"%b%b%b\r\n" % (head, end, _CONNECTION[request.version == "1.1", request.is_last]))

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

    def hold_streamed(self, size: int) -> None:
        self._streamed = size
        if not self._is_closing:
            self._hold_all()

    def _send(self, *parts: bytes, is_last: bool = False) -> None:
        """Pass as much to the transport as it has room for, and the rest when there is room again.

        A transport buffers everything that it receives: with TLS a whole list would be in memory twice, and a client
        that reads slowly could not be distinguished from a client that does not read.
        """
        self._unsent += map(memoryview, filter(None, parts))
        self._is_last = is_last
        self._send_unsent()
        if self._unsent or self._held:
            self._hold_all()

    def _send_unsent(self) -> None:
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

    # The end of the connection.

    def abort(self) -> None:
        self._is_closing = True
        self._transport.abort()

    def _close(self) -> None:
        """Close the connection after everything that was written is sent."""
        self._is_closing = True
        self._transport.close()


@lru_cache(maxsize=256)
def _status_and_type(version: str, status: int, content_type: str) -> bytes:
    """Return the beginning of a response's head."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:  # a webhook may refuse with any number
        phrase = f"status code {status}"  # as Go writes it
    more = "X-Content-Type-Options: nosniff\r\n" if content_type == TEXT else ""
    return f"HTTP/{version} {status} {phrase}\r\nContent-Type: {content_type}\r\n{more}".encode()
