"""One watch, or one body that is read as it comes: what of it is handed on at a time, and a handle that ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kcm.runtime.client.api import Request, Response


class LineSplitter:
    """Cuts a stream of chunks after its last newline. A line of many chunks is joined once, whatever its size."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> bytes:
        """The lines that are whole with this chunk, each with its newline; b"" for none."""
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
        """How many bytes there are of a line without an end."""
        return sum(map(len, self._rest))


PIECE = 1 << 16  # bytes


class PieceGatherer:
    """Puts chunks together to pieces of PIECE bytes or more; their receiver is on another thread, and to be woken."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> bytes:
        """b"" while there is no whole piece."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        return self.rest() if self._size >= PIECE else b""

    def rest(self) -> bytes:
        """What is not handed on."""
        piece = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        return piece

    @property
    def unfinished(self) -> int:
        """There are no lines that could be cut off."""
        return 0


class WatchStream:
    """The Stream that a caller of watch() holds. Exactly one of cancel() and end() takes effect, the first."""

    def __init__(
        self,
        request: Request,
        *,
        client: str,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
        stop: Callable[[WatchStream], None],
        by_line: bool = True,
    ) -> None:
        self.request, self.client, self.by_line = request, client, by_line
        self._on_lines, self._on_end, self._stop = on_lines, on_end, stop
        # Held while on_end runs, so that a cancel() meanwhile returns only after it; the callback itself may cancel().
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
