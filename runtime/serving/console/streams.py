"""Server-sent events of the console: samples of a topic, computed once for all viewers, sent as differences.

Without a viewer there is no task, no timer and no sample.

An event contains {"set": rows by id, "gone": ids}, and "full": true if the rows replace all earlier ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kcm.runtime.serving.application import PageRequest, PageStream

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

PERIOD = 1.0  # seconds between two samples
MOST_STREAMS = 16
MOST_TICKS = 600  # after which a stream ends; the page opens another one, whose user is authorized again
QUIET_TICKS = 15  # without a change, after which a comment shows that the stream is alive
EVENT_STREAM = "text/event-stream; charset=utf-8"
ALIVE = b":\n\n"

Rows = Mapping[str, Any]
"""Content of a topic: values that can be encoded as JSON, by id."""


class Topic(Protocol):
    """Content of one page. It is created for its first viewer, and dropped after the last one has left."""

    def sample(self) -> Rows:
        """Return the current rows. Called once a second, on a thread of its own, never twice at once."""


class TooManyStreamsError(Exception):
    """No further stream can be opened."""


class Viewer(PageStream):
    """Stream to one page."""

    def __init__(self, watched: WatchedTopic) -> None:
        self._watched = watched
        self._request: PageRequest | None = None
        self._is_behind = True  # it needs all rows
        self.ticks = 0
        self._quiet = 0

    def begin(self, request: PageRequest) -> None:
        self._request = request
        self._watched.join(self)

    def on_room(self) -> None:
        """Do nothing: the next tick sends all rows."""

    def on_lost(self) -> None:
        self._request = None
        self._watched.leave(self)

    def show(self, full: Callable[[], bytes], difference: bytes | None) -> None:
        """Send the difference to the last sample, or all rows if the client has missed some.

        difference: None if nothing has changed.
        """
        request = self._request
        if request is None:
            return
        self.ticks += 1
        if request.is_full:
            self._is_behind = True
        elif self._is_behind:
            self._is_behind, self._quiet = False, 0
            request.write(full())
        elif difference is not None:
            self._quiet = 0
            request.write(difference)
        else:
            self._quiet += 1
            if self._quiet >= QUIET_TICKS:
                self._quiet = 0
                request.write(ALIVE)

    def fail(self, why: str) -> None:
        """Show why there is no sample."""
        if self._request is not None and not self._request.is_full:
            self._is_behind = True
            self._request.write(_event({"error": why}))

    def end(self) -> None:
        request, self._request = self._request, None
        if request is not None:
            request.finish()


class WatchedTopic:
    """A topic with viewers, and its last sample."""

    def __init__(self, name: str, topic: Topic, *, ended: Callable[[str], None], log: FilteringBoundLogger) -> None:
        """Create it without viewers. ended: called with the name after the last viewer has left."""
        self._name, self._topic, self._ended, self._log = name, topic, ended, log
        self._viewers: list[Viewer] = []
        self._rows: dict[str, bytes] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    def join(self, viewer: Viewer) -> None:
        self._viewers.append(viewer)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        elif self._rows:
            viewer.show(self._full, None)

    def leave(self, viewer: Viewer) -> None:
        if viewer in self._viewers:
            self._viewers.remove(viewer)
        if not self._viewers:
            self._ended(self._name)
            if self._task is not None:
                self._task.cancel()

    def end(self) -> None:
        for viewer in [*self._viewers]:
            viewer.end()
            self.leave(viewer)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while self._viewers:
            await self.tick()
            due = max(due + PERIOD, loop.time() + PERIOD / 2)
            await asyncio.sleep(due - loop.time())

    async def tick(self) -> None:
        """Take a sample, and show its viewers what has changed."""
        try:
            sample = await asyncio.to_thread(self._topic.sample)
            rows = {row: msgspec.json.encode(value) for row, value in sample.items()}
        except Exception as error:
            self._log.exception("page of the console failed", topic=self._name)
            for viewer in [*self._viewers]:
                viewer.fail(f"{type(error).__name__}: {error}")
            return
        changed = {row: value for row, value in rows.items() if self._rows.get(row) != value}
        gone = [row for row in self._rows if row not in rows]
        self._rows = rows
        difference = _rows_event(changed, gone) if changed or gone else None
        for viewer in [*self._viewers]:
            viewer.show(self._full, difference)
            if viewer.ticks >= MOST_TICKS:
                viewer.end()
                self.leave(viewer)

    def _full(self) -> bytes:
        return _rows_event(self._rows, [], full=True)


class Streams:
    """All streams of a console. Used on the server's thread, except for close()."""

    def __init__(self, *, log: FilteringBoundLogger) -> None:
        self._log = log
        self._topics: dict[str, WatchedTopic] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def viewers(self) -> int:
        return sum(topic.viewers for topic in self._topics.values())

    def open(self, name: str, make: Callable[[], Topic]) -> Viewer:
        """Return a stream of a topic. make: creates the topic if it has no viewer. Raises TooManyStreamsError."""
        if self.viewers >= MOST_STREAMS:
            raise TooManyStreamsError(f"{MOST_STREAMS} pages are open already: close another one")
        self._loop = asyncio.get_running_loop()
        watched = self._topics.get(name)
        if watched is None:
            watched = WatchedTopic(name, make(), ended=self._forget, log=self._log)
            self._topics[name] = watched
        return Viewer(watched)

    def close(self) -> None:
        """End all streams. Any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        for topic in [*self._topics.values()]:
            topic.end()

    def _forget(self, name: str) -> None:
        self._topics.pop(name, None)


def _event(content: object) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(content)


def _rows_event(rows: Mapping[str, bytes], gone: list[str], *, full: bool = False) -> bytes:
    raw = {row: msgspec.Raw(value) for row, value in rows.items()}
    return _event({"full": True, "set": raw} if full else {"set": raw, "gone": gone})
