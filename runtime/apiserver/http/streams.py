"""A watch on its way to a client: events wait here while the network takes what it can."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from runtime.client.api import Response

MOST_WAITING = 16 * 1024 * 1024  # bytes


class WatchStream:
    """The buffer between a Watch, which never waits, and a slow connection. For the event loop's thread."""

    def __init__(self, *, too_slow: Callable[[], None], most_waiting: int = MOST_WAITING) -> None:
        """too_slow: called once, when more than most_waiting bytes have gathered; then nothing more is taken.

        The client is to be cut off: it will relist, and the memory is freed. The first batch is not counted, since it
        may hold all objects there are.
        """
        self._too_slow, self._most_waiting = too_slow, most_waiting
        self._waiting: list[bytes] = []
        self._size = 0
        self._news = asyncio.Event()
        self._ended = False

    def deliver(self, lines: bytes) -> None:
        if self._ended:
            return
        if self._waiting and self._size + len(lines) > self._most_waiting:
            self._ended = True
            self._waiting.clear()
            self._too_slow()
        else:
            self._waiting.append(lines)
            self._size += len(lines)
        self._news.set()

    def end(self, _response: Response | None = None) -> None:
        """No more lines will come; lines that wait are still written."""
        self._ended = True
        self._news.set()

    async def pump(self, write: Callable[[bytes], Awaitable[None]], shown: Callable[[bytes], bytes]) -> None:
        """Writes lines until the end. Raises what write raises: ConnectionError when the client is gone."""
        while True:
            if not self._waiting:
                if self._ended:
                    return
                self._news.clear()
                await self._news.wait()
                continue
            lines = b"".join(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
            self._waiting.clear()
            self._size = 0
            await write(shown(lines))
