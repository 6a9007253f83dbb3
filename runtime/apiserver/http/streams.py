"""A watch on its way to a client: events wait here while the network takes what it can."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from runtime.client.api import Response

MOST_WAITING = 16 * 1024 * 1024  # bytes
CHUNK = 256 * 1024  # bytes of the beginning that are made at a time
STALLED = 60.0  # seconds for one write


class WatchStream:
    """The buffer between a Watch, which never waits, and a slow connection. For the event loop's thread."""

    def __init__(self, *, too_slow: Callable[[], None], most_waiting: int = MOST_WAITING) -> None:
        """too_slow: called once, when more than most_waiting bytes have gathered; then nothing more is taken.

        The client is to be cut off: it will relist, and the memory is freed. What there was at the beginning is not
        counted: it is taken bit by bit. It is cut off too if it takes nothing for STALLED seconds.
        """
        self._too_slow, self._most_waiting = too_slow, most_waiting
        self._first: Iterator[bytes] | None = None
        self._waiting: list[bytes] = []
        self._size = 0
        self._news = asyncio.Event()
        self._ended = False

    def begin(self, lines: Iterator[bytes]) -> None:
        """These lines come before all others."""
        self._first = lines
        self._news.set()

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
            lines = self._next()
            if lines:
                try:
                    async with asyncio.timeout(STALLED):
                        await write(shown(lines))
                except TimeoutError:
                    self._ended = True
                    self._too_slow()
                    return
            elif self._ended:
                return
            else:
                self._news.clear()
                await self._news.wait()

    def _next(self) -> bytes:
        """What to write next; b"" for nothing."""
        chunk, size = [], 0
        if self._first is not None:
            for line in self._first:
                chunk.append(line)
                size += len(line)
                if size >= CHUNK:
                    return b"".join(chunk)
            self._first = None
        chunk += self._waiting
        self._waiting.clear()
        self._size = 0
        return b"".join(chunk) if len(chunk) != 1 else chunk[0]
