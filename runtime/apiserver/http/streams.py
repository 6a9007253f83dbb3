"""A watch on its way to a client: events wait here while the network takes what it can."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from runtime.client.api import Response

MOST_WAITING = 16 * 1024 * 1024  # bytes


class WatchStream:
    """Between a Watch, which never waits, and a connection, which may be slow. Lives on the event loop's thread."""

    def __init__(self, *, too_slow: Callable[[], None], most_waiting: int = MOST_WAITING) -> None:
        """too_slow: called once, when more than most_waiting bytes have gathered; then nothing more is taken.

        The client has to be cut off: it will list again, and the memory goes to those who listen. The first batch is
        not counted, since it may hold all objects there are.
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
        """Nothing more will come; what waits is still written."""
        self._ended = True
        self._news.set()

    async def pump(self, write: Callable[[bytes], Awaitable[None]], shown: Callable[[bytes], bytes]) -> None:
        """Write what comes until the end. Raises what write raises, ConnectionError for a client that is gone."""
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
