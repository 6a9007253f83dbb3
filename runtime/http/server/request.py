"""Request and its response, as handlers use them; subclasses add attributes of one server."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from typing import Any, Protocol

LARGEST_HEAD = 1024 * 1024  # bytes of a request's head and trailers, as upstream
COMPRESSED_FROM = 128 * 1024  # bytes of a body, as upstream, which compresses little and fast, too
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
NO_SNIFFING = b"X-Content-Type-Options: nosniff\r\n"
_NOT_CACHED = b"no-cache, private"
_GZIP = 31  # zlib's largest window, with gzip's header and trailer


class StreamedBody(Protocol):
    """A body that is written in parts."""

    def on_room(self) -> None:
        """Continue writing: the connection is no longer full."""

    def on_lost(self) -> None:
        """Stop writing: the connection has ended."""


class Connection(asyncio.Protocol):
    """Connection of a request, as the request, its handler and the server use it. Implemented by HttpConnection.

    identity: set by the handler: the result of authentication, None until then.
    is_full: the transport's buffer is full.
    """

    __slots__ = ()

    identity: Any
    is_full: bool

    @property
    def tls(self) -> ssl.SSLObject | None:
        """Return the TLS object of the connection; None without TLS."""
        raise NotImplementedError

    @property
    def peer(self) -> str:
        """Return the client's address; "" once the connection is closed."""
        raise NotImplementedError

    @property
    def target(self) -> bytes:
        """Return the target of the request that is being handled, or otherwise of the request that is being read."""
        raise NotImplementedError

    def next_id(self) -> bytes:
        """Return a UUID for a request."""
        raise NotImplementedError

    def awaits(self, request: HttpRequest) -> bool:
        raise NotImplementedError

    def respond(self, request: HttpRequest, status: int, content_type: str, body: bytes, lines: bytes) -> None:
        """Send a whole response. lines: further lines of the head."""
        raise NotImplementedError

    def stream(self, request: HttpRequest, content_type: str, body: StreamedBody, lines: bytes) -> None:
        """Begin a streamed response. lines: further lines of the head."""
        raise NotImplementedError

    def write(self, request: HttpRequest, data: bytes) -> None:
        raise NotImplementedError

    def finish(self, request: HttpRequest) -> None:
        raise NotImplementedError

    def hold_streamed(self, size: int) -> None:
        raise NotImplementedError

    def close_if_idle(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        raise NotImplementedError


class HttpRequest:
    """Request and its response.

    method: in capitals; empty until the head is complete.
    target: as it was sent.
    headers: by name in lower case; the first of several lines with the same name.
    repeated: further lines with a name that occurred before.
    user: set by the handler; None for an unknown user.
    refusal: set by the handler or by a limit; the response that `refuse` sends.
    """

    __slots__ = (
        "_connection",
        "body",
        "headers",
        "is_complete",
        "is_last",
        "method",
        "refusal",
        "repeated",
        "size",
        "target",
        "user",
        "version",
    )

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.method, self.target, self.body, self.version = "", b"", b"", "1.1"
        self.headers: dict[bytes, bytes] = {}
        self.repeated: list[tuple[bytes, bytes]] | tuple[()] = ()
        self.user: Any = None
        self.refusal: Any = None
        self.is_last = False  # the connection is closed after the response
        self.size = 0  # bytes of the body that have arrived
        self.is_complete = False  # the whole body has arrived

    @property
    def connection(self) -> Connection:
        return self._connection

    @property
    def is_awaited(self) -> bool:
        """Report whether the client is still connected and has no response yet."""
        return self._connection.awaits(self)

    def refuse(self) -> None:
        """Send the refusal. Called by the connection, in the request's turn."""
        raise NotImplementedError

    def on_lost(self, *, is_streaming: bool) -> None:
        """Stop work on this request: its connection has ended before the response was complete."""

    def send(
        self,
        status: int,
        content_type: str,
        body: bytes,
        *,
        lines: bytes = b"",
        cache: bytes = b"",
        compressed_from: int = COMPRESSED_FROM,
    ) -> None:
        """Send the response, once for each request. Does nothing if the connection has ended.

        lines: further lines of the head.
        cache: value of Cache-Control; by default the response is not cached.
        compressed_from: bytes of a body above which it is compressed, if the client accepts gzip.
        """
        if len(body) > compressed_from and b"gzip" in self.headers.get(b"accept-encoding", b""):
            body = zlib.compress(body, 1, wbits=_GZIP)
            lines += b"Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n"
        lines = b"Cache-Control: %b\r\n%b" % (cache or _NOT_CACHED, lines)
        self._connection.respond(self, status, content_type, body, lines)

    def begin_stream(self, content_type: str, body: StreamedBody, *, lines: bytes = b"") -> None:
        """Begin a response whose body follows by `write`, until `finish`. Does nothing if the connection has ended."""
        self._connection.stream(self, content_type, body, lines)

    def write(self, data: bytes) -> None:
        """Write a part of a streamed body; not empty."""
        self._connection.write(self, data)

    def hold(self, size: int) -> None:
        """Record how many bytes of a streamed body wait to be written."""
        self._connection.hold_streamed(size)

    @property
    def is_full(self) -> bool:
        """Report whether to stop writing until `on_room` of the body is called."""
        return self._connection.is_full

    def finish(self) -> None:
        """End a streamed body."""
        self._connection.finish(self)

    def abort(self) -> None:
        """Close the connection at once, without the rest of the response."""
        self._connection.abort()
