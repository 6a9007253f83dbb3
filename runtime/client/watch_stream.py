"""Watches, and bodies that are read in parts: lines and pieces, lines that may wait, and the handle for cancelling."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kcm.runtime.client.api import Request, Response
from kcm.runtime.scheduling.clock import Clock


class LineSplitter:
    """Splits a stream of chunks into lines. A line of many chunks is joined once, independent of its size."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> bytes:
        """Return the lines that this chunk completes, each with its newline; b"" for none."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            if chunk:
                self._rest.append(chunk)
            return b""
        lines = chunk if end == len(chunk) else chunk[:end]
        if self._rest:
            self._rest.append(lines)
            lines = b"".join(self._rest)
            self._rest.clear()
        if end < len(chunk):
            self._rest.append(chunk[end:])
        return lines

    @property
    def unfinished(self) -> int:
        """Return the number of bytes of an incomplete line."""
        return sum(map(len, self._rest))


PIECE = 1 << 16  # bytes


class PieceGatherer:
    """Joins chunks to pieces of PIECE bytes or more, so that the receiver's thread is woken less often."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> bytes:
        """Add a chunk. Return a piece, or b"" while the piece is too small."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        return self.rest() if self._size >= PIECE else b""

    def rest(self) -> bytes:
        """Return the remaining bytes."""
        piece = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        return piece

    @property
    def unfinished(self) -> int:
        """Return 0: pieces have no incomplete lines."""
        return 0


class ClientStream:
    """Handle that watch() returns. Only the first call of cancel() or end() has an effect."""

    def __init__(
        self,
        request: Request,
        *,
        client: str,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
        stop: Callable[[ClientStream], None],
        by_line: bool = True,
    ) -> None:
        self.request, self.client, self.by_line = request, client, by_line
        self._on_lines, self._on_end, self._stop = on_lines, on_end, stop
        # Locked while on_end runs, so that cancel() on another thread returns after it. on_end itself may cancel().
        self._lock = threading.RLock()
        self._over = False

    def cancel(self) -> None:
        with self._lock:
            if self._over:
                return
            self._over = True
        self._stop(self)

    def deliver(self, lines: bytes) -> None:
        if not self._over:
            self._on_lines(lines)

    def end(self, response: Response) -> None:
        with self._lock:
            if self._over:
                return
            self._over = True
            self._on_end(response)


MOST_HELD = 256 * 1024  # bytes


class HeldLines:
    """Lines of one watch, delivered as they arrive, or while it holds every `every` seconds. Thread-safe.

    A standby, and a replica with some of the groups of controllers, only keep many of their tables up to date. Each
    delivery wakes a thread, and of the changes of one object only the last must be decoded.
    """

    def __init__(self, deliver: Callable[[bytes], None], *, clock: Clock, every: float, holds: bool) -> None:
        """Begin with a watch. deliver: puts complete lines into a mailbox. holds: as after hold()."""
        self._deliver, self._clock, self._every, self._holds = deliver, clock, every, holds
        self._lock = threading.Lock()  # lines must not overtake those that another thread delivers
        self._held: list[bytes] = []
        self._bytes = 0

    def take(self, lines: bytes) -> None:
        """Take lines of the watch. Called by the transport."""
        with self._lock:
            if not self._holds:
                self._deliver(lines)
                return
            if not self._held:
                self._clock.call_at(self, self._clock.monotonic() + self._every, self._hand_over)
            self._held.append(lines)
            self._bytes += len(lines)
            if self._bytes >= MOST_HELD:
                self._flush()

    def hold(self) -> None:
        """Hold the following lines."""
        with self._lock:
            self._holds = True

    def release(self) -> bool:
        """Deliver the lines that are held, and the following ones as they arrive. Return False if none were held."""
        with self._lock:
            self._holds = False
            return self._flush()

    def drop(self) -> None:
        """Drop all held lines after the watch was cut."""
        with self._lock:
            self._held, self._bytes = [], 0
            self._clock.cancel(self)

    def _hand_over(self) -> None:
        with self._lock:
            self._flush()

    def _flush(self) -> bool:
        held, self._held, self._bytes = self._held, [], 0
        if not held:
            return False
        self._clock.cancel(self)
        self._deliver(b"".join(held))
        return True
