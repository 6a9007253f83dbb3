"""Subscribers to the changes of a table, and undelivered changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kcm.protocols.messages.watches import EventType, Interest
from kcm.protocols.objects import Key
from kcm.runtime.tables.entry import Entry
from kcm.runtime.tables.interests import InterestIndex


class Concern(NamedTuple):
    """Change for the watches within an index. concerned: as InterestIndex.concerned returns."""

    type: EventType
    entry: Entry
    previous: Entry | None
    concerned: Mapping[str, int]


class Audience:
    """Subscriptions and undelivered changes, which outlive informers, so that a new incarnation can deliver them.

    Only the informer that writes the table uses it, through its TableWriter.
    """

    __slots__ = ("_compiled", "_subscriptions", "_undelivered", "is_divided", "of_owners", "without_own_writes")

    def __init__(self) -> None:
        self._subscriptions: dict[
            str, tuple[tuple[Interest, str], ...]
        ] = {}  # each interest with the index of its watch, or ""
        self._undelivered: dict[Key, Entry] = {}  # the entries before changes that are not delivered yet
        self._compiled: dict[str, InterestIndex] | None = None  # by index of the table; None after a subscription
        self.is_divided = False  # whether some watches are within an index
        self.of_owners: dict[str, int] = {}  # by subscriber, its watches that need only owners, as bits
        self.without_own_writes: dict[str, int] = {}  # by subscriber, its watches that need no own writes, as bits

    @property
    def subscribers(self) -> tuple[str, ...]:
        return tuple(self._subscriptions)

    def subscribe(self, subscriber: str, interests: Sequence[Interest], within: Sequence[str] = ()) -> None:
        """Add a subscriber, or replace its interests. within: as in Subscribe."""
        self._subscriptions[subscriber] = tuple(zip(interests, within or [""] * len(interests), strict=True))
        of_owners = sum(interest.of_owner << position for position, interest in enumerate(interests))
        without = sum((not interest.own_writes) << position for position, interest in enumerate(interests))
        for watches, bits in ((self.of_owners, of_owners), (self.without_own_writes, without)):
            watches.pop(subscriber, None)
            if bits:
                watches[subscriber] = bits
        self._subscriptions_changed()

    def unsubscribe(self, subscriber: str) -> None:
        self.of_owners.pop(subscriber, None)
        self.without_own_writes.pop(subscriber, None)
        if self._subscriptions.pop(subscriber, None) is not None:
            self._subscriptions_changed()

    def concerned(self, type: str, entry: Entry, previous: Entry | None) -> Mapping[str, int]:
        """Return the watches without an index that the change concerns, as InterestIndex.concerned."""
        return self._indexes()[""].concerned(type, entry, previous)

    def concerned_within(self, type: EventType, entry: Entry, previous: Entry | None) -> Iterator[Concern]:
        """Yield the change for each index: an object that enters the index is ADDED, one that leaves it is DELETED."""
        for within, index in self._indexes().items():
            if not within:
                continue
            is_in = type != EventType.DELETED and (within, "") in entry.values
            before = previous or (entry if type == EventType.DELETED else None)
            was_in = before is not None and (within, "") in before.values
            if is_in and was_in:
                yield Concern(type, entry, previous, index.concerned(type, entry, previous))
            elif is_in:
                yield Concern(EventType.ADDED, entry, None, index.concerned(EventType.ADDED, entry, None))
            elif was_in:
                gone = entry if type == EventType.DELETED or previous is None else previous
                concerned = index.concerned(EventType.DELETED, gone, previous)
                yield Concern(EventType.DELETED, gone, previous, concerned)

    def _subscriptions_changed(self) -> None:
        self._compiled = None
        self.is_divided = any(name for watches in self._subscriptions.values() for _, name in watches)

    def _indexes(self) -> dict[str, InterestIndex]:
        """Return the interests by index of the table, with "" first; compiled when the first change comes.

        All controllers subscribe one after the other, and most tables do not change at the start.
        """
        if self._compiled is None:
            names = dict.fromkeys(("", *(name for watches in self._subscriptions.values() for _, name in watches)))
            self._compiled = {name: self._index_of(name) for name in names}
        return self._compiled

    def _index_of(self, within: str) -> InterestIndex:
        return InterestIndex(
            {
                subscriber: [interest if name == within else None for interest, name in watches]
                for subscriber, watches in self._subscriptions.items()
            }
        )

    def owe(self, before: Entry) -> None:
        """Record an entry before its change or removal. The first entry is kept until the change is delivered."""
        self._undelivered.setdefault(before.key, before)

    def owed(self) -> list[Entry]:
        """Return the entries before the changes that are not delivered."""
        return list(self._undelivered.values())

    def delivered(self, key: Key) -> None:
        """Record that the change of this object was sent to all subscribers concerned."""
        self._undelivered.pop(key, None)
