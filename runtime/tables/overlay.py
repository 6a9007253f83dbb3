"""Read your own writes: a controller's thin layer over the tables, and the listers that read through it.

A write's outcome is put here before the reconciler goes on, and hides the table's state until the table has reached
its resourceVersion. So no reconciler needs expectations, and none acts twice because a watch was late. An overlay
belongs to one controller and is used on its thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from kcm.protocols.objects import Key, decode_object, encode_object, key_of, partial_metadata
from kcm.protocols.resources import Resource
from kcm.protocols.versions import own_state, parse_version
from kcm.protocols.watch_lines import strip
from kcm.runtime.tables.entry import Unreadable
from kcm.runtime.tables.ineffective import IneffectivePatches
from kcm.runtime.tables.lister import Lister, UnreadableError
from kcm.runtime.tables.table import Entry, Table
from kcm.runtime.tables.typed import TypedLister
from kcm.runtime.tables.view import AnyTable, Part, View

__all__ = ["Lister", "Overlay", "TableMissingError", "Tables", "UnreadableError"]

M = TypeVar("M")


class _Written(NamedTuple):
    """The object as the server returned it for our write."""

    entry: Entry
    epoch: int


class _Tombstone(NamedTuple):
    """The object with this uid is gone. version: the newest that we have seen of it."""

    uid: str
    version: int
    epoch: int


class Unseen(NamedTuple):
    """What we saw by our own write, and what took its place: a change that maybe no watch event shows.

    The table may have gone from the state before our write to that after another's at once: by a list, or by an
    informer that failed. Whoever had to hear of that change by what we wrote does not hear of it: a slice that was made
    for a Service, and given to another manager; a pod that was adopted, and deleted.

    before: as we wrote it; None if our write hid it. after: what the table shows; None if it is gone, or another object
    has its name.
    """

    before: Entry | None
    after: Entry | None


class Overlay:
    """Our own writes to one resource that its table does not show yet.

    unseen: of writes that others have followed. The driver of the reconciler enqueues from this list, and empties it.
    """

    __slots__ = ("_own", "table", "unseen")

    def __init__(self, table: Table) -> None:
        self.table = table
        self.unseen: list[Unseen] = []
        self._own: dict[Key, _Written | _Tombstone] = {}

    def __len__(self) -> int:
        return len(self._own)

    def wrote(self, raw: bytes) -> Entry:
        """A create, update or patch returned this object. Raises ValueError if it has no identity.

        Returns its entry, or a later one of the table's.
        """
        shown = self._shown(raw)
        if shown is not None:
            return shown
        obj = decode_object(raw)
        of_table = encode_object(partial_metadata(obj)) if self.table.metadata_only else strip(obj)
        entry = self.table.make_entry(obj, of_table)
        meta = obj["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers") and meta.get("deletionGracePeriodSeconds") == 0:
            self.deleted(entry.key, entry.uid, version=entry.resource_version)  # this response was its last state
        elif self._table_is_behind(entry.resource_version, entry.key):
            before = self._own.get(entry.key)
            self._own[entry.key] = _Written(entry, self.table.epoch)
            if isinstance(before, _Written):
                self.table.forget_decoded(before.entry)
            if not self.table.metadata_only:
                self.table.foresee(entry)
        return entry

    def _shown(self, raw: bytes) -> Entry | None:
        """Where the table has this state of the object, or a later one: a third of our writes, in a burst. An object
        that is being deleted is looked at: this response may be its end.
        """
        state = own_state(raw, until=self.table.version)
        if state is None:
            return None
        known = self.table.get(state.key)
        if known is None or known.uid != state.uid or known.resource_version < state.version:
            return None
        return None if b'"deletionTimestamp"' in raw else known

    def deleted(self, key: Key, uid: str, *, version: int = 0) -> None:
        """A delete returned a Status or NotFound: the object with this uid is gone."""
        own = self._own.get(key)
        if isinstance(own, _Written) and own.entry.uid == uid:
            version = max(version, own.entry.resource_version)
        known = self.table.get(key)
        if known is not None and known.uid == uid:
            version = max(version, known.resource_version)
        self._own[key] = _Tombstone(uid, version, self.table.epoch)

    def prune(self) -> None:
        """Drop the writes that the table shows by now."""
        for key in list(self._own):
            self._current(key)

    def get(self, key: Key) -> Entry | None:
        known = self.table.get(key)
        if not self._own:
            return known
        own = self._current(key)
        if own is None:
            return self.table.get(key)
        if isinstance(own, _Written):
            return own.entry
        return None if known is None or known.uid == own.uid else known

    def indexed(self, index: str, value: str) -> list[Entry]:
        entries = self.table.indexed(index, value)
        return self._through(entries, (index, value)) if self._own else entries

    def entries(self) -> list[Entry]:
        entries = self.table.entries()
        return self._through(entries, None) if self._own else entries

    def _through(self, entries: list[Entry], wanted: tuple[str, str] | None) -> list[Entry]:
        hidden: dict[Key, _Written | _Tombstone] = {}
        for key in list(self._own):
            own = self._current(key)
            if own is not None:
                hidden[key] = own
        shown = []
        for entry in entries:
            own = hidden.get(entry.key)
            if own is None or (isinstance(own, _Tombstone) and own.uid != entry.uid):
                shown.append(entry)
        shown += [
            own.entry
            for own in hidden.values()
            if isinstance(own, _Written) and (wanted is None or wanted in own.entry.values)
        ]
        return shown

    def _table_is_behind(self, version: int, key: Key) -> bool:
        known = self.table.get(key)
        return self.table.version < version and (known is None or known.resource_version < version)

    def _current(self, key: Key) -> _Written | _Tombstone | None:
        """Our write that is newer than the table's state, else None; an older one is dropped."""
        own = self._own.get(key)
        if own is None:
            return None
        if own.epoch == self.table.epoch:
            if isinstance(own, _Written):
                if self._table_is_behind(own.entry.resource_version, key):
                    return own
            else:
                known = self.table.get(key)
                if self.table.version < own.version or (known is not None and known.uid == own.uid):
                    return own
        del self._own[key]
        if isinstance(own, _Written):
            shown = self.table.get(key)
            if shown is not own.entry:
                self.table.forget_decoded(own.entry)
            if shown is None or shown.uid != own.entry.uid:
                self.unseen.append(Unseen(own.entry, None))
            elif shown.resource_version != own.entry.resource_version:
                self.unseen.append(Unseen(own.entry, shown))
        return None


