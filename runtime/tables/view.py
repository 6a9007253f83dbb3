"""Views: the objects of a resource that a controller's spec selects.

A controller without a selection reads a Table directly. Others read a View of a table of their own, of one table per
namespace, or of a larger table that is shared with other controllers. A shared table has an index, the View's `mark`,
of the selected objects. So the objects that a controller sees do not depend on the other controllers that run.
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
    """Return the name of the index that has the objects of this selection, with the value ""."""
    return f"selected {selection}"


def marks(selection: Selection, known: Selection) -> IndexValues:
    """Return the index function of these marks.

    known: a selection of all objects in the table, which covers this one.
    """
    left = selection.beyond(known)
    return lambda obj: ("",) if left.selects(obj) else ()


def of_metadata(values_of: IndexValues) -> IndexValues:
    """Wrap an index function to pass it only the metadata of objects, for a controller that reads metadata only."""
    return lambda obj: values_of({"metadata": obj["metadata"]})


class Part(NamedTuple):
    """Table of a View.

    namespace: of the objects to read, "" for all.
    mark: index of the selected objects, "" if all are selected.
    """

    table: Table
    namespace: str
    mark: str


class PartialEntry(Entry):
    """Entry of a table of whole objects, with the object's metadata only."""

    __slots__ = ("_table", "_whole")

    def __init__(self, whole: Entry, table: Table) -> None:
        self.key, self.uid, self.resource_version = whole.key, whole.uid, whole.resource_version
        self.controller, self.values, self.finalizers = whole.controller, whole.values, whole.finalizers
        self.facts = None
        self._whole, self._table = whole, table

    def __getattr__(self, name: str) -> Any:
        """Compute `decoded`, and the JSON of `raw`, on first access."""
        if name == "decoded":
            whole = self._table.object_of(self._whole)
            partial = {"metadata": whole["metadata"]}
            self.decoded = FrozenDict(partial) if isinstance(whole, FrozenDict) else partial
            return self.decoded
        if name == "_kept":
            self._kept = encode_object(self.decoded)  # type: ignore[arg-type]
            return self._kept
        raise AttributeError(name)


class View:
    """Reader with the interface of Table, of the selected objects. Informers write the tables behind it."""

    __slots__ = ("_by_namespace", "metadata_only", "parts", "resource", "selection")

    def __init__(self, resource: Resource, selection: Selection, parts: Iterable[Part]) -> None:
        """Create a view of one part for all namespaces, or of one part per selected namespace."""
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
        """Return the resourceVersion that all tables have reached."""
        return min(part.table.version for part in self.parts)

    @property
    def epoch(self) -> int:
        return sum(part.table.epoch for part in self.parts)

    @property
    def heard(self) -> float | None:
        """Return when the server last sent data for the most outdated part; None if it never did for a part."""
        moments = [part.table.heard for part in self.parts]
        known = [moment for moment in moments if moment is not None]
        return min(known) if len(known) == len(moments) else None

    def age(self, now: float) -> float | None:
        return None if self.heard is None else max(0.0, now - self.heard)

    def failure(self) -> str:
        return next((failure for part in self.parts if (failure := part.table.failure())), "")

    def part_of(self, key: Key) -> Part | None:
        """Return the part with the objects of this key's namespace; None if the namespace is not selected."""
        if self.selection.namespaces is None:
            return self.parts[0]
        namespace = split_key(key)[0]
        if namespace not in self.selection.namespaces:
            return None
        return self._by_namespace.get(namespace) or self.parts[0]

    def index_name(self, index: str) -> str:
        """Return the name in the tables of an index of the controller's spec."""
        return f"{index}{OF_METADATA}" if self.metadata_only and index not in BUILT_IN_INDEXES else index

    def shown(self, part: Part, entry: Entry | None) -> Entry | None:
        """Return the entry that the view shows; None if the object is not selected."""
        if entry is None or (part.mark and (part.mark, "") not in entry.values):
            return None
        if self.metadata_only and not part.table.metadata_only:
            return PartialEntry(entry, part.table)
        return entry

    # The interface of Table.

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
        """Return the selected entries of each part."""
        found = []
        for part in self.parts:
            for entry in entries_of(part):
                shown = self.shown(part, entry)
                if shown is not None:
                    found.append(shown)
        return found

    def unreadable(self) -> list[Unreadable]:
        return [
            unreadable
            for part in self.parts
            for unreadable in part.table.unreadable()
            if self._may_be_selected(part, unreadable)
        ]

    @property
    def has_unreadable(self) -> bool:
        return any(part.table.has_unreadable for part in self.parts) and bool(self.unreadable())

    def unreadable_at(self, key: Key) -> Unreadable | None:
        part = self.part_of(key)
        if part is None:
            return None
        found = part.table.unreadable_at(key)
        return found if found is not None and self._may_be_selected(part, found) else None

    def object_of(self, entry: Entry) -> Object:
        if isinstance(entry, PartialEntry):
            partial: Object = entry.decoded  # type: ignore[assignment]
            return partial
        return (self.part_of(entry.key) or self.parts[0]).table.object_of(entry)

    def _may_be_selected(self, part: Part, unreadable: Unreadable) -> bool:
        """Report whether an unreadable object, or its last readable version, may be selected."""
        if not part.mark or (part.mark, "") in unreadable.values or (part.mark, UNREADABLE_VALUE) in unreadable.values:
            return True
        known = part.table.get(unreadable.key)
        return known is not None and (part.mark, "") in known.values


AnyTable = Table | View


def tables_of(table: AnyTable) -> tuple[Table, ...]:
    """Return the tables behind it, which informers write."""
    return (table,) if isinstance(table, Table) else tuple(part.table for part in table.parts)
