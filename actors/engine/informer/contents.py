"""What the server shows goes into the table; what differs from before is returned, to be delivered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson

from protocols.messages.watching import EventType
from protocols.objects import Key, metadata, partial_metadata
from protocols.watch_lines import MalformedError, WatchLine, strip, version_of
from runtime.tables.table import Entry, Table, TableWriter


class Difference(NamedTuple):
    """One object is another than before. previous: the entry that the table had, None without one."""

    type: EventType
    entry: Entry
    previous: Entry | None


class Contents:
    """The table's objects, as lists and watches bring them. A list is gathered aside and swapped in whole.

    A malformed object is skipped and reported: it stalls no other.
    """

    def __init__(
        self, table: Table, writer: TableWriter, *, malformed: Callable[[str, Key, Exception | None], None]
    ) -> None:
        """malformed: called with what is wrong, the object's key as far as it is known, and what was raised."""
        self._table, self._writer, self._malformed = table, writer, malformed
        self._gathered: dict[Key, Entry] = {}  # of a list that is not complete

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
        """The list is complete. Returns what differs from before, deletions first."""
        before = {entry.key: entry for entry in self._table.entries()}
        gathered, self._gathered = self._gathered, {}
        self._writer.replace(gathered.values(), version)
        return list(_differences(before, gathered))

    # A watch.

    def advance(self, version: int) -> None:
        """Nothing has changed up to this version."""
        self._writer.advance(version)

    def take(self, line: WatchLine) -> Difference | None:
        """Puts an event's object into the table, or removes it. None if the event changes nothing."""
        difference = self._taken(line)
        if difference is None:
            version = version_of(line.object)
            if version is not None:
                self._writer.advance(version)
        return difference

    def _taken(self, line: WatchLine) -> Difference | None:
        entry = self._entry(line.object)
        if entry is None:
            return None
        shown = self._table.get(entry.key)
        if shown is not None and entry.resource_version < shown.resource_version:
            return None  # a server that replays the past must not make the table forget
        match line.type:
            case EventType.DELETED:
                # By key alone: the event may show a later state of the object than we ever saw.
                known = self._writer.remove(entry.key, entry.resource_version)
                return Difference(EventType.DELETED, entry, known)
            case EventType.ADDED | EventType.MODIFIED:
                known = self._writer.put(entry)
                return Difference(EventType.ADDED if known is None else EventType.MODIFIED, entry, known)
            case _:
                self._malformed(f"a watch event of unknown type {line.type!r}", "", None)
                return None

    def _entry(self, obj: Any) -> Entry | None:
        """None if the object is malformed."""
        try:
            if not isinstance(obj, dict):
                raise MalformedError(f"an item that is no object but {type(obj).__name__}")
            if self._table.metadata_only:
                obj = partial_metadata(obj)  # a server that knows no such representation sends whole objects
            raw = strip(obj)
            return self._table.make_entry(obj, raw)
        except (MalformedError, ValueError, TypeError, KeyError, AttributeError, orjson.JSONEncodeError) as err:
            self._malformed(f"{type(err).__name__}: {err}", _key_of(obj), err)
            return None


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
