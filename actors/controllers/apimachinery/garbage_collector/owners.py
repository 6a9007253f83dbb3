"""What is known of owners: by tables, by discovery, and by the server's own answers where no table shows them."""

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

ARRIVES_WITHIN = 30.0  # seconds that a new table is waited for; then what is there has to do
UNSHOWN_CHECK = 5.0  # seconds until an owner that exists is looked for again in the tables, or live; doubled each time
UNSHOWN_CHECK_MOST = 300.0


class KnownOwners:
    """Remembers which owners do not exist, and those that exist though no table shows them."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables, self._clock = tables, clock
        self._absent = AbsentOwners()
        self._unshown: dict[Item, _Unshown] = {}
        self._served = ServedKinds()
        self._announced: dict[str, float] = {}  # by Resource.id: since when there is a table to wait for

    # What is served.

    def follow(self, resources: Iterable[ServedResource], served: Iterable[ServedResource]) -> None:
        """resources: those that there are tables of, or will be. served: all."""
        now = self._clock.monotonic()
        self._announced = {
            resource.resource.id: self._announced.get(resource.resource.id, now) for resource in resources
        }
        self._served.follow(served)

    def resource_of(self, item: Item) -> Resource | None:
        """As it is served now; None if it is not."""
        return self._served.resource(item.resource)

    def has_tables(self) -> bool:
        """Discovery has found something to watch."""
        return bool(self._announced)

    def may_still_arrive(self, resource_id: str = "") -> bool:
        """Whether this table, or any, is on its way, and not for too long."""
        since = self._clock.monotonic() - ARRIVES_WITHIN
        return any(
            self._announced.get(resource.id, since) > since
            for resource in self._tables.arriving()
            if not resource_id or resource.id == resource_id
        )

    def late(self) -> list[Resource]:
        """Those whose tables are waited for no more."""
        now = self._clock.monotonic()
        return [
            resource
            for resource in self._tables.arriving()
            if now - self._announced.get(resource.id, now) > ARRIVES_WITHIN
        ]

    # What tables show.

    def lister_of(self, item: Item) -> Lister | None:
        """The table of its kind, whatever the version."""
        resource = self.resource_of(item)
        return None if resource is None else self._tables.of_kind(resource.api_version, resource.kind)

    def shown(self, item: Item) -> tuple[Lister, Entry] | None:
        """The object, if a table shows it."""
        lister = self.lister_of(item)
        entry = None if lister is None else lister.entry(item.key)
        return None if lister is None or entry is None or entry.uid != item.uid else (lister, entry)

    def elsewhere(self, items: Iterable[Item]) -> set[Item]:
        """Return those of whose kind an object with the same uid is in another namespace.

        Each table is searched once for all of them.
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

    # What a reference comes to.

    def of(self, item: Key, reference: Reference) -> Owner:
        """The owner that a reference of this object names."""
        api_version, kind = reference.get("apiVersion") or "", reference.get("kind") or ""
        served = self._served.find(api_version, kind)
        if served is None:
            return Owner(
                OwnerState.ABSENT if self._has_gone_with_its_kind(item, reference) else OwnerState.UNKNOWN_KIND
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
        unshown = self._unshown.get(owner)
        if unshown is not None:
            return Owner(OwnerState.WAITING if unshown.waits else OwnerState.SOLID, owner)
        return Owner(OwnerState.UNSEEN, owner)

    def _has_gone_with_its_kind(self, item: Key, reference: Reference) -> bool:
        former = self._served.find_former(reference.get("apiVersion") or "", reference.get("kind") or "")
        if former is None:
            return False
        name, uid = reference.get("name") or "", reference.get("uid") or ""
        return Item(former.id, owner_key(former, item, name), uid) in self._absent

    # What the server has answered.

    def is_absent(self, item: Item) -> bool:
        return item in self._absent

    def was_elsewhere(self, item: Item) -> bool:
        """Of an absent one: whether an object with its uid was in another namespace."""
        return self._absent.is_elsewhere(item)

    def take_absent(self, items: Iterable[Item]) -> None:
        """Remember that these do not exist."""
        new = [item for item in items if item not in self._absent]
        elsewhere = self.elsewhere(new)
        for item in new:
            self.take_shown(item)
            self._absent.add(item, elsewhere=item in elsewhere)

    def take_unshown(self, item: Item, *, waits: bool) -> tuple[bool, float]:
        """It exists, and no table shows it. waits: for its dependents.

        Returns whether that is news, and the seconds until it is to be looked for again.
        """
        before = self._unshown.get(item)
        looks = 0 if before is None else before.looks + 1
        self._unshown[item] = _Unshown(waits, looks)
        is_news = before is None or before.waits != waits
        return is_news, min(UNSHOWN_CHECK * 2.0 ** min(looks, 10), UNSHOWN_CHECK_MOST)

    def take_shown(self, item: Item) -> None:
        """A table shows it, or nobody asks for it any more."""
        self._unshown.pop(item, None)


class _Unshown:
    """An owner that exists, and that no table shows. waits: for its dependents. looks: how often it was asked for."""

    __slots__ = ("looks", "waits")

    def __init__(self, waits: bool, looks: int) -> None:
        self.waits, self.looks = waits, looks
