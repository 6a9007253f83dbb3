"""Listers, with which reconcilers read the objects of a resource."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Generic

from kcm.protocols.arguments import check_type
from kcm.protocols.models import as_object
from kcm.protocols.objects import Key, Object, split_key
from kcm.protocols.resources import Resource
from kcm.runtime.tables.entry import Unreadable
from kcm.runtime.tables.ineffective import IneffectivePatches
from kcm.runtime.tables.overlay import AnyOverlay
from kcm.runtime.tables.selection import WHOLE, Selection
from kcm.runtime.tables.table import FURTHER_OWNER, NAMESPACE, OWNER, UNBLOCKED_OWNER, Entry, owner_value
from kcm.runtime.tables.view import AnyTable

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    M = TypeVar("M", default=Object)
else:
    from typing import TypeVar

    M = TypeVar("M")


class Lister(Generic[M]):
    """Reader of one resource through an overlay. The objects that it returns must not be modified.

    M: type of the objects: maps, unless the resource names a model; see runtime/tables/typed.py.
    """

    __slots__ = ("_object_of", "_overlay", "_table", "ineffective", "resource")

    def __init__(self, overlay: AnyOverlay, ineffective: IneffectivePatches | None = None) -> None:
        """Read through the overlay. ineffective: patches of the controller, for the steps that write."""
        self.ineffective = ineffective if ineffective is not None else IneffectivePatches()
        self._overlay: AnyOverlay = overlay
        self._table: AnyTable = overlay.table
        self.resource: Resource[M] = overlay.table.resource
        self._object_of: Callable[[Entry], M] = overlay.table.object_of  # type: ignore[assignment]

    @property
    def maps(self) -> Lister[Object]:
        """Return a lister of the same objects as maps."""
        return self  # type: ignore[return-value]

    def map_of(self, obj: M | Mapping[str, Any]) -> Object:
        """Convert an object of this lister to a map with all fields that the server sent."""
        return as_object(obj)

    def returned(self, obj: Object) -> M:
        """Convert a map to the type of objects that the lister returns."""
        return obj  # type: ignore[return-value]

    @property
    def synced(self) -> bool:
        """Report whether its table contains a complete list."""
        return self._table.synced

    @property
    def version(self) -> int:
        """Return the resourceVersion that its table has reached."""
        return self._table.version

    @property
    def metadata_only(self) -> bool:
        return self._table.metadata_only

    @property
    def selection(self) -> Selection:
        """Return the selection of its objects; str() describes it for messages: "in shop, with app=web"."""
        return self._table.selection

    def selects(self, obj: Mapping[str, Any]) -> bool:
        """Report whether the lister would show this object, given as a map. See Watch."""
        selection = self._table.selection
        return selection is WHOLE or selection.selects(dict(obj))

    def get(self, key: Key) -> M | None:
        entry = self._overlay.get(key)
        return None if entry is None else self._object_of(entry)

    def objects(self, namespace: str | None = None) -> list[M]:
        """Return all objects, or those of one namespace, in undefined order."""
        return [self._object_of(entry) for entry in self.entries(namespace)]

    def owned_by(self, uid: str) -> list[M]:
        """Return the objects whose controller has this UID."""
        return [self._object_of(entry) for entry in self.entries_owned_by(uid)]

    def orphans(self, namespace: str) -> list[M]:
        """Return the objects of a namespace that have no controller."""
        return [self._object_of(entry) for entry in self.orphan_entries(namespace)]

    def indexed(self, index: str, value: str) -> list[M]:
        """Return the objects with this value in an index of a spec. Raises LookupError for an unknown index."""
        return [self._object_of(entry) for entry in self._overlay.indexed(index, value)]

    # The same as entries: nothing is decoded, and `entry.facts` is available.

    def entry(self, key: Key) -> Entry | None:
        return self._overlay.get(key)

    def entries(self, namespace: str | None = None) -> list[Entry]:
        return self._overlay.entries() if namespace is None else self._overlay.indexed(NAMESPACE, namespace)

    def watched_entries(self) -> list[Entry]:
        """Return the entries of the table, without own writes that no watch has shown yet. Any thread may call this."""
        return self._table.entries()

    def indexed_entries(self, index: str, value: str) -> list[Entry]:
        return self._overlay.indexed(index, value)

    def entries_owned_by(self, uid: str) -> list[Entry]:
        return self._overlay.indexed(OWNER, uid)

    def dependent_entries(self, uid: str) -> list[Entry]:
        """Return the entries of objects with an owner reference to this UID, as controller or not."""
        return self.entries_owned_by(uid) + self._overlay.indexed(FURTHER_OWNER, uid)

    def blocks(self, entry: Entry, uid: str) -> bool:
        """Report whether the object blocks the foreground deletion of the owner with this UID (blockOwnerDeletion)."""
        return (UNBLOCKED_OWNER, uid) not in entry.values

    def orphan_entries(self, namespace: str) -> list[Entry]:
        return self._overlay.indexed(OWNER, owner_value(namespace=namespace, controller=None))

    def object_of(self, entry: Entry) -> M:
        return self._object_of(entry)

    # Unreadable objects: existing objects with an invalid time, or a number as a label. The methods above return the
    # last readable version, or omit an object that was never readable.

    def unreadable(self, namespace: str | None = None) -> list[Unreadable]:
        """Return all unreadable objects, or those of one namespace."""
        found = self._table.unreadable()
        return found if namespace is None else [each for each in found if split_key(each.key)[0] == namespace]

    def is_unreadable(self, key: Key) -> bool:
        return self._table.unreadable_at(key) is not None

    def first_unreadable(self, namespace: str, *, owner: str) -> Unreadable | None:
        """Return an unreadable object of the namespace that the owner has or could adopt, else None.

        owner: its uid. While there is such an object, the number of the owner's objects is unknown.
        """
        return next((each for each in self.unreadable(namespace) if each.may_be_of(owner)), None)

    def age(self, now: float) -> float:
        """Return the seconds since the server last sent data on the watch; infinite if it never did."""
        age = self._table.age(now)
        return inf if age is None else age

    def require(self, key: Key) -> None:
        """Raise UnreadableError if the object of this key cannot be read."""
        found = self._table.unreadable_at(key)
        if found is not None:
            raise UnreadableError(self.resource, found)


def check_lister(step: str, given: object) -> None:
    """Raise TypeError if the argument is not a lister, for example the Resource that it lists."""
    check_type(step, given, Lister, "a lister, as tables[CONFIGMAPS]")


class UnreadableError(RuntimeError):
    """A required object exists, but cannot be read. The key is retried later."""

    def __init__(self, resource: Resource, unreadable: Unreadable) -> None:
        super().__init__(f"{resource} {unreadable.key} cannot be read: {unreadable.why}")