class _Left(NamedTuple):
    """We wrote it out of what the view selects. version: of that write."""

    version: int
    epoch: int


class ViewOverlay:
    """Our own writes over a View: an Overlay over each of its tables.

    What we write out of the selection is hidden at once, as the watch will hide it. What is in no namespace of the view
    does not concern it.
    """

    __slots__ = ("_left", "_overlays", "_unseen", "table")

    def __init__(self, view: View) -> None:
        self.table = view
        self._unseen: list[Unseen] = []
        self._overlays = {part.namespace: Overlay(part.table) for part in view.parts}
        self._left: dict[Key, _Left] = {}

    def __len__(self) -> int:
        return len(self._left) + sum(map(len, self._overlays.values()))

    @property
    def unseen(self) -> list[Unseen]:
        """As Overlay.unseen, in the eyes of who sees what is selected."""
        for part in self.table.parts:
            of_part = self._overlays[part.namespace].unseen
            self._unseen += [Unseen(one.before, self.table.shown(part, one.after)) for one in of_part]
            of_part.clear()
        return self._unseen

    def wrote(self, raw: bytes) -> Entry | None:
        """As Overlay.wrote. None if the object is not selected."""
        obj = decode_object(raw)
        part = self.table.part_of(key_of(obj))
        if part is None:
            return None
        if self.table.selection.selects(obj):
            entry = self._overlays[part.namespace].wrote(raw)
            self._left.pop(entry.key, None)
            return entry
        version = parse_version(obj["metadata"].get("resourceVersion"))
        if version is None:
            raise ValueError("metadata.resourceVersion is no number")
        self._left[key_of(obj)] = _Left(version, part.table.epoch)
        return None

    def deleted(self, key: Key, uid: str, *, version: int = 0) -> None:
        part = self.table.part_of(key)
        if part is not None:
            self._overlays[part.namespace].deleted(key, uid, version=version)

    def prune(self) -> None:
        for overlay in self._overlays.values():
            overlay.prune()
        for key, left in list(self._left.items()):
            part = self.table.part_of(key)
            if part is None or part.table.version >= left.version or part.table.epoch != left.epoch:
                del self._left[key]
                back = None if part is None else self._shown(part, part.table.get(key))
                if back is not None:
                    self._unseen.append(Unseen(None, back))

    def get(self, key: Key) -> Entry | None:
        part = self.table.part_of(key)
        return None if part is None else self._shown(part, self._overlays[part.namespace].get(key))

    def indexed(self, index: str, value: str) -> list[Entry]:
        name = self.table.index_name(index)
        return self._all(lambda _part, overlay: overlay.indexed(name, value))

    def entries(self) -> list[Entry]:
        return self._all(lambda part, overlay: overlay.indexed(part.mark, "") if part.mark else overlay.entries())

    def _all(self, entries_of: Callable[[Part, Overlay], Iterable[Entry]]) -> list[Entry]:
        found = (
            self._shown(part, entry)
            for part in self.table.parts
            for entry in entries_of(part, self._overlays[part.namespace])
        )
        return [entry for entry in found if entry is not None]

    def _shown(self, part: Part, entry: Entry | None) -> Entry | None:
        if entry is not None and self._left:
            left = self._left.get(entry.key)
            if left is not None and entry.resource_version <= left.version and part.table.epoch == left.epoch:
                return None
        return self.table.shown(part, entry)


