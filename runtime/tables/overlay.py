"""Overlays: a controller reads its own writes in addition to the tables.

The outcome of a write is recorded here before the reconciler continues, and hides the table's state until the table has
reached the resourceVersion of the write. So reconcilers need no expectations (upstream's ControllerExpectations), and
do not act twice because of a late watch. An overlay belongs to one controller and is used on its thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from kcm.protocols.objects import Key, decode_object, encode_object, key_of, partial_metadata
from kcm.protocols.versions import own_state, parse_version
from kcm.protocols.watch_lines import strip
from kcm.runtime.tables.table import Entry, Table
from kcm.runtime.tables.view import AnyTable, Part, View

M = TypeVar("M")


class _Written(NamedTuple):
    """The object that the server returned for a write of this controller."""

    entry: Entry
    epoch: int


class _Tombstone(NamedTuple):
    """Deleted object. version: the newest known resourceVersion of the object."""

    uid: str
    version: int
    epoch: int


class Unseen(NamedTuple):
    """Change from our own write to a later state, for which there may be no watch event.

    A list, or a failed informer, may advance the table from the state before our write to the state after another
    client's write. Then no event maps the object as we wrote it to a key: an EndpointSlice that was created for a
    Service, and assigned to another manager; a pod that was adopted, and deleted.

    before: the object as we wrote it; None if our write hid it.
    after: the object in the table; None if it was deleted, or if another object has its name.
    """

    before: Entry | None
    after: Entry | None


class Overlay:
    """Writes of this controller to one resource that its table does not show yet.

    unseen: changes after our writes. The driver of the reconciler enqueues their keys and empties the list.
    """

    __slots__ = ("_own", "_writer", "table", "unseen")

    def __init__(self, table: Table, writer: str = "") -> None:
        """Create an empty overlay. writer: the controller's name as a subscriber, see Interest.own_writes."""
        self.table, self._writer = table, writer
        self.unseen: list[Unseen] = []
        self._own: dict[Key, _Written | _Tombstone] = {}

    def __len__(self) -> int:
        return len(self._own)

    def wrote(self, raw: bytes, *, made: bool = False) -> Entry:
        """Record the object that a create, update or patch returned, and return its entry or a later one of the table.

        made: whether the write certainly made this version of the object.

        Raises ValueError if the object has no name or resourceVersion.
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
                self.table.foresee(entry, self._writer if made else "")
        return entry

    def _shown(self, raw: bytes) -> Entry | None:
        """Return the table's entry if it has this version of the object or a later one, without decoding the object."""
        # That is the case for a third of the writes in a burst. An object with a deletionTimestamp is decoded, because
        # the response may be its last state.
        state = own_state(raw, until=self.table.version)
        if state is None:
            return None
        known = self.table.get(state.key)
        if known is None or known.uid != state.uid or known.resource_version < state.version:
            return None
        return None if b'"deletionTimestamp"' in raw else known

    def deleted(self, key: Key, uid: str, *, version: int = 0) -> None:
        """Record that the object with this UID was deleted: a delete returned a Status or NotFound."""
        own = self._own.get(key)
        if isinstance(own, _Written) and own.entry.uid == uid:
            version = max(version, own.entry.resource_version)
        known = self.table.get(key)
        if known is not None and known.uid == uid:
            version = max(version, known.resource_version)
        self._own[key] = _Tombstone(uid, version, self.table.epoch)

    def prune(self) -> None:
        """Drop the writes that the table shows."""
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
        """Return our write if it is newer than the table's state, else drop it and return None."""
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
    """Object that our write removed from the selection of the view. version: of that write."""

    version: int
    epoch: int


class ViewOverlay:
    """Writes of this controller to a View: an Overlay over each of its tables.

    An object that our write removes from the selection is hidden at once, as the watch will hide it. Objects outside of
    the view's namespaces are ignored.
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
        """Return changes as Overlay.unseen does, of the selected objects."""
        for part in self.table.parts:
            of_part = self._overlays[part.namespace].unseen
            self._unseen += [Unseen(change.before, self.table.shown(part, change.after)) for change in of_part]
            of_part.clear()
        return self._unseen

    def wrote(self, raw: bytes, *, made: bool = False) -> Entry | None:  # noqa: ARG002  # events go to all watches
        """Record the object as Overlay.wrote. Return None if it is not selected."""
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
            raise ValueError("metadata.resourceVersion is not a number")
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


def overlay_of(table: AnyTable, writer: str = "") -> AnyOverlay:
    return Overlay(table, writer) if isinstance(table, Table) else ViewOverlay(table)
