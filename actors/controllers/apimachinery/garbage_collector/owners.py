"""Determination of each owner's state (ownership.OwnerState), from informers, discovery and the API server."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.apimachinery.garbage_collector.absent import AbsentOwners
from kcm.actors.controllers.apimachinery.garbage_collector.items import Item, owner_key, waits_for_dependents
from kcm.actors.controllers.apimachinery.garbage_collector.ownership import Owner, OwnerState, Reference
from kcm.actors.controllers.shared.served_kinds import ServedKinds
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.objects import Key, split_key
from kcm.protocols.resources import Resource
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

SYNC_TIMEOUT = 30.0  # seconds to wait until a new table has synced; after that the table is treated as missing
UNCACHED_CHECK = 5.0  # seconds until an existing owner that is in no table is read live again; doubled each time
UNCACHED_CHECK_MAX = 300.0  # maximum of these delays


class KnownOwners:
    """Determines whether the owners in owner references exist.

    Owners in an informer cache exist. For other owners it caches the results of requests to the API server: the owners
    that are absent, and the owners that exist although no cache contains them.
    """

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables, self._clock = tables, clock
        self._absent = AbsentOwners()
        self._uncached: dict[Item, _UncachedOwner] = {}
        self._served = ServedKinds()
        self._announced: dict[str, float] = {}  # by Resource.id: when its table was announced

    # What is served.

    def update_served(self, resources: Iterable[ServedResource], served: Iterable[ServedResource]) -> None:
        """Record which resources the API server serves, and which of them have informer caches.

        resources: the resources that have a cache, or will have a cache when it has synced
        served: all resources that the server serves
        """
        now = self._clock.monotonic()
        self._announced = {
            resource.resource.id: self._announced.get(resource.resource.id, now) for resource in resources
        }
        self._served.update_served(served)

    def resource_of(self, item: Item) -> Resource | None:
        """Return the resource of an object, in the API version that is served now; None if it is not served."""
        return self._served.resource(item.resource)

    def has_tables(self) -> bool:
        """Report whether discovery has found resources that can be watched."""
        return bool(self._announced)

    def may_still_sync(self, resource_id: str = "") -> bool:
        """Report whether the informer cache of a resource has not synced yet, so that an owner may still appear in it.

        This is assumed for SYNC_TIMEOUT seconds after discovery has found the resource.

        resource_id: Resource.id of the cache; "" for any cache.
        """
        since = self._clock.monotonic() - SYNC_TIMEOUT
        return any(
            self._announced.get(resource.id, since) > since
            for resource in self._tables.arriving()
            if not resource_id or resource.id == resource_id
        )

    def unsynced(self) -> list[Resource]:
        """Return the resources whose informer caches have not synced within SYNC_TIMEOUT."""
        now = self._clock.monotonic()
        return [
            resource
            for resource in self._tables.arriving()
            if now - self._announced.get(resource.id, now) > SYNC_TIMEOUT
        ]

    # Owners in tables.

    def lister_of(self, item: Item) -> Lister | None:
        """Return the lister of the item's kind, in whichever version the kind is watched; None if it is not watched."""
        resource = self.resource_of(item)
        return None if resource is None else self._tables.of_kind(resource.api_version, resource.kind)

    def find(self, item: Item) -> tuple[Lister, Entry] | None:
        """Return the item's object as (lister, entry of the informer cache); None if no cache contains it.

        An object with the same name but another uid is a different object.
        """
        lister = self.lister_of(item)
        entry = None if lister is None else lister.entry(item.key)
        return None if lister is None or entry is None or entry.uid != item.uid else (lister, entry)

    def in_other_namespaces(self, items: Iterable[Item]) -> set[Item]:
        """Return those of the items whose uid belongs to an object of the same kind in another namespace.

        The informer cache of each kind is scanned completely, but only once for all items.
        """
        tables: dict[str, tuple[Lister, dict[str, list[Item]]]] = {}
        for item in items:
            lister = self.lister_of(item)
            if lister is not None and lister.resource.namespaced:
                _, by_uid = tables.setdefault(lister.resource.id, (lister, {}))
                by_uid.setdefault(item.uid, []).append(item)
        return {
            item
            for lister, by_uid in tables.values()
            for entry in lister.entries()
            for item in by_uid.get(entry.uid, ())
            if split_key(entry.key)[0] != split_key(item.key)[0]
        }

    # The owner that a reference names.

    def of(self, item: Key, reference: Reference) -> Owner:
        """Return the owner that an owner reference names, with its state.

        item: key of the object that has the reference.
        """
        api_version, kind = reference.get("apiVersion") or "", reference.get("kind") or ""
        served = self._served.find(api_version, kind)
        if served is None:
            return Owner(
                OwnerState.ABSENT if self._is_absent_in_former_resource(item, reference) else OwnerState.UNKNOWN_KIND
            )
        lister = self._tables.of_kind(api_version, kind)
        resource = served.resource if lister is None else lister.resource
        uid = reference.get("uid") or ""
        owner = Item(resource.id, owner_key(resource, item, reference.get("name") or ""), uid)
        if resource.namespaced and not split_key(item)[0]:
            return Owner(OwnerState.MISPLACED, owner)
        entry = None if lister is None else lister.entry(owner.key)
        if lister is not None and entry is not None and entry.uid == uid:
            return Owner(OwnerState.WAITING if waits_for_dependents(lister, entry) else OwnerState.SOLID, owner)
        if owner in self._absent:
            return Owner(OwnerState.ABSENT, owner)
        uncached = self._uncached.get(owner)
        if uncached is not None:
            return Owner(OwnerState.WAITING if uncached.waits else OwnerState.SOLID, owner)
        return Owner(OwnerState.UNSEEN, owner)

    def _is_absent_in_former_resource(self, item: Key, reference: Reference) -> bool:
        former = self._served.find_former(reference.get("apiVersion") or "", reference.get("kind") or "")
        if former is None:
            return False
        name, uid = reference.get("name") or "", reference.get("uid") or ""
        return Item(former.id, owner_key(former, item, name), uid) in self._absent

    # Results of live reads.

    def is_absent(self, item: Item) -> bool:
        return item in self._absent

    def is_in_other_namespace(self, item: Item) -> bool:
        """Report whether an object in another namespace had this absent owner's uid when the owner was looked up."""
        return self._absent.was_in_other_namespace(item)

    def record_absent(self, items: Iterable[Item]) -> None:
        """Record that these owners do not exist, because the API server has not found them."""
        new = [item for item in items if item not in self._absent]
        in_other_namespaces = self.in_other_namespaces(new)
        for item in new:
            self.discard_uncached(item)
            self._absent.add(item, in_other_namespace=item in in_other_namespaces)

    def record_uncached(self, item: Item, *, waits: bool) -> tuple[bool, float]:
        """Record that an owner exists although no informer cache contains it.

        waits: whether its foreground deletion waits for its dependents.

        Returns (whether this differs from the last record, seconds until the owner must be requested again).
        """
        before = self._uncached.get(item)
        lookups = 0 if before is None else before.lookups + 1
        self._uncached[item] = _UncachedOwner(waits, lookups)
        is_news = before is None or before.waits != waits
        return is_news, min(UNCACHED_CHECK * 2.0 ** min(lookups, 10), UNCACHED_CHECK_MAX)

    def discard_uncached(self, item: Item) -> None:
        """Drop an owner from the recorded owners that exist although no informer cache contains them.

        An informer cache contains it now, or it has no dependents any more.
        """
        self._uncached.pop(item, None)


class _UncachedOwner:
    """Record of an owner that exists although no informer cache contains it.

    waits: whether its foreground deletion waits for its dependents
    lookups: number of requests for it after the first
    """

    __slots__ = ("lookups", "waits")

    def __init__(self, waits: bool, lookups: int) -> None:
        self.waits, self.lookups = waits, lookups
