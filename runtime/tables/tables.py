"""Tables that one controller reads, each through its overlay and its lister."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from kcm.protocols.resources import Resource
from kcm.runtime.tables.entry import Entry, Unreadable
from kcm.runtime.tables.ineffective import IneffectivePatches
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.overlay import AnyOverlay, Overlay, Unseen, overlay_of
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.typed import TypedLister
from kcm.runtime.tables.view import AnyTable

M = TypeVar("M")


class TableMissingError(KeyError):
    """A discovered resource has no table, or its table is not synced. The key is retried when that may have changed."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError shows the repr


class Tables:
    """Tables that a controller reads, each through its overlay. `tables[PODS]` is the lister of pods.

    Static tables, which the controller's spec names, exist as long as the controller runs. Tables of discovered
    resources are added and removed.
    """

    def __init__(self, tables: Mapping[str, AnyTable], *, discovers: bool = False, writer: str = "") -> None:
        """Create the tables of a controller.

        tables: the static tables by Resource.id.
        discovers: the controller's spec contains a `Discovered`.
        writer: the controller's name as a subscriber, see Interest.own_writes.
        """
        self._overlays = {resource_id: overlay_of(table, writer) for resource_id, table in tables.items()}
        self.ineffective = IneffectivePatches()
        self._listers = {
            resource_id: Lister(overlay, self.ineffective) for resource_id, overlay in self._overlays.items()
        }
        self._typed: dict[tuple[str, type], TypedLister[Any]] = {}  # typed listers that were accessed
        self._static = frozenset(tables)
        self._written: set[str] = set()  # ids of overlays that may contain own writes, or changes after them
        self._discovers = discovers
        self._arrived: dict[str, Lister] = {}
        self._by_kind: dict[tuple[str, str], Lister] = {}  # readable discovered resources, by group and kind

    def __getitem__(self, resource: Resource[M]) -> Lister[M]:
        """Return the lister of this resource: of models, if the resource names one, else of maps.

        Raises KeyError for a resource that the controller's spec neither watches nor reads; its subclass
        TableMissingError for a discovered resource that cannot be read now.
        """
        if not isinstance(resource, Resource):
            raise TypeError(f"tables[…] takes a Resource(version=…, plural=…, kind=…), not {resource!r:.80}")
        lister = self._listers.get(resource.id)
        if lister is None and self._discovers:
            raise TableMissingError(f"there is no table of {resource.id}: it is not served, or not selected")
        if lister is None:
            raise KeyError(
                f"{resource.id} is neither watched nor read by this controller: its ControllerSpec needs a Watch in a "
                f"queue, or a Read in `reads`"
            )
        if not self.is_readable(resource.id):
            raise TableMissingError(f"the table of {resource.id} is not synced")
        if resource.model is not None:
            return self._typed_lister(resource, resource.model, lister)
        return lister  # type: ignore[return-value]

    def _typed_lister(self, resource: Resource[M], model: type[M], maps: Lister) -> TypedLister[M]:
        """Return the lister for this model, a new one if the table was replaced."""
        known = self._typed.get((resource.id, model))
        if known is None or known.maps is not maps:
            known = self._typed[resource.id, model] = TypedLister(maps, resource, model)
        return known

    @property
    def has_models(self) -> bool:
        """Report whether a resource was read as a model."""
        return bool(self._typed)

    def misread(self) -> Iterable[tuple[Resource, Unreadable]]:
        """Yield the existing objects that could not be read as a model on the last access."""
        for lister in self._typed.values():
            for unreadable in lister.misread():
                yield lister.resource, unreadable

    def is_readable(self, resource_id: str) -> bool:
        return resource_id in self._static or resource_id in self._arrived

    def discovered(self) -> tuple[Resource, ...]:
        """Return the discovered resources that can be read."""
        return tuple(lister.resource for resource_id, lister in self._listers.items() if resource_id in self._arrived)

    def arriving(self) -> tuple[Resource, ...]:
        """Return the discovered resources that cannot be read yet."""
        return tuple(
            lister.resource for resource_id, lister in self._listers.items() if not self.is_readable(resource_id)
        )

    def of_kind(self, api_version: str, kind: str) -> Lister | None:
        """Return the lister of the discovered resource that an owner reference names, in any version, or None."""
        return self._by_kind.get((api_version.rpartition("/")[0], kind))

    def dependents(self, uid: str) -> list[tuple[Lister, Entry]]:
        """Return the objects with an owner reference to this UID, of all discovered resources that can be read."""
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

    def overlay_to_write(self, resource_id: str) -> AnyOverlay | None:
        """Return an overlay to record an own write in."""
        overlay = self._overlays.get(resource_id)
        if overlay is not None:
            self._written.add(resource_id)
        return overlay

    @property
    def has_written(self) -> bool:
        """Report whether an overlay may contain own writes, or changes after them."""
        return bool(self._written)

    def unseen(self) -> Iterator[tuple[str, list[Unseen]]]:
        """Yield the changes after own writes, by Resource.id. The caller empties the lists.

        Called after each message, so only overlays with own writes are visited.
        """
        for resource_id in [resource_id for resource_id in self._overlays if resource_id in self._written]:
            overlay = self._overlays[resource_id]
            unseen = overlay.unseen
            if unseen:
                yield resource_id, unseen
            elif not len(overlay):
                self._written.discard(resource_id)

    def has_unreadable(self) -> bool:
        """Report whether a table has an unreadable object. Called before each write."""
        return any(overlay.table.has_unreadable for overlay in self._overlays.values())

    @property
    def static(self) -> frozenset[str]:
        """Return the ids of the static tables, Resource.id."""
        return self._static

    # For the driver of the reconciler.

    def add(self, table: Table) -> None:
        """Add the table of a discovered resource. It can be read after a call of `arrived`."""
        self.remove(table.resource.id)
        overlay = self._overlays[table.resource.id] = Overlay(table)
        self._listers[table.resource.id] = Lister(overlay, self.ineffective)

    def arrived(self, resource_id: str) -> None:
        """Make a discovered resource readable: it is synced, and shows the controller's earlier writes."""
        lister = self._arrived[resource_id] = self._listers[resource_id]
        self._by_kind[lister.resource.group, lister.resource.kind] = lister

    def remove(self, resource_id: str) -> None:
        """Remove the table of a discovered resource. Raises ValueError for a static one."""
        if resource_id in self._static:
            raise ValueError(f"the table of {resource_id} is static")
        self._overlays.pop(resource_id, None)
        self._written.discard(resource_id)
        lister = self._listers.pop(resource_id, None)
        self._arrived.pop(resource_id, None)
        if lister is not None and self._by_kind.get(of := (lister.resource.group, lister.resource.kind)) is lister:
            del self._by_kind[of]
