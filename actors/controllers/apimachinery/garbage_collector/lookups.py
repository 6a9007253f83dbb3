"""Progress of reading the owners of objects from the API server, and the requests in flight.

A few owners of an object are read at a time, so that an object with thousands of owners does not delay others. The
results are kept until the object has been processed, because the cache of absent owners (absent.py) may evict the first
owner before the last owner has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from kcm.actors.controllers.apimachinery.garbage_collector.items import Item
from kcm.actors.controllers.apimachinery.garbage_collector.ownership import Owner, OwnerState, Reference
from kcm.protocols.objects import encode_object

BATCH = 5  # maximum number of owners of one object that are looked up concurrently


class Lookup:
    """Progress and results of reading the owners of one object from the API server.

    Owners are identified by their position in the object's owner references. Each takes one byte, because an object may
    have thousands of owners.
    """

    __slots__ = ("_absent", "_digest", "position", "version")

    def __init__(self, version: int, digest: bytes, count: int) -> None:
        self.version = version  # resourceVersion of the object
        self._digest = digest  # digest of the owner references
        self._absent = bytearray(count)  # 1 for owners that do not exist
        self.position = 0  # index of the first owner reference that was not looked up yet

    @property
    def is_complete(self) -> bool:
        return self.position == len(self._absent)

    def has_references(self, digest: bytes) -> bool:
        return digest == self._digest

    def record_absent(self, number: int) -> None:
        self._absent[number] = 1

    def resolved(self, number: int, owner: Owner) -> Owner:
        """Return `owner`, with state ABSENT instead of UNSEEN if its lookup has found that it does not exist.

        number: position of the owner in the owner references.
        """
        if owner.state is OwnerState.UNSEEN and self._absent[number]:
            return Owner(OwnerState.ABSENT, owner.item)
        return owner

    def next_unread(
        self, references: Sequence[Reference], owner_of: Callable[[Reference], Owner]
    ) -> list[tuple[int, Item]]:
        """Return the next owners to read from the server, at most BATCH, and advance the position past them.

        references: the object's owner references. owner_of: returns the owner of a reference with its known state.

        Returns (position in the references, item of the owner) pairs; an empty list if all owners are known.
        """
        found: list[tuple[int, Item]] = []
        while not self.is_complete and len(found) < BATCH:
            number = self.position
            self.position += 1
            if self._absent[number]:
                continue
            owner = owner_of(references[number])
            if owner.state is OwnerState.ABSENT:
                self._absent[number] = 1
            elif owner.state is OwnerState.UNSEEN and owner.item is not None:
                found.append((number, owner.item))
        return found


class Lookups:
    """Registry of the lookups of all objects whose owners are being read from the API server.

    It also keeps which owners are requested now, so that no owner is requested twice at the same time.
    """

    def __init__(self) -> None:
        self._lookups: dict[Item, Lookup] = {}  # by the object whose owners are looked up
        # Owners that are being read now, each with the objects that wait for the result besides the one that sent the
        # request.
        self._reads: dict[Item, list[Item]] = {}

    def __len__(self) -> int:
        return len(self._lookups)

    def is_under_way(self, item: Item, version: int) -> bool:
        """Report whether a lookup of the owners of this object has begun for this resourceVersion and is incomplete."""
        lookup = self._lookups.get(item)
        return lookup is not None and lookup.version == version and not lookup.is_complete

    def find(self, item: Item, version: int, references: Sequence[Reference]) -> Lookup | None:
        """Return the lookup of this object's owners; None if it has not begun, or if the owner references differ.

        If only the resourceVersion differs, the lookup remains valid and takes over the new version.
        """
        lookup = self._lookups.get(item)
        if lookup is None:
            return None
        if lookup.version != version:
            if not lookup.has_references(_digest(references)):
                del self._lookups[item]
                return None
            lookup.version = version
        return lookup

    def begin(self, item: Item, version: int, references: Sequence[Reference]) -> Lookup:
        """Return the existing lookup of this object's owners, or begin a new one. A complete lookup starts over."""
        lookup = self.find(item, version, references)
        if lookup is None:
            lookup = self._lookups[item] = Lookup(version, _digest(references), len(references))
        elif lookup.is_complete:
            lookup.position = 0  # an owner that existed has been removed from its table since then
        return lookup

    def forget(self, item: Item) -> None:
        self._lookups.pop(item, None)

    # Requests in flight.

    def begin_reads(self, owners: Iterable[tuple[int, Item]], *, dependent: Item) -> list[tuple[int, Item]]:
        """Return those of the owners that no other object is reading now, and mark them as being read.

        The caller reads the returned owners from the server, and then calls `end_read` for each of them.

        owners: (position in the owner references, item) pairs.
        dependent: the object whose owners are looked up. It is registered as waiting for the other owners, which
            another object is reading.
        """
        free = []
        for number, owner in owners:
            waiting = self._reads.get(owner)
            if waiting is None:
                self._reads[owner] = []
                free.append((number, owner))
            elif dependent not in waiting:
                waiting.append(dependent)
        return free

    def end_read(self, owner: Item) -> list[Item]:
        """Mark the read of this owner as finished. Return the other objects that wait for its result."""
        return self._reads.pop(owner, [])


def _digest(references: Sequence[Reference]) -> bytes:
    return blake2b(encode_object({"references": references}), digest_size=16).digest()
