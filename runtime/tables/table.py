"""Tables: the objects of one resource, as an informer has received them. One writer, many readers, no locks.

Only the informer of a resource writes its Table. Other actors read it on their own threads: a read is one operation on
a dict, atomic under the GIL, and an Entry in a table never changes. Objects stay JSON bytes, which are compressed in
large tables. They are decoded on demand, and a bounded number of decoded objects is cached. Fields that many
reconcilers read of every object (a pod's phase, readiness, node) are derived once, as `facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcm.protocols.objects import (
    Key,
    Object,
    OwnerRef,
    controller_of,
    decode_object,
    finalizers_of,
)
from kcm.protocols.resources import Resource
from kcm.protocols.versions import ObjectVersion, parse_version
from kcm.runtime.tables.audience import Audience
from kcm.runtime.tables.decoded import DecodedEntries
from kcm.runtime.tables.entry import FURTHER_OWNER, OWNER, UNBLOCKED_OWNER, Entry, Unreadable
from kcm.runtime.tables.selection import WHOLE, Selection

if TYPE_CHECKING:
    from kcm.runtime.tables.compression import Compressor

__all__ = [
    "BUILT_IN_INDEXES",
    "FURTHER_OWNER",
    "NAMESPACE",
    "OWNER",
    "UNBLOCKED_OWNER",
    "UNREADABLE_VALUE",
    "Entry",
    "IndexValues",
    "StaleWriterError",
    "Table",
    "TableWriter",
    "owner_value",
]

IndexValues = Callable[[Object], Iterable[str]]


def owner_value(*, namespace: str, controller: OwnerRef | None) -> str:
    """Return the value in the OWNER index: the controller's UID, or one value per namespace for orphans."""
    return controller.uid if controller is not None else f"orphans of {namespace}"


