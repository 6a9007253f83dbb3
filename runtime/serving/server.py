"""Server of applications, with its own event loop and thread."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from kcm.protocols.addresses import host_port
from kcm.runtime.http.server.bounded_connections import BACKLOG, BoundedConnections, ConnectionLimits
from kcm.runtime.http.server.buffered_bytes import BufferedBytes
from kcm.runtime.http.server.connection import HttpConnection
from kcm.runtime.http.server.server import HttpServer
from kcm.runtime.process.loop_thread import LoopThread
from kcm.runtime.serving.application import LARGEST_BODY, Application, PageRequest

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

GRACE = 2.0  # seconds for running requests when the server stops
MOST_CONNECTIONS = 256


def connections_of(descriptors: int) -> int:
    """Return the maximum number of connections for a number of descriptors. The API client uses the others."""
    return max(4, min(MOST_CONNECTIONS, descriptors // 4))


class ServingError(Exception):
    """The server cannot listen; the text contains the address and the reason."""


class PageListener(Struct, frozen=True, kw_only=True):
    """An application and the address to serve it on."""

    application: Application
    host: str
    # 0 for any free one.
    port: int
    # None for plain HTTP.
    tls: ssl.SSLContext | None = None
    # Whether other processes may listen on the same port.
    share_port: bool = False
    # If the port is taken, serve on a free one and log it.
    or_free_port: bool = False
    # Flag with which users choose the port, for errors.
    flag: str = ""


class ServerThread:
    """Server with its own thread, so that health and metrics respond while other threads are busy."""

    def __init__(
        self,
        listeners: Sequence[PageListener],
        *,
        log: FilteringBoundLogger,
        bounds: ConnectionLimits = ConnectionLimits(most=MOST_CONNECTIONS),  # noqa: B008 it is frozen
        largest_body: int = LARGEST_BODY,
        name: str = "serving",
    ) -> None:
        """Prepare the server.

        bounds: limits of the connections of all listeners together.
        largest_body: bytes of a request.
        name: of the thread.
        """
        self._listeners, self._bounds, self._largest_body = listeners, bounds, largest_body
        self._connections: BoundedConnections | None = None
        self._buffered: BufferedBytes
        self._servers: list[HttpServer] = []
        self._addresses: list[tuple[str, int]] = []
        self._thread = LoopThread(name=name, log=log)
        self._log = log

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Return host and port of each listener, after start()."""
        return list(self._addresses)

    @property
    def urls(self) -> tuple[str, ...]:
        """Return the URL of each listener, after start()."""
        pairs = zip(self._listeners, self._addresses, strict=True)
        return tuple(f"{'http' if each.tls is None else 'https'}://{host_port(*address)}" for each, address in pairs)

    def start(self) -> None:
        """Listen on all addresses. Raises ServingError; then none is open."""
        self._thread.start(self._open)
        for url in self.urls:
            scheme, _, address = url.partition("://")
            how = "securely" if scheme == "https" else "insecurely"
            self._log.info(f"Serving {how} on {address}", plain=True)

    def stop(self) -> None:
        self._thread.stop(self._close, timeout=GRACE + 1.0)

    async def _open(self) -> None:
        self._connections = BoundedConnections(self._bounds, log=self._log)
        loop = asyncio.get_running_loop()
        self._buffered = BufferedBytes(now=loop.time, later=loop.call_later, log=self._log)
        try:
            for listener in self._listeners:
                self._serve(listener, self._connections)
        except ServingError:
            await self._close()
            raise

    def _serve(self, listener: PageListener, connections: BoundedConnections) -> None:
        listening = self._listen(listener)
        server = HttpServer(
            listener.application,
            new_request=PageRequest,
            largest_body=self._largest_body,
            now=listener.application.now,
            connections=connections,
            buffered=self._buffered,
        )
        self._servers.append(server)
        self._addresses.append(listening.getsockname()[:2])
        connections.accept(listening, partial(HttpConnection, server), tls=listener.tls)

    def _listen(self, listener: PageListener) -> socket.socket:
        try:
            return _listening(listener, listener.port)
        except OSError as error:
            # The error's own text repeats the address.
            reason = os.strerror(error.errno) if error.errno else error
            where = host_port(listener.host, listener.port)
            if error.errno == errno.EADDRINUSE and listener.or_free_port:
                instead = _listening(listener, 0)
                port = instead.getsockname()[1]
                self._log.warning("port is taken, serving on a free one", address=where, port=port)
                return instead
            hint = f" ({listener.flag} names another)" if error.errno == errno.EADDRINUSE and listener.flag else ""
            raise ServingError(f"cannot listen on {where}: {reason}{hint}") from error

    async def _close(self) -> None:
        if self._connections is not None:
            await self._connections.stop_accepting()
        await asyncio.gather(*(server.end(GRACE) for server in self._servers))
        self._servers, self._addresses = [], []


def _listening(listener: PageListener, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    return socket.create_server((listener.host, port), family=family, backlog=BACKLOG, reuse_port=listener.share_port)
