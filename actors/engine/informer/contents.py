"""What the server shows: into the table, and on to whoever has subscribed to what changes."""

from __future__ import annotations

from typing import Any

import orjson

from protocols.codec import encode
from protocols.messages.watching import EventType, Synced, WatchEvent
from protocols.objects import Key, metadata
from protocols.watch_lines import MalformedError, WatchLine, strip
from runtime.system.actor import Actor
from runtime.tables.table import Entry, Table


class Contents:
    """A list is gathered aside and put in at once; then what differs from before is told, but not of the first list.

    A malformed object is skipped with a warning that names it: it stalls nobody else.

    Who has subscribed, and what they have not been told yet, is known beyond the end of an informer: else nobody would
    hear of what was deleted meanwhile, as whoever subscribes anew looks at what is there.
    """

    def __init__(self, informer: Actor, table: Table) -> None:
        """From now on nobody else writes the table. What an earlier informer did not live to tell is told."""
        self._informer, self._table, self._log = informer, table, informer.log
        self._resource = table.resource
        self._writer = table.claim()
        self._subscribers = self._writer.subscribers
        self._gathered: dict[Key, Entry] = {}  # of a list that is not complete
        for name in [name for name in self._subscribers if not informer.context.system.is_alive(name)]:
            self.unsubscribe(name)  # should it come again, it says so
        for before in self._writer.untold():
            now = table.get(before.key)
            self._emit(EventType.DELETED if now is None else EventType.MODIFIED, now or before, before)

    def subscribe(self, name: str) -> None:
        self._subscribers[name] = None
        if self._table.synced:
            self._informer.tell(name, Synced(self._resource.id))

    def unsubscribe(self, name: str) -> None:
        self._subscribers.pop(name, None)

    def hear(self, now: float) -> None:
        """The server gave a sign of life."""
        self._writer.hear(now)

    def advance(self, version: int) -> None:
        """Nothing has changed up to this one."""
        self._writer.advance(version)

    # A list.

    def begin_list(self) -> None:
        self._gathered = {}

    def gather(self, obj: Any) -> None:
        entry = self._entry(obj)
        if entry is not None:
            self._gathered[entry.key] = entry

    def drop(self, obj: Any) -> None:
        """Deleted while the list is still being gathered."""
        self._gathered.pop(_key_of(obj), None)

    def end_list(self, version: int) -> None:
        """It is complete. Swap it in, then tell what differs from before."""
        before = {entry.key: entry for entry in self._table.entries()}
        first = not self._table.synced
        gathered, self._gathered = self._gathered, {}
        self._writer.replace(gathered.values(), version)
        if first:
            synced = encode(Synced(self._resource.id))
            for name in self._subscribers:
                self._informer.tell_frame(name, synced)
            self._log.info("synced", resource=self._resource.name, objects=len(gathered), version=version)
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
        self._log.info("listed again", resource=self._resource.name, objects=len(gathered), version=version)

    # A watch.

    def take(self, line: WatchLine) -> None:
        """What an event shows. The table says how far it has come before anybody is told: should this informer fail in
        the middle of that, the next one lists nothing older.
        """
        entry = self._entry(line.object)
        shown = self._table.get(entry.key) if entry is not None else None
        if entry is None or (shown is not None and entry.resource_version < shown.resource_version):
            pass  # malformed; or a server that replays the past, which must not make the table forget
        elif line.type == EventType.DELETED:
            # Taken out by key alone: the event may show a later state of the object than we ever saw.
            known = self._writer.remove(entry.key)
            self.advance(entry.resource_version)
            self._emit(EventType.DELETED, entry, known)
        elif line.type in (EventType.ADDED, EventType.MODIFIED):
            known = self._writer.put(entry)
            self.advance(entry.resource_version)
            self._emit(EventType.ADDED if known is None else EventType.MODIFIED, entry, known)
        else:
            self.warn_malformed(f"a watch event of unknown type {line.type!r}")

    def warn_malformed(self, why: str, key: Key = "") -> None:
        self._log.warning("malformed object skipped", resource=self._resource.name, key=key, error=why)

    def _emit(self, type: EventType, entry: Entry, previous: Entry | None) -> None:
        if self._subscribers:
            self._tell_subscribers(type, entry, previous)
        self._writer.told(entry.key)

    def _tell_subscribers(self, type: EventType, entry: Entry, previous: Entry | None) -> None:
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
            self._informer.tell_frame(name, frame)

    def _entry(self, obj: Any) -> Entry | None:
        """None, and a warning, if the object is malformed."""
        try:
            if not isinstance(obj, dict):
                raise MalformedError(f"an item that is no object but {type(obj).__name__}")
            raw = strip(obj)
            return self._table.make_entry(obj, raw)
        except (MalformedError, ValueError, TypeError, KeyError, AttributeError, orjson.JSONEncodeError) as err:
            self.warn_malformed(f"{type(err).__name__}: {err}", _key_of(obj))
            return None


def _key_of(obj: Any) -> Key:
    meta = metadata(obj) if isinstance(obj, dict) else {}
    return "/".join(str(part) for part in (meta.get("namespace"), meta.get("name")) if part)
