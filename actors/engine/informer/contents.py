"""Contents of an informer's table: applies lists and watch events, and returns the differences to deliver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson

from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, metadata, partial_metadata
from kcm.protocols.watch_lines import MalformedError, WatchLine, state_in_line, strip, version_of
from kcm.runtime.tables.entry import Unreadable, unreadable
from kcm.runtime.tables.table import Entry, Foreseen, Table, TableWriter

# Number of objects of a list after which further ones are compressed at once. A start with fewer objects takes no
# longer, and one with more does not need the memory of all until they are compressed as cold entries.
COMPRESSED_FROM = 25_000


class Difference(NamedTuple):
    """Change of one object in the table."""

    type: EventType
    entry: Entry
    previous: Entry | None  # previous entry in the table, if any


class Contents:
    """Objects of the table. A list is collected separately and replaces the table's contents when it is complete.

    An unreadable object does not block others; the table contains it as Unreadable. It is reported when it becomes
    unreadable, when the reason changes, and when it becomes readable. An item without a name is reported and skipped.
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
        """Create the contents of a table.

        malformed: called with the error text, the object's key as far as it is known, and the exception, if any.
        unreadable: called with an object that became unreadable and the exception.
        healed: called with the key of an object that became readable, or was deleted.
        """
        self._table, self._writer, self._malformed = table, writer, malformed
        self._unreadable, self._healed = unreadable, healed
        self._gathered: dict[Key, Entry | Unreadable] = {}  # items of the incomplete list

    # A list.

    def begin_list(self) -> None:
        self._gathered = {}

    def gather(self, obj: Any) -> None:
        entry = self._entry(obj)
        if entry is not None:
            if len(self._gathered) >= COMPRESSED_FROM and isinstance(entry, Entry):
                self._table.compress(entry)
            self._gathered[entry.key] = entry

    def drop(self, obj: Any) -> None:
        """Remove an object that was deleted before the list was complete."""
        self._gathered.pop(_key_of(obj), None)

    def end_list(self, version: int) -> list[Difference]:
        """Complete the list. Return the differences, deletions first; after the first list, none."""
        first = not self._table.synced
        before = {entry.key: entry for entry in self._table.entries()}
        unreadable_before = self._table.unreadable()
        gathered, self._gathered = self._gathered, {}
        after = {key: item for key, item in gathered.items() if isinstance(item, Entry)}
        unreadable = [item for item in gathered.values() if isinstance(item, Unreadable)]
        for obj in unreadable:
            known = before.get(obj.key)
            if known is not None and obj.uid in ("", known.uid):
                after[obj.key] = known  # the last version that could be read
        self._writer.replace(after.values(), version, unreadable)
        for obj in unreadable_before:
            if not isinstance(gathered.get(obj.key), Unreadable):
                self._healed(obj.key)
        return [] if first else list(_differences(before, after))

    # A watch.

    def advance(self, version: int) -> None:
        """Record that nothing has changed up to this version."""
        self._writer.advance(version)

    def take(self, line: WatchLine) -> Difference | None:
        """Apply an event to the table, and return the difference; None if it changes nothing."""
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

    def foreseen(self, line: bytes) -> Foreseen | None:
        """Return the version of an event whose state a controller already received as the response to its write.

        Such an event need not be decoded. None for other events.
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
            return None  # an old event, as from a lagging server, must not revert the table
        if isinstance(entry, Unreadable):
            return self._unread(type, entry, doubted)
        if doubted is not None:
            self._healed(entry.key)
        match type:
            case EventType.DELETED:
                # By key only: the event may contain a later state of the object than the table.
                known = self._writer.remove(entry.key, entry.resource_version)
                return Difference(EventType.DELETED, entry, known)
            case _:
                known = self._writer.put(entry)
                return Difference(EventType.ADDED if known is None else EventType.MODIFIED, entry, known)

    def _unread(self, type: str, obj: Unreadable, doubted: Unreadable | None) -> Difference | None:
        """Apply an event of an unreadable object."""
        if type != EventType.DELETED:
            known = self._writer.mark(obj)  # the entry of an earlier object with this name
        else:
            known = self._writer.remove(obj.key, obj.version)
            if doubted is not None:
                self._healed(obj.key)
        return None if known is None else Difference(EventType.DELETED, known, known)

    def _entry(self, obj: Any) -> Entry | Unreadable | None:
        """Return the entry of an object, or None if it has no usable key."""
        try:
            if not isinstance(obj, dict):
                raise MalformedError(f"an item that is not an object but {type(obj).__name__}")
            if self._table.metadata_only:
                obj = partial_metadata(obj)  # a server without PartialObjectMetadata sends whole objects
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
