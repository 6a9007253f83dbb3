"""Serving: applications on addresses, on a loop of their own in a thread of their own."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcm.protocols.addresses import host_port
from kcm.protocols.late_methods import dataclass
from kcm.runtime.http.server.bounded_connections import BACKLOG, BoundedConnections, Bounds
from kcm.runtime.http.server.buffered_bytes import BufferedBytes
from kcm.runtime.http.server.server import HttpServer
from kcm.runtime.process.loop_thread import LoopThread
from kcm.runtime.serving.application import LARGEST_BODY, Application, PageRequest

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

GRACE = 2.0  # seconds that requests under way have at the end
MOST_CONNECTIONS = 256


def connections_of(descriptors: int) -> int:
    """How many of so many descriptors may be taken by those who look at pages; the others are for the API client."""
    return max(4, min(MOST_CONNECTIONS, descriptors // 4))


class ServingError(Exception):
    """We cannot listen; the text says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An application and where to serve it. port 0: any free one. tls None: plain HTTP.

    or_free_port: where the port is taken, serve on a free one and log it. flag: what named the port, for people.
    """

    application: Application
    host: str
    port: int
    tls: ssl.SSLContext | None = None
    share_port: bool = False
    or_free_port: bool = False
    flag: str = ""


class ServerThread:
    """Serves listeners from a thread of its own, so that health and metrics respond whatever else is busy."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        *,
        log: FilteringBoundLogger,
        bounds: Bounds = Bounds(most=MOST_CONNECTIONS),  # noqa: B008 it is frozen
    ) -> None:
        """bounds: over all listeners."""
        self._listeners, self._bounds = listeners, bounds
        self._connections: BoundedConnections | None = None
        self._buffered: BufferedBytes
        self._servers: list[HttpServer] = []
        self._addresses: list[tuple[str, int]] = []
        self._thread = LoopThread(name="serving", log=log)
        self._log = log

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """(host, port) of each listener, once started."""
        return list(self._addresses)

    @property
    def urls(self) -> tuple[str, ...]:
        """Of each listener, once started."""
        pairs = zip(self._listeners, self._addresses, strict=True)
        return tuple(f"{'http' if each.tls is None else 'https'}://{host_port(*address)}" for each, address in pairs)

    def start(self) -> None:
        """Returns when all listen. Raises ServingError; then none listens."""
        self._thread.start(self._open)
        for url in self.urls:
            self._log.info("serving", url=url)

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

    def _serve(self, listener: Listener, connections: BoundedConnections) -> None:
        listening = self._listen(listener)
        server = HttpServer(
            listener.application,
            new_request=PageRequest,
            largest_body=LARGEST_BODY,
            now=listener.application.now,
            connections=connections,
            buffered=self._buffered,
        )
        self._servers.append(server)
        self._addresses.append(listening.getsockname()[:2])
        connections.accept(listening, server, tls=listener.tls)

    def _listen(self, listener: Listener) -> socket.socket:
        try:
            return _listening(listener, listener.port)
        except OSError as error:
            # The error's own text would repeat the address.
            reason = os.strerror(error.errno) if error.errno else error
            where = host_port(listener.host, listener.port)
            if error.errno == errno.EADDRINUSE and listener.or_free_port:
                instead = _listening(listener, 0)
                port = instead.getsockname()[1]
                self._log.warning("port is taken, so a free one serves in its place", address=where, port=port)
                return instead
            hint = f" ({listener.flag} names another)" if error.errno == errno.EADDRINUSE and listener.flag else ""
            raise ServingError(f"cannot listen on {where}: {reason}{hint}") from error

    async def _close(self) -> None:
        if self._connections is not None:
            await self._connections.stop_accepting()
        await asyncio.gather(*(server.end(GRACE) for server in self._servers))
        self._servers, self._addresses = [], []


def _listening(listener: Listener, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    return socket.create_server((listener.host, port), family=family, backlog=BACKLOG, reuse_port=listener.share_port)
