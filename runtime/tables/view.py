"""What one controller sees of a resource: the objects that its spec selects, wherever they are kept.

A controller that wants all of every object reads a Table, and nothing here costs it anything. Else it reads a View: of
a table of its own, of one for each namespace, or of one that others need as well and that holds more. In the last case
the table has an index, the View's `mark`, under which are the objects that are selected. So what a controller sees does
not depend on who else runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kcm.protocols.objects import Key, Object, encode_object, split_key
from kcm.protocols.resources import Resource
from kcm.runtime.tables.entry import Entry, Unreadable
from kcm.runtime.tables.frozen import FrozenDict
from kcm.runtime.tables.selection import Selection
from kcm.runtime.tables.table import BUILT_IN_INDEXES, UNREADABLE_VALUE, IndexValues, Table

OF_METADATA = " of metadata"


def mark_of(selection: Selection) -> str:
    """The index of a table that has the objects of this selection, all under ""."""
    return f"selected {selection}"


def marks(selection: Selection, known: Selection) -> IndexValues:
    """That index's values. known: a selection that covers this one, and that the objects are in."""
    left = selection.beyond(known)
    return lambda obj: ("",) if left.selects(obj) else ()


def of_metadata(values_of: IndexValues) -> IndexValues:
    """An index over objects of which its reader sees the metadata alone, in whichever table they are."""
    return lambda obj: values_of({"metadata": obj["metadata"]})


class Part(NamedTuple):
    """One table of a View. namespace: whose objects are read in it, "" for all. mark: "" if all are selected."""

    table: Table
    namespace: str
    mark: str


class PartialEntry(Entry):
    """An entry of a table of whole objects, as one of a table of metadata shows it."""

    __slots__ = ("_table", "_whole")

    def __init__(self, whole: Entry, table: Table) -> None:
        self.key, self.uid, self.resource_version = whole.key, whole.uid, whole.resource_version
        self.controller, self.values, self.finalizers = whole.controller, whole.values, whole.finalizers
        self.facts = None
        self._whole, self._table = whole, table

    def __getattr__(self, name: str) -> Any:
        """raw and decoded, which are made when they are asked for."""
        if name == "decoded":
            whole = self._table.object_of(self._whole)
            partial = {"metadata": whole["metadata"]}
            self.decoded = FrozenDict(partial) if isinstance(whole, FrozenDict) else partial
            return self.decoded
        if name == "raw":
            self.raw = encode_object(self.decoded)  # type: ignore[arg-type]
            return self.raw
        raise AttributeError(name)


class View:
    """Reads as a Table does; written by informers, through the tables."""

    __slots__ = ("_by_namespace", "metadata_only", "parts", "resource", "selection")

    def __init__(self, resource: Resource, selection: Selection, parts: Iterable[Part]) -> None:
        """parts: one for all namespaces, or one for each that is selected."""
        self.resource, self.selection, self.parts = resource, selection, tuple(parts)
        self.metadata_only = selection.metadata_only
        self._by_namespace = {part.namespace: part for part in self.parts}

    def __str__(self) -> str:
        return f"{self.resource} {self.selection}"

    @property
    def synced(self) -> bool:
        return all(part.table.synced for part in self.parts)

    @property
    def version(self) -> int:
        """Up to which all of it is shown."""
        return min(part.table.version for part in self.parts)

    @property
    def epoch(self) -> int:
        return sum(part.table.epoch for part in self.parts)

    @property
    def heard(self) -> float | None:
        """When the server last gave a sign of life of the part that it gave none of for longest."""
        moments = [part.table.heard for part in self.parts]
        known = [moment for moment in moments if moment is not None]
        return min(known) if len(known) == len(moments) else None

    def age(self, now: float) -> float | None:
        return None if self.heard is None else max(0.0, now - self.heard)

    def part_of(self, key: Key) -> Part | None:
        """The part that has the objects of this key's namespace; None if that is not selected."""
        if self.selection.namespaces is None:
            return self.parts[0]
        namespace = split_key(key)[0]
        if namespace not in self.selection.namespaces:
            return None
        return self._by_namespace.get(namespace) or self.parts[0]

    def index_name(self, index: str) -> str:
        """What an index of the controller's spec is called in the tables."""
        return f"{index}{OF_METADATA}" if self.metadata_only and index not in BUILT_IN_INDEXES else index

    def shown(self, part: Part, entry: Entry | None) -> Entry | None:
        """The entry as this view has it; None if it is not selected."""
        if entry is None or (part.mark and (part.mark, "") not in entry.values):
            return None
        if self.metadata_only and not part.table.metadata_only:
            return PartialEntry(entry, part.table)
        return entry

    # As Table.

    def __len__(self) -> int:
        return len(self.entries())

    def get(self, key: Key) -> Entry | None:
        part = self.part_of(key)
        return None if part is None else self.shown(part, part.table.get(key))

    def entries(self) -> list[Entry]:
        return self.selected(lambda part: part.table.indexed(part.mark, "") if part.mark else part.table.entries())

    def indexed(self, index: str, value: str) -> list[Entry]:
        name = self.index_name(index)
        return self.selected(lambda part: part.table.indexed(name, value))

    def selected(self, entries_of: Callable[[Part], Iterable[Entry]]) -> list[Entry]:
        """Of the entries of each part those that are selected."""
        found = []
        for part in self.parts:
            for entry in entries_of(part):
                shown = self.shown(part, entry)
                if shown is not None:
                    found.append(shown)
        return found

    def unreadable(self) -> list[Unreadable]:
        return [one for part in self.parts for one in part.table.unreadable() if self._may_be_selected(part, one)]

    @property
    def has_unreadable(self) -> bool:
        return any(part.table.has_unreadable for part in self.parts) and bool(self.unreadable())

    def unreadable_at(self, key: Key) -> Unreadable | None:
        part = self.part_of(key)
        one = part.table.unreadable_at(key) if part is not None else None
        return one if one is not None and part is not None and self._may_be_selected(part, one) else None

    def object_of(self, entry: Entry) -> Object:
        if isinstance(entry, PartialEntry):
            partial: Object = entry.decoded  # type: ignore[assignment]
            return partial
        return (self.part_of(entry.key) or self.parts[0]).table.object_of(entry)

    def _may_be_selected(self, part: Part, one: Unreadable) -> bool:
        """It is there with its last readable version, if it had one; and counts if it is selected now, or may be."""
        if not part.mark or (part.mark, "") in one.values or (part.mark, UNREADABLE_VALUE) in one.values:
            return True
        known = part.table.get(one.key)
        return known is not None and (part.mark, "") in known.values


AnyTable = Table | View


def tables_of(table: AnyTable) -> tuple[Table, ...]:
    """Those that informers keep for it."""
    return (table,) if isinstance(table, Table) else tuple(part.table for part in table.parts)
