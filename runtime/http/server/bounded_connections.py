"""Limits of the connections of a server: their number, and how long each may wait without a request.

Every client that reaches the port can open connections without sending anything, and each uses a descriptor and
memory. When the limit is reached, the connection that has waited longest is closed for a new one, connections of
unknown users first: so probes are served while a client fills the port. A connection whose request is being handled
stays open. Times are those of Go's http.Server in kubernetes v1.36 apiserver/pkg/server/secure_serving.go.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

BACKLOG = 1024  # connections that the kernel keeps until they are accepted
GOODBYE = 2.0  # seconds that the shutdown of a TLS connection may take
NONE_LEFT = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
PAUSE = 0.2  # seconds until the next accept after a lack of descriptors


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """Limits of all connections together, and of each one. Times are in seconds."""

    # Connections open at once.
    most: int
    # For the handshake, and again for the head of a request, from its first byte on; for that of the first request
    # from the handshake on.
    head: float = 32.0
    # Between requests.
    idle: float = 90.0
    # Between requests of known users.
    idle_known: float = 90.0


class BoundedConnections:
    """All connections of a server, on all ports that share the limit. Created and used on the event loop's thread."""

    def __init__(self, bounds: ConnectionLimits, *, log: FilteringBoundLogger) -> None:
        self._bounds, self._log = bounds, log
        self._loop = asyncio.get_running_loop()
        self._open: dict[asyncio.Protocol, _Connection] = {}  # by the server's protocol
        # Connections that wait for a request or in a handshake, those that have waited longest first.
        self._strangers: dict[_Connection, None] = {}
        self._known: dict[_Connection, None] = {}
        self._room = asyncio.Event()
        self._accepting: list[tuple[asyncio.Task[None], socket.socket]] = []
        self._sweeping: asyncio.TimerHandle | None = None
        self._full = False

    def __len__(self) -> int:
        return len(self._open)

    def accept(
        self, listening: socket.socket, factory: Callable[[], asyncio.Protocol], *, tls: ssl.SSLContext | None
    ) -> None:
        """Accept connections from now on. listening: socket that stop_accepting closes."""
        listening.setblocking(False)
        task = self._loop.create_task(self._accept(listening, factory, tls))
        self._accepting.append((task, listening))
        if self._sweeping is None:
            self._sweep()

    async def stop_accepting(self) -> None:
        """Close the ports. Connections stay open, except those in a handshake."""
        tasks = [task for task, _ in self._accepting]
        tasks += [open_.handshake for open_ in self._open.values() if open_.handshake is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, listening in self._accepting:
            listening.close()
        self._accepting.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    def began(self, protocol: asyncio.Protocol) -> None:
        """Record that a request of this connection is being handled: the connection does not wait."""
        connection = self._open.get(protocol)
        if connection is not None:
            # In either list: its user may have become known since it began to wait.
            self._strangers.pop(connection, None)
            self._known.pop(connection, None)
            connection.busy = True

    def ended(self, protocol: asyncio.Protocol) -> None:
        """Record that the response is sent: the connection waits for the next request."""
        connection = self._open.get(protocol)
        if connection is not None:
            connection.busy = connection.in_head = False
            connection.since = self._loop.time()
            (self._known if connection.known else self._strangers)[connection] = None
            self._room.set()  # an idle connection may be closed for a new one

    def cut_overdue(self, now: float) -> None:
        """Close connections that have waited too long; called every second. now: seconds of the loop's clock."""
        bounds = self._bounds
        for connection in (*self._strangers, *self._known):
            idle = bounds.idle_known if connection.known else bounds.idle
            if now - connection.since > (bounds.head if connection.in_head else idle):
                self._cut(connection)

    def mark_known(self, protocol: asyncio.Protocol) -> None:
        """Record that the user of this connection is known. Called by the handler of its request."""
        connection = self._open.get(protocol)
        if connection is not None:
            connection.known = True

    async def _accept(
        self, listening: socket.socket, factory: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None
    ) -> None:
        while True:
            try:
                accepted, _ = await self._loop.sock_accept(listening)
            except OSError as error:
                if error.errno in NONE_LEFT:
                    self._log.warning("no connection can be accepted", error=error.strerror)
                    self._cut_longest()
                    await asyncio.sleep(PAUSE)
                continue
            try:
                await self._make_room()
            except BaseException:
                accepted.close()
                raise
            connection = _Connection(self, factory(), since=self._loop.time())
            self._open[connection.inner] = connection
            self._strangers[connection] = None
            connection.handshake = self._loop.create_task(self._shake_hands(connection, accepted, tls))
            # As a callback: the task may be cancelled before its first step.
            connection.handshake.add_done_callback(partial(self._handshake_over, connection, accepted))

    async def _make_room(self) -> None:
        """Wait until the number of connections is below the limit; meanwhile the kernel queues new connections."""
        while len(self._open) >= self._bounds.most:
            if not self._full:
                self._full = True
                self._log.warning("too many connections: the longest idle ones are cut", most=self._bounds.most)
            if not self._cut_longest():
                self._room.clear()
                await self._room.wait()

    async def _shake_hands(self, connection: _Connection, accepted: socket.socket, tls: ssl.SSLContext | None) -> None:
        times: dict[str, Any] = {}
        if tls is not None:
            times = {"ssl_handshake_timeout": self._bounds.head, "ssl_shutdown_timeout": GOODBYE}
        try:
            with contextlib.suppress(OSError):  # otherwise small responses wait for the peer's acknowledgement
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(lambda: connection, accepted, ssl=tls, **times)
        except Exception as error:
            self._log.debug("no handshake", error=repr(error))

    def _handshake_over(self, connection: _Connection, accepted: socket.socket, _task: asyncio.Task[None]) -> None:
        connection.handshake = None
        if connection.transport is None:
            accepted.close()
            self.forget(connection)

    def _cut_longest(self) -> bool:
        """Close the connection that has waited longest and is not still receiving its last response."""
        for waiting in (self._strangers, self._known):
            for connection in waiting:
                if not connection.is_written_to():
                    self._cut(connection)
                    return True
        return False

    def _sweep(self) -> None:
        self.cut_overdue(self._loop.time())
        self._full = self._full and len(self._open) >= self._bounds.most
        self._sweeping = self._loop.call_later(min(1.0, self._bounds.head / 4), self._sweep)

    def _cut(self, connection: _Connection) -> None:
        self.forget(connection)
        if connection.transport is not None:
            connection.transport.abort()  # an orderly end of TLS would keep the descriptor until the peer takes part
        elif connection.handshake is not None:
            connection.handshake.cancel()

    def forget(self, connection: _Connection) -> None:
        if self._open.pop(connection.inner, None) is not None:
            self._strangers.pop(connection, None)
            self._known.pop(connection, None)
            self._room.set()


class _Connection(asyncio.Protocol):
    """Protocol that forwards everything to the server's protocol.

    since: start of the present wait, by the loop's clock.
    in_head: waits for a handshake or for the rest of a request's head.
    """

    __slots__ = ("_owner", "busy", "handshake", "in_head", "inner", "known", "since", "transport")

    def __init__(self, owner: BoundedConnections, inner: asyncio.Protocol, *, since: float) -> None:
        self._owner, self.inner, self.since = owner, inner, since
        self.in_head, self.busy, self.known = True, False, False
        self.transport: asyncio.Transport | None = None
        self.handshake: asyncio.Task[None] | None = None

    def is_written_to(self) -> bool:
        return self.transport is not None and self.transport.get_write_buffer_size() > 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.since = asyncio.get_running_loop().time()
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self.in_head and not self.busy:
            self.in_head = True
            self.since = asyncio.get_running_loop().time()
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.forget(self)
        self.inner.connection_lost(exc)
