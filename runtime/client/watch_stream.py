"""Watches, and bodies that are read in parts: splitting into lines and pieces, and the handle for cancelling."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kcm.runtime.client.api import Request, Response


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
