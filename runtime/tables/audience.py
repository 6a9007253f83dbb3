"""The subscribers to a table's changes, and the changes that they have not been sent yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from protocols.messages.watching import Interest
from protocols.objects import Key
from runtime.tables.entry import Entry
from runtime.tables.interests import InterestIndex


class Audience:
    """Subscriptions and undelivered changes outlive informers, so that a successor can deliver them.

    Only the informer that writes the table uses it, through its TableWriter.
    """

    __slots__ = ("_index", "_subscriptions", "_undelivered")

    def __init__(self) -> None:
        self._subscriptions: dict[str, tuple[Interest, ...]] = {}
        self._undelivered: dict[Key, Entry] = {}  # what was there before a change that is not delivered yet
        self._index = InterestIndex({})

    @property
    def subscribers(self) -> tuple[str, ...]:
        return tuple(self._subscriptions)

    def subscribe(self, subscriber: str, interests: Iterable[Interest]) -> None:
        """Add a subscriber, or replace its interests."""
        self._subscriptions[subscriber] = tuple(interests)
        self._index = InterestIndex(self._subscriptions)

    def unsubscribe(self, subscriber: str) -> None:
        if self._subscriptions.pop(subscriber, None) is not None:
            self._index = InterestIndex(self._subscriptions)

    def concerned(self, type: str, entry: Entry, previous: Entry | None) -> Mapping[str, int]:
        """As InterestIndex.concerned."""
        return self._index.concerned(type, entry, previous)

    def owe(self, before: Entry) -> None:
        """This entry is about to be changed or removed; the first one is kept until the change is delivered."""
        self._undelivered.setdefault(before.key, before)

    def owed(self) -> list[Entry]:
        """Entries as they were before the changes that are not delivered."""
        return list(self._undelivered.values())

    def delivered(self, key: Key) -> None:
        """Every subscriber concerned has been sent the change of this object."""
        self._undelivered.pop(key, None)
