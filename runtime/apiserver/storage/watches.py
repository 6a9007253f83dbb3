"""The watch cache: the recent changes of each resource, and its watches.

Watches deliver the same bytes that were stored. An object that leaves a watch's selection is delivered as DELETED with
its last selected state, and an object that enters it as ADDED.

Source: apiserver pkg/storage/cacher (watch_cache.go, cache_watcher.go; v1.36).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import orjson

from kcm.protocols.objects import Key, Object, decode_object, encode_object
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.storage.callbacks import call_all
from kcm.runtime.apiserver.storage.history import HISTORY_AGE, History
from kcm.runtime.apiserver.storage.selection import SelectionPredicate
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, MODIFIED, StoreChange
from kcm.runtime.client.api import Response

BOOKMARK_EVERY = 60.0  # seconds
BOOKMARK_BEFORE_END = 2.0  # seconds
ALL_HISTORIES_BYTES = 256 * 1024 * 1024  # size of the changes of all resources together, whose number is not limited
MOST_DUE = (
    2_000  # changes that may wait for conversion for one watch; beyond that the watch fails, and its client lists again
)
AGE_EVERY = 5.0  # seconds between two calls of WatchCache.age

_OPEN = {type_: b'{"type":"' + type_.encode() + b'","object":' for type_ in (ADDED, MODIFIED, DELETED)}
_CLOSE = b"}\n"

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def event_line(type_: str, raw: bytes) -> bytes:
    return _OPEN[type_] + raw + _CLOSE


def parts_of_line(line: bytes) -> tuple[str, bytes]:
    """Split a line of event_line into the type of the event and the JSON of its object.

    line: the line, with or without its newline
    """
    begin = len(b'{"type":"')
    end = line.index(b'"', begin)
    return line[begin:end].decode(), line[end + len(b'","object":') :].rstrip(b"\n")[:-1]


def error_line(error: StatusError) -> bytes:
    return b'{"type":"ERROR","object":' + orjson.dumps(error.status) + _CLOSE


class _DecodedChange:
    """A change that is decoded once for all watches that select by content."""

    __slots__ = ("_line", "_now", "_previous", "change")

    def __init__(self, change: StoreChange) -> None:
        self.change = change
        self._line: bytes | None = None
        self._now: Object | None = None
        self._previous: Object | None = None

    @property
    def line(self) -> bytes:
        if self._line is None:
            self._line = event_line(self.change.type, self.change.raw)
        return self._line

    @property
    def now(self) -> Object:
        if self._now is None:
            self._now = decode_object(self.change.raw)
        return self._now

    @property
    def raw(self) -> bytes:
        return self.change.raw

    @property
    def previous(self) -> Object:
        if self._previous is None:
            self._previous = decode_object(self.change.previous)
        return self._previous


class _Converted:
    """A change whose objects are converted to the API version of a watch."""

    __slots__ = ("change", "now", "previous")

    def __init__(self, change: StoreChange, previous: Object, now: Object) -> None:
        self.change, self.previous, self.now = change, previous, now

    @property
    def raw(self) -> bytes:
        return encode_object(self.now)


_Seen = _DecodedChange | _Converted

ConvertLater = Callable[
    [list[Object], Callable[[list[Object]], None], Callable[[StatusError], None]],
    None,
]
"""Converts stored objects to the watch's version. Arguments: the objects, the callbacks for success and for failure."""


