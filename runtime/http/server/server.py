"""Server side of HTTP/1.1: an asyncio protocol for each connection, an object for each request.

It does little work per request, because every request of a busy cluster passes through it. llhttp (httptools) parses;
no task and no future is created for a request, its head stays bytes, and a small response is written at once. Requests
of one connection are handled in order, each after the response to the previous one.

Source for the behaviour that clients see: Go's net/http, server.go.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import uuid
from collections.abc import Callable
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kcm.runtime.http.server.request import LARGEST_HEAD, Connection, HttpRequest

if TYPE_CHECKING:
    from kcm.runtime.http.server.bounded_connections import BoundedConnections
    from kcm.runtime.http.server.buffered_bytes import BufferedBytes

R = TypeVar("R", bound=HttpRequest)
R_contra = TypeVar("R_contra", bound=HttpRequest, contravariant=True)

# Bytes on the wire per byte of a body. A chunk of one byte takes six.
MOST_OVERHEAD = 8
# Closed connections per collection. A TLS connection that its client has cut off leaves reference cycles: few objects,
# so that the collector runs seldom, but some 100 kB of OpenSSL's memory.
COLLECT_EVERY = 64


class Handler(Protocol[R_contra]):
    """Interface for handling the requests of a server. Its methods neither raise nor wait."""

    def admit(self, request: R_contra) -> Any:
        """Check the head of a request. Return the refusal, or None; the body of a refused request is discarded."""

    def handle(self, request: R_contra) -> None:
        """Respond to the request, now or later."""

    def too_large(self) -> Any:
        """Return the refusal of a request whose body is too large."""

    def needs_body(self, request: R_contra) -> bool:
        """Report whether the body will be used; otherwise it is discarded. Called when its first bytes arrive."""

    def too_late(self) -> Any:
        """Return the refusal of a request whose body did not arrive in time."""

    def cut_off(self, connection: Connection, why: str) -> None:
        """Log that a connection is closed because of its client."""


class HttpServer:
    """Context that the connections of one listener share. Used on the event loop's thread."""

    def __init__(
        self,
        handler: Handler[R],
        *,
        new_request: Callable[[Connection], R],
        largest_body: int,
        now: Callable[[], float],
        connections: BoundedConnections | None = None,
        buffered: BufferedBytes | None = None,
        product: str = "",
    ) -> None:
        """Prepare the server. The protocol of each of its connections is HttpConnection(server).

        new_request: the class of requests that the handler expects.
        largest_body: bytes.
        now: Unix seconds.
        connections: limits of its connections, or None.
        buffered: limit of the bytes that its connections buffer, or None.
        product: value of the header Server; "" for none.
        """
        self.handler: Handler[Any] = handler
        self.new_request: Callable[[Connection], HttpRequest] = new_request
        self.largest_body, self.bounded, self.buffered = largest_body, connections, buffered
        self.longest_message = LARGEST_HEAD + MOST_OVERHEAD * largest_body  # bytes of one request on the wire
        self.ending = False
        self._now = now
        self._second, self._date, self._date_lines = -1, b"", b""
        self._product = f"Server: {product}\r\n".encode() if product else b""
        self._id_prefix, self._numbers = str(uuid.uuid4())[:24].encode(), itertools.count()
        self._open: set[Connection] = set()
        self._lost = 0
        self._all_closed: asyncio.Event | None = None

    def next_id(self) -> bytes:
        """Return a UUID for the next request. Only the last part of these UUIDs changes."""
        return b"%b%012x" % (self._id_prefix, next(self._numbers))

    def date(self) -> bytes:
        self.date_lines()
        return self._date

    def date_lines(self) -> bytes:
        """Return the head lines that are equal within a second: Date and Server."""
        second = int(self._now())
        if second != self._second:
            self._second, self._date = second, formatdate(second, usegmt=True).encode()
            self._date_lines = b"Date: %b\r\n%b" % (self._date, self._product)
        return self._date_lines

    async def end(self, patience: float) -> None:
        """Close all connections, those in use after their response, or after `patience` seconds."""
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

    def made(self, connection: Connection) -> None:
        self._open.add(connection)

    def lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._lost += 1
        if not self._lost % COLLECT_EVERY:
            asyncio.get_running_loop().call_soon(gc.collect, 1 if not self._lost % (16 * COLLECT_EVERY) else 0)
        if not self._open and self._all_closed is not None:
            self._all_closed.set()
