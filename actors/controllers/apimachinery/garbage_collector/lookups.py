"""Progress of live lookups of the owners of each object, and the requests in flight.

The server is asked for a few owners of an object at a time, so that an object with thousands of owners does not delay
others. The result is kept with the object until the object was processed, because the cache of absent owners may evict
the first owner before the last one is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from kcm.actors.controllers.apimachinery.garbage_collector.items import Item
from kcm.actors.controllers.apimachinery.garbage_collector.ownership import Owner, OwnerState, Reference
from kcm.protocols.objects import encode_object

BATCH = 5  # owners of one object that are looked up at once


class Lookup:
    """Lookup state of the owners of one object, in one byte for each owner reference."""

    __slots__ = ("_absent", "_digest", "position", "version")

    def __init__(self, version: int, digest: bytes, count: int) -> None:
        self.version = version  # resourceVersion of the object
        self._digest = digest  # digest of the owner references
        self._absent = bytearray(count)  # 1 for owners that do not exist
        self.position = 0  # owners before this one are known

    @property
    def is_complete(self) -> bool:
        return self.position == len(self._absent)

    def fits(self, digest: bytes) -> bool:
        return digest == self._digest

    def take_absent(self, number: int) -> None:
        self._absent[number] = 1

    def refined(self, number: int, owner: Owner) -> Owner:
        """Return the owner, as absent if the server has reported that it does not exist."""
        if owner.state is OwnerState.UNSEEN and self._absent[number]:
            return Owner(OwnerState.ABSENT, owner.item)
        return owner

    def next_unseen(
        self, references: Sequence[Reference], look: Callable[[Reference], Owner]
    ) -> list[tuple[int, Item]]:
        """Return numbers and items of the next owners to get from the server, at most BATCH, and advance the position.

        An empty list means that all owners are known.
        """
        found: list[tuple[int, Item]] = []
        while not self.is_complete and len(found) < BATCH:
            number = self.position
            self.position += 1
            if self._absent[number]:
                continue
            owner = look(references[number])
            if owner.state is OwnerState.ABSENT:
                self._absent[number] = 1
            elif owner.state is OwnerState.UNSEEN and owner.item is not None:
                found.append((number, owner.item))
        return found


class Lookups:
    """The lookups of all objects, and the requests in flight."""

    def __init__(self) -> None:
        self._lookups: dict[Item, Lookup] = {}  # by the object whose owners are looked up
        self._asked: dict[Item, list[Item]] = {}  # by owner: objects that wait for a request of another object

    def __len__(self) -> int:
        return len(self._lookups)

    def is_under_way(self, item: Item, version: int) -> bool:
        """Report whether the lookup for this version of the object is incomplete."""
        lookup = self._lookups.get(item)
        return lookup is not None and lookup.version == version and not lookup.is_complete

    def known(self, item: Item, version: int, references: Sequence[Reference]) -> Lookup | None:
        """Return the lookup for these references of the object; None if it has not begun."""
        lookup = self._lookups.get(item)
        if lookup is None:
            return None
        if lookup.version != version:
            if not lookup.fits(_digest(references)):
                del self._lookups[item]
                return None
            lookup.version = version
        return lookup

    def begun(self, item: Item, version: int, references: Sequence[Reference]) -> Lookup:
        """Return the lookup to continue, or a new one."""
        lookup = self.known(item, version, references)
        if lookup is None:
            lookup = self._lookups[item] = Lookup(version, _digest(references), len(references))
        elif lookup.is_complete:
            lookup.position = 0  # an owner that was found has been removed from its table since
        return lookup

    def forget(self, item: Item) -> None:
        self._lookups.pop(item, None)

    # Requests in flight.

    def ask(self, owners: Iterable[tuple[int, Item]], *, for_: Item) -> list[tuple[int, Item]]:
        """Return the owners without a request in flight; the caller must call `answered` for each of them.

        The object is registered as waiting for the other owners.
        """
        free = []
        for number, owner in owners:
            waiting = self._asked.get(owner)
            if waiting is None:
                self._asked[owner] = []
                free.append((number, owner))
            elif for_ not in waiting:
                waiting.append(for_)
        return free

    def answered(self, owner: Item) -> list[Item]:
        """Return the objects that wait for this owner."""
        return self._asked.pop(owner, [])


def _digest(references: Sequence[Reference]) -> bytes:
    return blake2b(encode_object({"references": references}), digest_size=16).digest()