AnyOverlay = Overlay | ViewOverlay


def overlay_of(table: AnyTable) -> AnyOverlay:
    return Overlay(table) if isinstance(table, Table) else ViewOverlay(table)


class TableMissingError(KeyError):
    """A discovered resource has no table, or one that is not synced. The key is retried once there may be one."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError shows the repr


class Tables:
    """All tables that a controller reads, each through its overlay. `tables[PODS]` is the lister of pods.

    Static tables, which its spec names, are there as long as it runs. Those of discovered resources come and go.
    """

    def __init__(self, tables: Mapping[str, AnyTable], *, discovers: bool = False) -> None:
        """tables: the static ones by Resource.id. discovers: the controller has a `Discovered`."""
        self._overlays = {resource_id: overlay_of(table) for resource_id, table in tables.items()}
        self.ineffective = IneffectivePatches()
        self._listers = {
            resource_id: Lister(overlay, self.ineffective) for resource_id, overlay in self._overlays.items()
        }
        self._typed: dict[tuple[str, type], TypedLister[Any]] = {}  # those that were asked for
        self._static = frozenset(tables)
        self._discovers = discovers
        self._arrived: dict[str, Lister] = {}
        self._by_kind: dict[tuple[str, str], Lister] = {}  # of discovered resources that can be read, by group and kind

    def __getitem__(self, resource: Resource[M]) -> Lister[M]:
        """The lister of this resource: of models, if the resource names one, else of maps.

        Raises KeyError for a resource that the controller's spec neither watches nor reads; its subclass
        TableMissingError for a discovered resource that cannot be read now.
        """
        if not isinstance(resource, Resource):
            raise TypeError(f"tables[…] takes a Resource(version=…, plural=…, kind=…), not {resource!r:.80}")
        lister = self._listers.get(resource.id)
        if lister is None and self._discovers:
            raise TableMissingError(f"there is no table of {resource.id}: it is not served, or not selected")
        if lister is None:
            raise KeyError(f"{resource.id} is neither watched nor read by this controller: see its ControllerSpec")
        if not self.is_readable(resource.id):
            raise TableMissingError(f"the table of {resource.id} is not synced")
        if resource.model is not None:
            return self._typed_lister(resource, resource.model, lister)
        return lister  # type: ignore[return-value]

    def _typed_lister(self, resource: Resource[M], model: type[M], maps: Lister) -> TypedLister[M]:
        """One for each model, as long as the table is the same."""
        known = self._typed.get((resource.id, model))
        if known is None or known.maps is not maps:
            known = self._typed[resource.id, model] = TypedLister(maps, resource, model)
        return known

    @property
    def has_models(self) -> bool:
        """Whether one of its resources was asked for as a model."""
        return bool(self._typed)

    def misread(self) -> Iterable[tuple[Resource, Unreadable]]:
        """What is there, and could not be read as a model when it was last asked for."""
        for lister in self._typed.values():
            for one in lister.misread():
                yield lister.resource, one

    def is_readable(self, resource_id: str) -> bool:
        return resource_id in self._static or resource_id in self._arrived

    def discovered(self) -> tuple[Resource, ...]:
        """The resources that were found by discovery and can be read."""
        return tuple(lister.resource for resource_id, lister in self._listers.items() if resource_id in self._arrived)

    def arriving(self) -> tuple[Resource, ...]:
        """The resources that were found by discovery and cannot be read yet."""
        there = (one for one in self._listers.items() if one[0] not in self._static and one[0] not in self._arrived)
        return tuple(lister.resource for _, lister in there)

    def of_kind(self, api_version: str, kind: str) -> Lister | None:
        """The discovered resource that an owner reference names, whatever the version; None where none can be read."""
        return self._by_kind.get((api_version.rpartition("/")[0], kind))

    def dependents(self, uid: str) -> list[tuple[Lister, Entry]]:
        """Objects with an owner reference to this uid, of all discovered resources that can be read."""
        found: list[tuple[Lister, Entry]] = []
        for lister in self._arrived.values():
            found.extend((lister, entry) for entry in lister.dependent_entries(uid))
        return found

    def has_dependents(self, uid: str) -> bool:
        return any(lister.dependent_entries(uid) for lister in self._arrived.values())

    def overlay(self, resource_id: str) -> AnyOverlay | None:
        return self._overlays.get(resource_id)

    def overlays(self) -> Mapping[str, AnyOverlay]:
        return self._overlays

    def has_unreadable(self) -> bool:
        """Whether one of them has an object that cannot be read. Asked before each write."""
        return any(overlay.table.has_unreadable for overlay in self._overlays.values())

    @property
    def static(self) -> frozenset[str]:
        """By Resource.id."""
        return self._static

    # For the driver of the reconciler.

    def add(self, table: Table) -> None:
        """The table of a discovered resource is there; it cannot be read before it has `arrived`."""
        self.remove(table.resource.id)
        overlay = self._overlays[table.resource.id] = Overlay(table)
        self._listers[table.resource.id] = Lister(overlay, self.ineffective)

    def arrived(self, resource_id: str) -> None:
        """It is synced, and shows what was written under the controller's name before."""
        lister = self._arrived[resource_id] = self._listers[resource_id]
        self._by_kind[lister.resource.group, lister.resource.kind] = lister

    def remove(self, resource_id: str) -> None:
        """Raises ValueError for a static one."""
        if resource_id in self._static:
            raise ValueError(f"the table of {resource_id} is static")
        self._overlays.pop(resource_id, None)
        lister = self._listers.pop(resource_id, None)
        self._arrived.pop(resource_id, None)
        if lister is not None and self._by_kind.get(of := (lister.resource.group, lister.resource.kind)) is lister:
            del self._by_kind[of]
