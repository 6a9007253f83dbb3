"""Buffer of watch events for a slow client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

from kcm.runtime.client.api import Response

MOST_WAITING = 16 * 1024 * 1024  # bytes of buffered events of a watch
CHUNK = 256 * 1024  # bytes of initial events that are encoded at once


class Wire(Protocol):
    """Connection that a stream writes to, as ApiRequest implements it."""

    def write(self, data: bytes) -> None: ...

    def hold(self, size: int) -> None:
        """Record the number of bytes that the stream buffers because the connection is full."""

    @property
    def is_full(self) -> bool: ...

    def finish(self) -> None: ...


def _nothing() -> None:
    pass


class WatchStream:
    """Buffer between a CacheWatcher, which never blocks, and a connection, which may be slow.

    Lines that are delivered in one iteration of the event loop are written together. All methods run on its thread.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        too_slow: Callable[[], None],
        on_end: Callable[[], None],
        shown: Callable[[bytes], bytes] | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """Create a stream.

        too_slow: called once, when more than most_waiting bytes are buffered; must disconnect the client, which will
          relist. Later lines are dropped.
        on_end: called once, after the last line was written or the client has disconnected
        shown: converts lines to the requested form (table, protobuf); if it raises, the client is disconnected
        most_waiting: limit of the buffer in bytes, without the initial objects, which are read in chunks
        """
        self._wire, self._too_slow, self._on_end, self._shown = wire, too_slow, on_end, shown
        self._most_waiting = most_waiting
        self._loop = asyncio.get_running_loop()
        self._initial: Iterator[bytes] | None = None
        self._buffer: list[bytes] = []
        self._size = 0
        self._ended = self._is_over = self._is_due = self._is_held = False

    def begin(self, lines: Iterator[bytes]) -> None:
        """Write the lines of the initial objects before all delivered lines."""
        self._initial = lines
        self._schedule()

    def deliver(self, lines: bytes) -> None:
        if self._ended:
            return
        if self._buffer and self._size + len(lines) > self._most_waiting:
            self._give_up()
        else:
            self._buffer.append(lines)
            self._size += len(lines)
            if self._wire.is_full:
                self._is_held = True
                self._wire.hold(self._size)
            self._schedule()

    def end(self, _response: Response | None = None) -> None:
        """End the stream after the buffered lines are written."""
        self._ended = True
        self._schedule()

    def on_room(self) -> None:
        """Continue to write, because the connection has room again."""
        self._schedule()

    def on_lost(self) -> None:
        """Stop, because the client has disconnected."""
        self._close()

    def _close(self) -> None:
        if self._is_over:
            return
        self._is_over = self._ended = True
        self._initial = None
        self._buffer.clear()
        on_end, self._on_end = self._on_end, _nothing  # break the reference cycle: garbage collection is infrequent
        on_end()

    def _give_up(self) -> None:
        if not self._is_over:
            self._too_slow()
            self._close()

    def _schedule(self) -> None:
        if not self._is_due and not self._is_over and not self._wire.is_full:
            self._is_due = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._is_due = False
        if self._is_over or self._wire.is_full:
            return
        lines = self._next()
        if not lines:
            if self._ended:
                self._wire.finish()
                self._close()
            return
        try:
            shown = lines if self._shown is None else self._shown(lines)
        except Exception:
            self._give_up()
            raise
        self._wire.write(shown)
        if self._initial is not None or self._ended:
            self._schedule()

    def _next(self) -> bytes:
        """Return the next bytes to write: a chunk of the initial objects, or all buffered lines. b"" if none."""
        chunk, size = [], 0
        if self._initial is not None:
            for line in self._initial:
                chunk.append(line)
                size += len(line)
                if size >= CHUNK:
                    return b"".join(chunk)
            self._initial = None
        chunk += self._buffer
        self._buffer.clear()
        self._size = 0
        if self._is_held:
            self._is_held = False
            self._wire.hold(0)
        return b"".join(chunk) if len(chunk) != 1 else chunk[0]
