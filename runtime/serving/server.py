"""Serving: applications on addresses, on a loop of their own in a thread of their own, or on a loop that is there."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from runtime.client.loop_thread import LoopThread

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

GRACE = 2.0  # seconds that requests under way have at the end


class ServingError(Exception):
    """We cannot listen; the text says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An application and where to serve it. port 0: any free one. tls None: plain HTTP."""

    application: web.Application
    host: str
    port: int
    tls: ssl.SSLContext | None = None
    share_address: bool = False
    share_port: bool = False


class RunningListener:
    """A Listener on the current loop. address: (host, port) that it got; port 0 before open()."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._runner = web.AppRunner(
            listener.application,
            handle_signals=False,
            handler_cancellation=True,  # else a profile would go on after its client has left
            access_log=None,
            shutdown_timeout=GRACE,
        )
        self.address: tuple[str, int] = (listener.host, 0)

    async def open(self) -> None:
        """Raises ServingError."""
        listener = self._listener
        await self._runner.setup()
        site = web.TCPSite(
            self._runner,
            listener.host,
            listener.port,
            ssl_context=listener.tls,
            reuse_address=listener.share_address or None,
            reuse_port=listener.share_port or None,
        )
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            # asyncio's own text would repeat the address.
            reason = os.strerror(error.errno) if error.errno else error
            raise ServingError(f"cannot listen on {_shown(listener.host, listener.port)}: {reason}") from error
        self.address = self._runner.addresses[0][:2]

    async def close(self) -> None:
        await self._runner.cleanup()


class ServerThread:
    """Serves listeners from a thread of its own, so that health and metrics respond whatever else is busy."""

    def __init__(self, listeners: Sequence[Listener], *, log: FilteringBoundLogger) -> None:
        self._listeners = listeners
        self._running: list[RunningListener] = []
        self._thread = LoopThread(name="serving", log=log)
        self._log = log

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """(host, port) of each listener, once started."""
        return [running.address for running in self._running]

    def start(self) -> None:
        """Returns when all listen. Raises ServingError; then none listens."""
        self._thread.start(self._open)
        for listener, (host, port) in zip(self._listeners, self.addresses, strict=True):
            scheme = "http" if listener.tls is None else "https"
            self._log.info("serving", url=f"{scheme}://{_shown(host, port)}")

    def stop(self) -> None:
        self._thread.stop(self._close, timeout=GRACE + 1.0)

    async def _open(self) -> None:
        for listener in self._listeners:
            running = RunningListener(listener)
            try:
                await running.open()
            except ServingError:
                await self._close()
                raise
            self._running.append(running)

    async def _close(self) -> None:
        for running in reversed(self._running):
            await running.close()
        self._running = []


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