class CacheWatcher:
    """Watch of one client. WatchCache passes changes to it."""

    def __init__(
        self,
        *,
        selection: SelectionPredicate,
        prefix: Key,
        revision: int,
        bookmarks: bool,
        started: float,
        timeout: float,
        deliver: Callable[[bytes], None],
        end: Callable[[Response], None],
        revision_now: Callable[[], int],
        forget: Callable[[CacheWatcher], None],
        deliver_first: Callable[[Iterator[bytes]], None] | None = None,
        convert_later: ConvertLater | None = None,
    ) -> None:
        """Create a watch.

        selection: selects the objects whose changes are delivered
        prefix: "namespace/", or "" for all namespaces
        revision: the watch delivers changes after this revision
        bookmarks: whether the client asked for bookmarks
        started: when the watch began, in Unix seconds
        timeout: seconds after which the watch ends
        deliver: receives one or more whole lines at a time
        end: called when the watch ends, except by `cancel`
        revision_now: returns the revision up to which all changes are published
        forget: removes the watch from its WatchCache
        deliver_first: receives the initial events as an iterator of lines; without it, `deliver` receives them at once
        convert_later: converts objects asynchronously; None converts each object when it is delivered
        """
        self.definition: ResourceDefinition = selection.definition
        self._selection, self._prefix, self._revision = selection, prefix, revision
        self._ends = started + timeout
        self._bookmarks, self._next_bookmark = bookmarks, self._bookmark_after(started)
        self._deliver, self._end, self._revision_now, self._forget = deliver, end, revision_now, forget
        self._deliver_first, self._convert_later = deliver_first, convert_later
        self._as_stored = self.definition.shows_what_is_stored
        self._due: list[StoreChange] = []  # changes that wait while an earlier batch is converted
        self._converting = False
        self._live = True
        self._begun = False

    def begin(self, initial: Iterable[bytes], *, initial_events_end: bool) -> None:
        """Deliver the initial events, followed by the bookmark k8s.io/initial-events-end if the client asked for it."""
        if not self._live:
            return
        self._begun = True
        last = [self._bookmark(self._revision, {INITIAL_EVENTS_END: "true"})] if initial_events_end else []
        lines = chain(initial, last)
        if self._deliver_first is not None:
            self._deliver_first(lines)
        elif batch := b"".join(lines):
            self._deliver(batch)
        self._convert_next()

    @property
    def has_begun(self) -> bool:
        return self._begun

    def feed(self, changes: Sequence[_DecodedChange]) -> None:
        fresh = [each for each in changes if each.change.revision > self._revision]
        if self._as_stored:
            self._take(fresh)
        elif self._convert_later is None:
            self._take(map(self._shown, fresh))
        elif fresh and self._live:
            self._due += [each.change for each in fresh if self._is_in_sight(each.change.key)]
            if len(self._due) > MOST_DUE:
                self.fail(status_errors.expired("the conversion of this watch's objects takes too long"))
            self._convert_next()

    def _convert_next(self) -> None:
        """Start to convert the next batch, unless another is being converted: changes are delivered in their order."""
        if self._converting or not self._due or not self._begun or not self._live or self._convert_later is None:
            return
        changes, self._due, self._converting = self._due, [], True
        # The previous state is converted too, because it may have been selected.
        stored = [decode_object(raw) for change in changes for raw in (change.previous or change.raw, change.raw)]
        self._convert_later(stored, partial(self._converted, changes), self.fail)

    def _converted(self, changes: list[StoreChange], objects: list[Object]) -> None:
        self._converting = False
        pairs = zip(changes, objects[::2], objects[1::2], strict=True)
        if self._live:
            self._take(_Converted(change, previous, now) for change, previous, now in pairs)
            self._convert_next()

    def _shown(self, seen: _DecodedChange) -> _Seen:
        change, shown = seen.change, self.definition.shown
        if not self._is_in_sight(change.key):
            return seen
        return _Converted(change, shown(seen.previous) if change.previous else {}, shown(seen.now))

    def _is_in_sight(self, key: Key) -> bool:
        return (not self._prefix or key.startswith(self._prefix)) and self._selection.has_key(key)

    def _take(self, changes: Iterable[_Seen]) -> None:
        lines = [line for seen in changes if (line := self._line(seen)) is not None]
        if lines and self._live:
            self._deliver(b"".join(lines))

    def _line(self, seen: _Seen) -> bytes | None:
        """Return the event line for this watch, or None if neither the old nor the new state is selected."""
        change = seen.change
        if self._prefix and not change.key.startswith(self._prefix):
            return None
        if self._as_stored and self._selection.everything and isinstance(seen, _DecodedChange):
            return seen.line
        if not self._selection.has_key(change.key):
            return None
        was = change.type != ADDED and self._selection.matches(change.key, seen.previous)
        still = change.type != DELETED and self._selection.matches(change.key, seen.now)
        if still:
            return event_line(MODIFIED if was else ADDED, seen.raw)
        if not was:
            return None
        if change.type == DELETED:
            return event_line(DELETED, seen.raw)
        meta = {**seen.previous["metadata"], "resourceVersion": str(change.revision)}
        return event_line(DELETED, encode_object({**seen.previous, "metadata": meta}))

    def _bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> bytes:
        meta: Object = {"resourceVersion": str(revision)}
        if annotations:
            meta["annotations"] = annotations
        bookmark = {"kind": self.definition.kind, "apiVersion": self.definition.api_version, "metadata": meta}
        return b'{"type":"BOOKMARK","object":' + orjson.dumps(bookmark) + _CLOSE

    @property
    def next_tick(self) -> float:
        """Return the time at which tick is due next, in Unix seconds."""
        return min(self._ends, self._next_bookmark) if self._bookmarks else self._ends

    def tick(self, now: float) -> None:
        """Deliver a bookmark if one is due, and end the watch when its timeout has passed.

        now: Unix seconds
        """
        if not self._live:
            return
        if now >= self._ends:
            self.end()
        elif self._bookmarks and now >= self._next_bookmark and self._begun and not self._converting:
            self._next_bookmark = self._bookmark_after(now)
            self._deliver(self._bookmark(max(self._revision, self._revision_now())))

    def _bookmark_after(self, now: float) -> float:
        last = self._ends - BOOKMARK_BEFORE_END
        return last if now < last < now + BOOKMARK_EVERY else now + BOOKMARK_EVERY

    def fail(self, error: StatusError) -> None:
        """End the watch with an ERROR event, for example because its resource is no longer served."""
        if self._live:
            self.cancel()
            try:
                self._deliver(error_line(error))
            finally:
                self._end(Response(status=200))

    def cancel(self) -> None:
        """Stop the watch without calling `end`. No line is delivered after this returns."""
        if self._live:
            self._live = False
            self._forget(self)

    def end(self) -> None:
        """End the watch without an error, as when its timeout has passed."""
        if self._live:
            self.cancel()
            self._end(Response(status=200))