def _further_ownership(references: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield (index, uid) of the further owners, and of the owners whose deletion the object does not block."""
    blocked = {reference.get("uid", "") for reference in references if reference.get("blockOwnerDeletion")}
    for reference in references:
        uid = reference.get("uid", "")
        if not reference.get("controller"):
            yield FURTHER_OWNER, uid
        if uid not in blocked:
            yield UNBLOCKED_OWNER, uid


class _State:
    """Consistent entries and indexes. A relist builds a new state and swaps it in.

    unreadable: objects that cannot be read. `entries` contains the last readable version of such an object.
    """

    __slots__ = ("entries", "indexes", "unreadable")

    def __init__(self) -> None:
        self.entries: dict[Key, Entry] = {}
        self.indexes: dict[tuple[str, str], dict[Key, Entry]] = {}  # (index, value) → entries by key
        self.unreadable: dict[Key, Unreadable] = {}

    def put(self, entry: Entry) -> Entry | None:
        if self.unreadable:
            self.unreadable.pop(entry.key, None)
        previous = self.entries.get(entry.key)
        self.entries[entry.key] = entry
        if previous is not None and previous.values != entry.values:
            self._unindex(previous, keep=entry.values)
        for value in entry.values:
            bucket = self.indexes.get(value)
            if bucket is None:
                bucket = self.indexes[value] = {}
            bucket[entry.key] = entry
        return previous

    def fill(self, entries: Iterable[Entry]) -> None:
        """Fill an empty state with a complete list, in which each key occurs once."""
        known, indexes = self.entries, self.indexes
        buckets: dict[tuple[tuple[str, str], ...], list[dict[Key, Entry]]] = {}  # many objects share few values
        for entry in entries:
            known[entry.key] = entry
            found = buckets.get(entry.values)
            if found is None:
                found = buckets[entry.values] = [indexes.setdefault(value, {}) for value in entry.values]
            for bucket in found:
                bucket[entry.key] = entry

    def remove(self, key: Key) -> Entry | None:
        if self.unreadable:
            self.unreadable.pop(key, None)
        previous = self.entries.pop(key, None)
        if previous is not None:
            self._unindex(previous, keep=())
        return previous

    def _unindex(self, entry: Entry, *, keep: tuple[tuple[str, str], ...]) -> None:
        for value in entry.values:
            if value in keep:
                continue
            bucket = self.indexes.get(value)
            if bucket is not None:
                bucket.pop(entry.key, None)
                if not bucket:
                    del self.indexes[value]


NAMESPACE = "namespace"
FORESEEN = 1024  # entries at most
FIRST_LIST = 20_000  # number of entries that a first list is expected to have at most
SPARE = 200  # shared values that are kept beyond those of the entries
BUILT_IN_INDEXES = (NAMESPACE, OWNER, FURTHER_OWNER, UNBLOCKED_OWNER)
UNREADABLE_VALUE = "?"


class Foreseen(NamedTuple):
    """Version of an object that a controller has received before the watch showed it.

    writer: subscriber whose write made this version; "" if that is not certain.
    """

    entry: Entry
    writer: str


class Table:
    """Objects of one resource, as of `version`.

    indexes: further indexes by name; each function returns the values of an object.
    derive: returns the `facts` of an entry.
    decoded_bound: number of decoded objects to cache, see decoded.py.
    freeze: wraps the objects that `object_of` returns, so that a test detects a reconciler that modifies an object.

    selection: the objects to contain. An object that leaves the selection is deleted from the table.
    id: Resource.id, extended if the selection is restricted.
    metadata_only: the objects are PartialObjectMetadata, even if the server sends more.
    synced: the table contains a complete list.
    version: the newest resourceVersion of a list, event or bookmark.
    heard: the last time the server sent data, by the clock's monotonic().
    failed: why the last list or watch failed, and when; None if none did.
    lists: number of complete lists that it was replaced by.
    epoch: how often the server's versions went backwards (a restored backup), which invalidates older versions.
    """

    def __init__(
        self,
        resource: Resource,
        *,
        indexes: Mapping[str, IndexValues] | None = None,
        derive: Callable[[Object], Any] | None = None,
        decoded_bound: int = 1024,
        freeze: Callable[[Object], Object] | None = None,
        metadata_only: bool = False,
        selection: Selection = WHOLE,
    ) -> None:
        self.resource, self.selection = resource, selection
        self.id = selection.id_of(resource)
        self.metadata_only = metadata_only or selection.metadata_only
        self.synced = False
        self.version = 0
        self.heard: float | None = None
        self.failed: tuple[str, float] | None = None
        self.lists = self.epoch = 0
        self._state = _State()
        self._indexes = dict(indexes or {})
        self._derive, self._freeze = derive, freeze
        self._decoded = DecodedEntries(decoded_bound)
        self._compressor: Compressor | None = None
        self._writer: TableWriter | None = None
        self._audience = Audience()
        self._owners: dict[OwnerRef, OwnerRef] = {}  # shares one OwnerRef among the pods of an owner
        self._values: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}  # shares equal Entry.values
        self._most_shared = SPARE  # size of _owners and _values at which _limit_shared is called
        self._foreseen: dict[ObjectVersion, Foreseen] = {}

    def add_indexes(self, indexes: Mapping[str, IndexValues]) -> None:
        """Add indexes, by name. Raises ValueError once there are entries, or if another index has the name."""
        if self._state.entries:
            raise ValueError(f"the table of {self.resource} is in use")
        for name, values_of in indexes.items():
            if self._indexes.setdefault(name, values_of) is not values_of:
                raise ValueError(f"two different indexes of {self.resource} are named {name!r}")

    @property
    def index_names(self) -> tuple[str, ...]:
        return (*self._indexes, *BUILT_IN_INDEXES)

    def __str__(self) -> str:
        """Describe the table for messages: "pods in shop, with app=web"."""
        return f"{self.resource} {self.selection}".rstrip()

    def values_of_unreadable(self, obj: Any) -> tuple[tuple[str, str], ...]:
        """Return the (index, value) pairs of an unreadable object.

        An index whose function raises gets UNREADABLE_VALUE: the object may belong to any of its values.
        """
        values: list[tuple[str, str]] = []
        for index, values_of in self._indexes.items():
            try:
                values.extend([(index, value) for value in values_of(obj)])
            except (ValueError, TypeError, KeyError, AttributeError):
                values.append((index, UNREADABLE_VALUE))
        return tuple(values)

    # Reading: any thread.

    def __len__(self) -> int:
        return len(self._state.entries)

    def get(self, key: Key) -> Entry | None:
        return self._state.entries.get(key)

    def entries(self) -> list[Entry]:
        return list(self._state.entries.values())

    def indexed(self, index: str, value: str) -> list[Entry]:
        """Return the entries with this value. Raises LookupError that names the existing indexes for an unknown one."""
        bucket = self._state.indexes.get((index, value))
        if bucket:
            return list(bucket.values())
        if index not in self._indexes and index not in BUILT_IN_INDEXES:
            raise LookupError(f"{self.resource} have no index {index!r}, but {', '.join(map(repr, self.index_names))}")
        return []

    def unreadable(self) -> list[Unreadable]:
        """Return the existing objects that cannot be read; see Lister.unreadable."""
        return list(self._state.unreadable.values())

    @property
    def has_unreadable(self) -> bool:
        return bool(self._state.unreadable)

    def unreadable_at(self, key: Key) -> Unreadable | None:
        return self._state.unreadable.get(key)

    def object_of(self, entry: Entry) -> Object:
        """Return the decoded object, which must not be modified."""
        decoded = entry.decoded
        if decoded is None:
            decoded = decode_object(entry.raw)
            if self._freeze is not None:
                decoded = self._freeze(decoded)
            entry.decoded = decoded
            self._decoded.add(entry)
        return decoded

    def decoded_entries(self) -> list[Entry]:
        """Return the entries whose decoded form is cached. Any thread."""
        return self._decoded.entries()

    def forget_decoded(self, entry: Entry) -> None:
        """Drop the cached decoded form of a replaced version."""
        self._decoded.forget(entry)

    def compress(self, entry: Entry) -> bool:
        """Compress the JSON of an entry, if that is worthwhile. Return whether it was.

        Any thread.
        """
        if entry.is_compressed:
            return False
        if self._compressor is None:
            from kcm.runtime.tables.compression import Compressor  # a small cluster has nothing to compress

            self._compressor = Compressor()
        found = self._compressor.compress(entry.raw)
        if found is not None:
            entry.compress(found)
        return found is not None

    def foresee(self, entry: Entry, writer: str = "") -> None:
        """Remember the response to a write, so that its watch event need not be decoded. Any thread.

        writer: subscriber whose write made this version; "" if that is not certain.
        """
        if len(self._foreseen) >= FORESEEN:
            self._foreseen.clear()  # entries whose events came before the response
        self._foreseen[ObjectVersion(entry.key, entry.uid, entry.resource_version)] = Foreseen(entry, writer)

    def age(self, now: float) -> float | None:
        """Return the seconds since the server last sent data, or None if it never did."""
        return None if self.heard is None else max(0.0, now - self.heard)

    def failure(self) -> str:
        """Return why the last list or watch failed; "" if the server has sent data since."""
        if self.failed is None or (self.heard is not None and self.heard > self.failed[1]):
            return ""
        return self.failed[0]

    def make_entry(self, obj: Object, raw: bytes) -> Entry:
        """Return an entry for `put`. Raises ValueError if the name or a numeric resourceVersion is missing.

        Also raises ValueError for a malformed object, with the field of another type. If all fields have the right
        type, the error is that of `derive` or of an index (TypeError, KeyError, AttributeError, ValueError).
        """
        # Called for each version of each object, so `meta` is read without accessor functions.
        meta = obj["metadata"]
        name, namespace = meta.get("name"), meta.get("namespace") or ""
        if not name:
            raise ValueError("metadata.name is missing")
        version = parse_version(meta.get("resourceVersion"))
        if version is None:
            raise ValueError(f"metadata.resourceVersion is not a number: {meta.get('resourceVersion')!r:.80}")
        try:
            controller, values = None, []
            references = meta.get("ownerReferences")
            if references:
                controller = controller_of(obj)
                if controller is not None:
                    controller = self._shared(controller)
                if controller is None or len(references) > 1 or not references[0].get("blockOwnerDeletion"):
                    values = list(_further_ownership(references))
            values.append((OWNER, owner_value(namespace=namespace, controller=controller)))
            if namespace:
                values.append((NAMESPACE, namespace))
            for index, values_of in self._indexes.items():
                values.extend([(index, value) for value in values_of(obj)])
            return Entry(
                key=f"{namespace}/{name}" if namespace else name,
                uid=meta.get("uid") or "",
                resource_version=version,
                raw=raw,
                controller=controller,
                facts=self._derive(obj) if self._derive is not None else None,
                values=self._shared_values(tuple(values)),
                finalizers=finalizers_of(obj) if "finalizers" in meta else (),
            )
        except (TypeError, KeyError, AttributeError, ValueError) as err:
            from kcm.runtime.schema.field_errors import field_error  # few objects are malformed

            found = field_error(self.resource, obj, metadata_only=self.metadata_only)
            if found:
                raise ValueError(found) from err
            raise

    def _shared(self, owner: OwnerRef) -> OwnerRef:
        if len(self._owners) > self._most_shared:
            self._limit_shared()
        return self._owners.setdefault(owner, owner)

    def _shared_values(self, values: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        if len(self._values) > self._most_shared:
            self._limit_shared()
        return self._values.setdefault(values, values)

    def _limit_shared(self) -> None:
        """Discard the shared values if they are many more than the entries: most belong to deleted objects then."""
        # The first list becomes entries only when it is complete.
        expected = 2 * len(self._state.entries) if self.synced else FIRST_LIST
        self._most_shared = expected + SPARE
        if len(self._owners) > self._most_shared:
            self._owners = {}
        if len(self._values) > self._most_shared:
            self._values = {}

    # Writing: the informer alone, through a TableWriter.

    def claim(self) -> TableWriter:
        """Return a new writer. An earlier writer, such as that of a hung informer, can no longer write."""
        self._writer = TableWriter(self)
        return self._writer


class StaleWriterError(RuntimeError):
    """Write by a replaced writer: a later incarnation of the informer owns the table."""


class TableWriter:
    """Writer of a Table. Raises StaleWriterError once another writer has claimed the table.

    Every change is recorded as undelivered in the audience before readers see it, until Audience.delivered is called.
    """

    __slots__ = ("table",)

    def __init__(self, table: Table) -> None:
        self.table = table

    def _own(self) -> Table:
        table = self.table
        if table._writer is not self:
            raise StaleWriterError(f"the table of {table.resource} has a new writer")
        return table

    @property
    def audience(self) -> Audience:
        return self._own()._audience

    def put(self, entry: Entry) -> Entry | None:
        """Set one object, advance to its version, and return the entry before."""
        table = self._own()
        self._owe(entry.key)
        previous = table._state.put(entry)
        if previous is not None:
            table._decoded.forget(previous)
        self.advance(entry.resource_version)
        return previous

    def remove(self, key: Key, version: int) -> Entry | None:
        """Remove one object, advance to the version of its deletion, and return the entry before."""
        table = self._own()
        self._owe(key)
        previous = table._state.remove(key)
        if previous is not None:
            table._decoded.forget(previous)
        self.advance(version)
        return previous

    @property
    def foresees(self) -> bool:
        """Report whether there are foreseen entries that the watch has not shown yet."""
        return bool(self.table._foreseen)

    def foreseen(self, state: ObjectVersion) -> Foreseen | None:
        """Remove and return the foreseen version of an object, or None."""
        return self.table._foreseen.pop(state, None)

    def mark(self, unreadable: Unreadable) -> Entry | None:
        """Record an unreadable object. Its last readable version remains.

        Return the entry of another object that had its name, which is removed, or None.
        """
        table = self._own()
        known = table._state.entries.get(unreadable.key)
        replaced = known if known is not None and unreadable.uid not in ("", known.uid) else None
        if replaced is not None:
            table._audience.owe(replaced)
            table._state.remove(unreadable.key)
        table._state.unreadable[unreadable.key] = unreadable
        self.advance(unreadable.version)
        return replaced

    def replace(self, entries: Iterable[Entry], version: int, unreadable: Iterable[Unreadable] = ()) -> None:
        """Replace the contents with a complete list, atomically."""
        state = _State()
        state.fill(entries)
        state.unreadable.update((each.key, each) for each in unreadable)
        table = self._own()
        if version < table.version:
            table.epoch += 1
        for key, known in table._state.entries.items():
            now = state.entries.get(key)
            if now is None or now.resource_version != known.resource_version or now.uid != known.uid:
                table._audience.owe(known)
        table._state = state
        table._decoded.clear()
        table._foreseen.clear()
        table.version = version
        table.lists += 1
        table.synced = True

    def advance(self, version: int) -> None:
        """Record that the server has sent everything up to this version, for example by a bookmark."""
        table = self._own()
        if version > table.version:
            table.version = version

    def touch(self, now: float) -> None:
        """Record that the server sent data."""
        self._own().heard = now

    def fail(self, why: str, now: float) -> None:
        """Record a failed list or watch."""
        self._own().failed = (why, now)

    def _owe(self, key: Key) -> None:
        table = self._own()
        known = table._state.entries.get(key)
        if known is not None:
            table._audience.owe(known)
