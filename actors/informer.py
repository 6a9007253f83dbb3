"""An informer: keeps the table of one resource in line with the API server, and tells its subscribers what changes.

Takes Subscribe, Unsubscribe; from its transport Listed, Streamed, StreamEnded; Wake. Tells WatchEvent and Synced.

It lists, by a streaming list where the server has them (KEP-3157), else in pages, and watches from the list's
resourceVersion, never from an item's. It is never silently deaf: a watch without a sign of life for longer than the
limit is cut, counted and renewed, and the table shows how old it is. After 410 Gone it lists again and tells only the
differences. Behaviour as client-go's tools/cache reflector, kubernetes v1.36.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson

from protocols.codec import encode
from protocols.messages.lifecycle import Wake
from protocols.messages.watching import (
    EventType,
    Listed,
    Streamed,
    StreamEnded,
    Subscribe,
    Synced,
    Unsubscribe,
    WatchEvent,
)
from protocols.objects import Key, Object, metadata
from protocols.resources import resource_path
from protocols.watch_lines import (
    MalformedError,
    WatchLine,
    ends_initial_events,
    parse_list_page,
    parse_watch_line,
    strip,
    version_of,
)
from runtime.actor import Actor, Context
from runtime.api import Request, Response, Stream, Transport
from runtime.backoff import Backoff
from runtime.table import Entry, Table, TableWriter

CLIENT = "shared-informers"
PAGE = 500
BACKOFF = Backoff(first=0.8, factor=2.0, most=30.0, jitter=1.0)
QUIET = 120.0  # seconds without a failure after which the backoff starts over
SHORT_WATCH = 1.0  # a watch that ends sooner, without one event, is a failure
INCOMPLETE_LISTS = 2  # streaming lists in a row that did not end, after which it lists in pages
CHECK = 5.0  # seconds between two looks at how long the server has been silent


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerLimits:
    """silence: seconds without a byte after which a watch is cut. list_timeout: seconds for a page of a list.

    watch_timeout: seconds after which the server is asked to end a watch; each takes between one and two times that.
    """

    silence: float = 90.0
    list_timeout: float = 60.0
    watch_timeout: float = 300.0


class State(Enum):
    """What the informer is at."""

    WAITING = "waiting"  # for its backoff to pass
    LISTING = "listing"  # pages
    STREAMING_LIST = "streaming list"  # a watch that begins with all there is
    WATCHING = "watching"


class Informer(Actor):
    """See the module. `informer:<Resource.id>` is its name."""

    def __init__(
        self,
        context: Context,
        *,
        table: Table,
        transport: Transport,
        limits: InformerLimits,
        seed: int | None = None,
    ) -> None:
        super().__init__(context)
        self._table, self._transport, self._limits = table, transport, limits
        self._resource = table.resource
        self._random = random.Random(seed)
        self._writer: TableWriter
        self._subscribers: dict[str, None] = {}
        self._state = State.WAITING
        self._stream_number = 0
        self._stream: Stream | None = None
        self._began = 0.0  # when the present list or watch began
        self._events = 0  # in the present watch
        self._gathered: dict[Key, Entry] = {}  # of a list that is not complete
        self._consistent = False  # list from the store itself, not from a cache: after 410
        self._streaming_lists = True  # until the server turns one down, or completes none
        self._incomplete = 0
        self._gone_at = float("-inf")
        self._failures = 0
        self._failed_at = 0.0
        self._retry_at: float | None = None
        self.malformed = self.cuts = self.relists = 0

    def started(self) -> None:
        self._writer = self._table.claim()
        self._list()
        self.wake_at(self.clock.monotonic() + CHECK)

    def stopped(self) -> None:
        self._drop_stream()

    def receive(self, message: Any) -> None:
        match message:
            case Streamed(stream=stream, lines=lines):
                if stream == self._stream_number:
                    self._writer.hear(self.clock.monotonic())
                    self._take_lines(lines)
            case Listed(stream=stream):
                if stream == self._stream_number:
                    self._take_page(message)
            case StreamEnded(stream=stream):
                if stream == self._stream_number:
                    self._stream = None
                    self._take_end(message)
            case Subscribe(subscriber=name):
                self._subscribers[name] = None
                if self._table.synced:
                    self.tell(name, Synced(self._resource.id))
            case Unsubscribe(subscriber=name):
                self._subscribers.pop(name, None)
            case Wake():
                self._look_at_the_time()
            case _:
                super().receive(message)

    # Asking the server.

    def _list(self) -> None:
        """Begin again from nothing: by a streaming list if the server has them."""
        self._gathered = {}
        if self._streaming_lists:
            query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            if not self._consistent and self._table.synced:
                query["resourceVersion"] = str(self._table.version)
            self._open(query)
            self._state = State.STREAMING_LIST
        else:
            query = {"limit": str(PAGE)}
            if not self._consistent and not self._table.synced:
                query["resourceVersion"] = "0"  # whatever the server has at hand, at first
            self._ask_page(query)

    def _ask_page(self, query: dict[str, str]) -> None:
        self._state = State.LISTING
        self._began = self.clock.monotonic()
        number = self._next_stream()
        request = Request(
            method="GET", path=resource_path(self._resource.id), query=query, timeout=self._limits.list_timeout
        )

        def on_response(response: Response) -> None:
            error, retry_after = response.error, response.retry_after
            self.tell(self.name, Listed(number, response.status, response.body, error, retry_after))

        self._transport.send(request, client=CLIENT, on_response=on_response)

    def _watch(self) -> None:
        self._open({"resourceVersion": str(self._table.version)})
        self._state = State.WATCHING

    def _open(self, query: dict[str, str]) -> None:
        self._began, self._events = self.clock.monotonic(), 0
        number = self._next_stream()
        seconds = int(self._limits.watch_timeout * (1 + self._random.random()))
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), **query}

        def on_lines(lines: bytes) -> None:
            self.tell(self.name, Streamed(number, lines))

        def on_end(response: Response) -> None:
            self.tell(
                self.name,
                StreamEnded(number, response.status, response.error, response.body, response.retry_after),
            )

        self._stream = self._transport.watch(
            Request(method="GET", path=resource_path(self._resource.id), query=query),
            client=CLIENT,
            on_lines=on_lines,
            on_end=on_end,
        )

    def _next_stream(self) -> int:
        """Whatever the streams before this one still deliver is ignored."""
        self._drop_stream()
        self._stream_number = self.context.incarnation * 1_000_000 + self._stream_number % 1_000_000 + 1
        return self._stream_number

    def _drop_stream(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None

    # What the server says.

    def _take_page(self, listed: Listed) -> None:
        if listed.status != 200:
            if listed.status == 410:
                self._consistent = True
            self._back_off(f"list answered {listed.status}" if listed.status else listed.error, listed.retry_after)
            return
        self._writer.hear(self.clock.monotonic())
        try:
            page = parse_list_page(listed.body)
            if not page.next and not page.resource_version.isdecimal():
                raise MalformedError(f"a list without a resourceVersion: {page.resource_version!r}")
        except MalformedError as err:
            self._back_off(str(err))
            return
        for obj in page.items:
            self._gather(obj)
        if page.next:
            self._ask_page({"limit": str(PAGE), "continue": page.next})
        else:
            self._replace(int(page.resource_version))
            self._watch()

    def _take_lines(self, lines: bytes) -> None:
        for raw in lines.split(b"\n"):
            if not raw:
                continue
            try:
                line = parse_watch_line(raw)
            except MalformedError as err:
                self._warn_malformed(str(err))
                continue
            if line.type == "ERROR":
                self._take_error(line.object)
                return  # nothing that follows it belongs to this watch
            if line.type == "BOOKMARK":
                self._take_bookmark(line.object)
                continue
            self._events += 1
            if self._state is State.STREAMING_LIST:
                if line.type == EventType.DELETED:
                    self._gathered.pop(self._key_of(line.object), None)
                else:
                    self._gather(line.object)
            else:
                self._take_event(line)

    def _take_bookmark(self, bookmark: Object) -> None:
        version = version_of(bookmark)
        if version is None:
            self._warn_malformed("a bookmark without a resourceVersion")
        elif self._state is not State.STREAMING_LIST:
            self._writer.advance(version)
        elif ends_initial_events(bookmark):
            self._replace(version)
            self._state = State.WATCHING

    def _take_event(self, line: WatchLine) -> None:
        version = version_of(line.object)
        entry = self._entry(line.object)
        shown = self._table.get(entry.key) if entry is not None else None
        if entry is None or (shown is not None and entry.resource_version < shown.resource_version):
            pass  # malformed; or a server that replays the past, which must not make the table forget
        elif line.type == EventType.DELETED:
            # Taken out by key alone: the event may show a later state of the object than we ever saw.
            known = self._writer.remove(entry.key)
            self._emit(EventType.DELETED, entry, known)
        elif line.type in (EventType.ADDED, EventType.MODIFIED):
            known = self._writer.put(entry)
            self._emit(EventType.ADDED if known is None else EventType.MODIFIED, entry, known)
        else:
            self._warn_malformed(f"a watch event of unknown type {line.type!r}")
        if version is not None:
            self._writer.advance(version)

    def _take_error(self, status: Object) -> None:
        """An ERROR event's object is a metav1 Status; some servers leave parts of it out."""
        self._drop_stream()
        code, reason = status.get("code"), status.get("reason")
        if code == 410 or reason in ("Expired", "Gone"):
            self._gone(str(status.get("message") or reason))
        else:
            self._back_off(f"watch error {code}: {status.get('message') or reason}")

    def _take_end(self, end: StreamEnded) -> None:
        if end.status == 410:
            self._gone(end.error or "watch answered 410")
        elif end.status == 200:
            now = self.clock.monotonic()
            short = now - self._began < SHORT_WATCH and self._events == 0
            if not end.error:
                self._writer.hear(now)  # it said goodbye
            if self._state is State.STREAMING_LIST:
                self._count_incomplete()
                self._back_off(end.error or "the streaming list ended before it was complete")
            elif short:
                self._back_off("very short watch: ended at once, without an event")
            else:
                self._watch()
        elif self._state is State.STREAMING_LIST and end.status in (400, 405, 422):
            self.log.info("no streaming lists here, listing in pages", resource=self._resource.name)
            self._streaming_lists = False
            self._list()
        else:
            if b"Too large resource version" in end.body:  # a server that was set back, or lags behind another
                self._consistent = True
            self._back_off(f"watch answered {end.status}" if end.status else end.error, end.retry_after)

    def _gone(self, why: str) -> None:
        self.relists += 1
        self._consistent = True
        now = self.clock.monotonic()
        again, self._gone_at = now - self._gone_at < QUIET, now
        if again:
            self._back_off(why)
            return
        self.log.info("resourceVersion is gone, listing again", resource=self._resource.name, error=why)
        self._list()

    def _count_incomplete(self) -> None:
        """A server that does not know of streaming lists takes the request for a watch like any other."""
        self._incomplete += 1
        if self._incomplete >= INCOMPLETE_LISTS:
            self._streaming_lists = False

    # The table.

    def _gather(self, obj: Any) -> None:
        entry = self._entry(obj)
        if entry is not None:
            self._gathered[entry.key] = entry

    def _entry(self, obj: Any) -> Entry | None:
        """None, and a warning that names it, if the object is malformed: it stalls nobody else."""
        try:
            if not isinstance(obj, dict):
                raise MalformedError(f"an item that is no object but {type(obj).__name__}")
            raw = strip(obj)
            return self._table.make_entry(obj, raw)
        except (MalformedError, ValueError, TypeError, KeyError, AttributeError, orjson.JSONEncodeError) as err:
            self._warn_malformed(f"{type(err).__name__}: {err}", self._key_of(obj))
            return None

    @staticmethod
    def _key_of(obj: Any) -> Key:
        meta = metadata(obj) if isinstance(obj, dict) else {}
        return "/".join(str(part) for part in (meta.get("namespace"), meta.get("name")) if part)

    def _warn_malformed(self, why: str, key: Key = "") -> None:
        self.malformed += 1
        self.log.warning("malformed object skipped", resource=self._resource.name, key=key, error=why)

    def _replace(self, version: int) -> None:
        """The list is complete. Swap it in, then tell what differs from before."""
        before = {entry.key: entry for entry in self._table.entries()}
        first = not self._table.synced
        gathered, self._gathered = self._gathered, {}
        self._writer.replace(gathered.values(), version)
        self._consistent = False
        self._failures = self._incomplete = 0
        if first:
            synced = encode(Synced(self._resource.id))
            for name in self._subscribers:
                self.tell_frame(name, synced)
            self.log.info("synced", resource=self._resource.name, objects=len(gathered), version=version)
            return
        for key, known in before.items():
            if key not in gathered:
                self._emit(EventType.DELETED, known, known)
        for key, entry in gathered.items():
            previous = before.get(key)
            if previous is None:
                self._emit(EventType.ADDED, entry, None)
            elif previous.resource_version != entry.resource_version or previous.uid != entry.uid:
                self._emit(EventType.MODIFIED, entry, previous)
        self.log.info("listed again", resource=self._resource.name, objects=len(gathered), version=version)

    def _emit(self, type: EventType, entry: Entry, previous: Entry | None) -> None:
        if not self._subscribers:
            return
        event = WatchEvent(
            type,
            self._resource.id,
            entry.key,
            entry.uid,
            str(entry.resource_version),
            entry.raw,
            entry.controller,
            previous.raw if previous is not None else b"",
            previous.uid if previous is not None else "",
            previous.controller if previous is not None else None,
        )
        frame = encode(event)
        for name in self._subscribers:
            self.tell_frame(name, frame)

    # Time.

    def _look_at_the_time(self) -> None:
        now = self.clock.monotonic()
        # A watch that has just been asked for has its time, however long the one before it said nothing.
        silence = now - max(self._began, self._table.heard or 0.0)
        if self._state is State.WAITING:
            if self._retry_at is not None and now >= self._retry_at:
                self._retry_at = None
                self._again()
        elif silence >= self._limits.silence + (self._limits.list_timeout if self._state is State.LISTING else 0.0):
            self.cuts += 1
            if self._state is State.STREAMING_LIST:
                self._count_incomplete()
            self.log.warning("watch cut after silence", resource=self._resource.name, seconds=round(silence, 1))
            self._again()
        due = now + CHECK
        self.wake_at(due if self._retry_at is None else min(due, self._retry_at))

    def _again(self) -> None:
        if self._table.synced and not self._consistent:
            self._watch()
        else:
            self._list()

    def _back_off(self, why: str, retry_after: float = 0.0) -> None:
        self._drop_stream()
        now = self.clock.monotonic()
        if now - self._failed_at > QUIET:
            self._failures = 0
        delay = max(retry_after, BACKOFF.delay(self._failures, self._random.random()))
        self._failures += 1
        self._failed_at = now
        self._state = State.WAITING
        self._retry_at = now + delay
        self.log.warning("watch failed, trying again", resource=self._resource.name, error=why, seconds=round(delay, 2))
        self.wake_at(self._retry_at)