class WatchCache:
    """History and watches of every resource.

    compacted: the newest revision of five minutes ago. A list at an earlier revision is refused even if nothing has
      changed since, because kube-apiserver compacts etcd every five minutes.
    """

    def __init__(self, floor: int) -> None:
        self._floor = floor
        self._newest = self.compacted = floor
        self._noted: deque[tuple[float, int]] = deque()  # (Unix seconds, newest revision at that time)
        self._histories: dict[str, History] = {}
        self._size = 0  # bytes of all histories
        self._watches: dict[str, list[CacheWatcher]] = {}
        self._tick_at = 0.0  # no watch is due before this time; Unix seconds
        self._age_at = 0.0  # Unix seconds

    def history(self, storage: str) -> History:
        history = self._histories.get(storage)
        if history is None:
            history = self._histories[storage] = History(self._floor)
        return history

    def publish(self, changes: Sequence[StoreChange]) -> None:
        """Append durable changes to the histories, and deliver them in order to the watches of their resources."""
        batches: dict[str, list[_DecodedChange]] = {}
        if changes:
            self._newest = changes[-1].revision
        for change in changes:
            history = self.history(change.storage)
            before = history.size
            history.append(change)
            self._size += history.size - before
            if self._watches.get(change.storage):
                batches.setdefault(change.storage, []).append(_DecodedChange(change))
        if self._size > ALL_HISTORIES_BYTES:
            self._forget_bytes()
        call_all(
            partial(_feed, watch, decoded) for storage, decoded in batches.items() for watch in self.watches_of(storage)
        )

    def _forget_bytes(self) -> None:
        """Discard a tenth of the largest history at a time, until all histories fit ALL_HISTORIES_BYTES together."""
        self._size = sum(history.size for history in self._histories.values())
        while self._size > ALL_HISTORIES_BYTES:
            largest = max(self._histories.values(), key=lambda history: history.size)
            before = largest.size
            largest.forget_bytes(before // 10 + 1)
            self._size -= before - largest.size

    def replay(self, watch: CacheWatcher, revision: int) -> None:
        """Pass the changes after a revision to a new watch. Raises StatusError (410) if some of them were discarded."""
        watch.feed([_DecodedChange(change) for change in self.history(watch.definition.storage).since(revision)])

    def add(self, watch: CacheWatcher) -> None:
        self._watches.setdefault(watch.definition.storage, []).append(watch)
        self._tick_at = min(self._tick_at, watch.next_tick)

    def forget(self, watch: CacheWatcher) -> None:
        watches = self._watches[watch.definition.storage]
        if watch in watches:
            watches.remove(watch)

    def watches(self) -> Iterator[CacheWatcher]:
        for storage in list(self._watches):
            yield from self.watches_of(storage)

    def watches_of(self, storage: str) -> list[CacheWatcher]:
        return list(self._watches.get(storage, ()))

    def due(self, now: float) -> list[CacheWatcher]:
        """Return the watches whose tick is due. now: Unix seconds."""
        if now < self._tick_at:
            return []
        due = [watch for watch in self.watches() if watch.next_tick <= now]
        self._tick_at = now if due else self.next_tick()  # the next tick of a due watch is known only after this one
        return due

    def next_tick(self) -> float:
        """Return the time at which the next watch is due, in Unix seconds; infinity if there are no watches."""
        return min((watch.next_tick for watch in self.watches()), default=math.inf)

    def is_age_due(self, now: float) -> bool:
        """Report whether age() is due. now: Unix seconds."""
        return now >= self._age_at

    def age(self, now: float) -> None:
        """Discard changes older than HISTORY_AGE from all histories, and update `compacted`.

        now: Unix seconds
        """
        self._age_at = now + AGE_EVERY
        if not self._noted or self._noted[-1][1] != self._newest:
            self._noted.append((now, self._newest))
        while self._noted and self._noted[0][0] <= now - HISTORY_AGE:
            self.compacted = self._noted.popleft()[1]
        for history in self._histories.values():
            history.age(now)
        self._size = sum(history.size for history in self._histories.values())


def _feed(watch: CacheWatcher, changes: Sequence[_DecodedChange]) -> None:
    """Pass changes to a watch. If that fails, end the watch: it would miss a change, so its client must list again."""
    try:
        watch.feed(changes)
    except Exception:
        watch.fail(status_errors.internal("the watch has failed"))
        raise
