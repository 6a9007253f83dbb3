"""One watch: lines out of chunks, and a handle that ends it from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from runtime.client.api import Request, Response


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
    ) -> None:
        self.request, self.client = request, client
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
