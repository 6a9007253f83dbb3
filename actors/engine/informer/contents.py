"""What the server shows goes into the table; what differs from before is returned, to be delivered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson

from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, metadata, partial_metadata
from kcm.protocols.watch_lines import MalformedError, WatchLine, state_in_line, strip, version_of
from kcm.runtime.tables.entry import Unreadable, unreadable
from kcm.runtime.tables.table import Entry, Table, TableWriter


class Difference(NamedTuple):
    """One object is another than before. previous: the entry that the table had, None without one."""

    type: EventType
    entry: Entry
    previous: Entry | None


class Contents:
    """The table's objects, as lists and watches bring them. A list is gathered aside and swapped in whole.

    An object that cannot be read stalls no other: the table knows that it is there. What has no name is skipped. Each
    is reported, the former when it becomes unreadable, for another reason than before, and when it is so no more.
    """

    def __init__(
        self,
        table: Table,
        writer: TableWriter,
        *,
        malformed: Callable[[str, Key, Exception | None], None],
        unreadable: Callable[[Unreadable, Exception], None],
        healed: Callable[[Key], None],
    ) -> None:
        """malformed: called with what is wrong, the object's key as far as it is known, and what was raised."""
        self._table, self._writer, self._malformed = table, writer, malformed
        self._unreadable, self._healed = unreadable, healed
        self._gathered: dict[Key, Entry | Unreadable] = {}  # of a list that is not complete

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

    def end_list(self, version: int) -> list[Difference]:
        """The list is complete. Returns what differs from before, deletions first; nothing after the first list."""
        first = not self._table.synced
        before = {entry.key: entry for entry in self._table.entries()}
        unreadable_before = self._table.unreadable()
        gathered, self._gathered = self._gathered, {}
        after = {key: one for key, one in gathered.items() if isinstance(one, Entry)}
        unreadable = [one for one in gathered.values() if isinstance(one, Unreadable)]
        for one in unreadable:
            known = before.get(one.key)
            if known is not None and one.uid in ("", known.uid):
                after[one.key] = known  # the last version that could be read
        self._writer.replace(after.values(), version, unreadable)
        for one in unreadable_before:
            if not isinstance(gathered.get(one.key), Unreadable):
                self._healed(one.key)
        return [] if first else list(_differences(before, after))

    # A watch.

    def advance(self, version: int) -> None:
        """Nothing has changed up to this version."""
        self._writer.advance(version)

    def take(self, line: WatchLine) -> Difference | None:
        """Puts an event's object into the table, or removes it. None if the event changes nothing."""
        difference = None
        if line.type in (EventType.ADDED, EventType.MODIFIED, EventType.DELETED):
            entry = self._entry(line.object)
            difference = None if entry is None else self._taken(line.type, entry)
        else:
            self._malformed(f"a watch event of unknown type {line.type!r}", "", None)
        if difference is None:
            version = version_of(line.object)
            if version is not None:
                self._writer.advance(version)
        return difference

    def foreseen(self, line: bytes) -> Entry | None:
        """What an event shows, where a controller has had the same from the server as the response to its write: then
        the event need not be decoded.
        """
        state = state_in_line(line)
        return None if state is None else self._writer.foreseen(state)

    def take_foreseen(self, entry: Entry) -> Difference | None:
        """Take an event that a controller has foreseen, and return the difference."""
        difference = self._taken(EventType.MODIFIED, entry)
        if difference is None:
            self._writer.advance(entry.resource_version)
        return difference

    def _taken(self, type: str, entry: Entry | Unreadable) -> Difference | None:
        shown, doubted = self._table.get(entry.key), self._table.unreadable_at(entry.key)
        version = entry.version if isinstance(entry, Unreadable) else entry.resource_version
        newest = max(0 if shown is None else shown.resource_version, 0 if doubted is None else doubted.version)
        if 0 < version < newest:
            return None  # a server that replays the past must not make the table forget
        if isinstance(entry, Unreadable):
            return self._unread(type, entry, doubted)
        if doubted is not None:
            self._healed(entry.key)
        match type:
            case EventType.DELETED:
                # By key alone: the event may show a later state of the object than we ever saw.
                known = self._writer.remove(entry.key, entry.resource_version)
                return Difference(EventType.DELETED, entry, known)
            case _:
                known = self._writer.put(entry)
                return Difference(EventType.ADDED if known is None else EventType.MODIFIED, entry, known)

    def _unread(self, type: str, one: Unreadable, doubted: Unreadable | None) -> Difference | None:
        """An event about an object that cannot be read."""
        if type != EventType.DELETED:
            known = self._writer.mark(one)  # of another object that had its name
        else:
            known = self._writer.remove(one.key, one.version)
            if doubted is not None:
                self._healed(one.key)
        return None if known is None else Difference(EventType.DELETED, known, known)

    def _entry(self, obj: Any) -> Entry | Unreadable | None:
        """None if nothing is known of the object."""
        try:
            if not isinstance(obj, dict):
                raise MalformedError(f"an item that is no object but {type(obj).__name__}")
            if self._table.metadata_only:
                obj = partial_metadata(obj)  # a server that knows no such representation sends whole objects
            raw = strip(obj)
            return self._table.make_entry(obj, raw)
        except (MalformedError, ValueError, TypeError, KeyError, AttributeError, orjson.JSONEncodeError) as err:
            why = f"{type(err).__name__}: {err}"
            table = self._table
            values = table.values_of_unreadable(obj)
            found = unreadable(obj, why, namespaced=table.resource.namespaced, values=values)
            if found is None:
                self._malformed(why, _key_of(obj), err)
                return None
            known = self._gathered.get(found.key) or self._table.unreadable_at(found.key)
            if not isinstance(known, Unreadable) or known.why != why:
                self._unreadable(found, err)
            return found


def _differences(before: dict[Key, Entry], after: dict[Key, Entry]) -> Iterator[Difference]:
    for key, known in before.items():
        if key not in after:
            yield Difference(EventType.DELETED, known, known)
    for key, entry in after.items():
        previous = before.get(key)
        if previous is None:
            yield Difference(EventType.ADDED, entry, None)
        elif previous.resource_version != entry.resource_version or previous.uid != entry.uid:
            yield Difference(EventType.MODIFIED, entry, previous)


def _key_of(obj: Any) -> Key:
    meta = metadata(obj) if isinstance(obj, dict) else {}
    return "/".join(str(part) for part in (meta.get("namespace"), meta.get("name")) if part)
