"""Delivery of changes to the subscribers that they concern, batched in frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kcm.actors.engine.informer.contents import Difference
from kcm.protocols.codec import bundle, encode
from kcm.protocols.messages.watches import EventType, Interest, Synced, WatchEvent
from kcm.protocols.objects import Key, OwnerRef
from kcm.runtime.tables.table import Entry, Table, TableWriter

MOST_EVENTS = 500  # in one frame
MOST_BYTES = 1_000_000  # in one frame, unless one event alone is larger


class Delivery:
    """Collects changes until `flush`, or until a frame is full.

    A change counts as delivered once its frame was sent to all subscribers that it concerns. The next incarnation of
    the informer delivers the others.
    """

    def __init__(self, table: Table, writer: TableWriter, *, send: Callable[[str, bytes], None]) -> None:
        """Create an empty delivery. send: called with a subscriber's name and a frame."""
        self._table, self._writer, self._send = table, writer, send
        self._resource = table.resource.id
        self._collected: dict[Key, None] = {}  # objects that have changed
        self._events: list[bytes] = []  # encoded; each concerns at least one subscriber
        self._bytes = 0
        self._mail: dict[str, tuple[list[int], list[int]]] = {}  # by subscriber: positions in _events, matches
        # Subscribers, matches, namespaces and owners of the collected events; see Interest.of_owner.
        self._owners: set[tuple[str, int, str, OwnerRef | None, OwnerRef | None]] = set()

    @property
    def pending(self) -> int:
        """Number of objects whose changes are collected. Any thread."""
        return len(self._collected)

    def take_over(self, is_alive: Callable[[str], bool]) -> None:
        """Deliver changes of an earlier incarnation. Dead subscribers are removed; they subscribe again on restart."""
        audience = self._writer.audience
        for name in audience.subscribers:
            if not is_alive(name):
                audience.unsubscribe(name)
        for before in audience.owed():
            now = self._table.get(before.key)
            self.add(Difference(EventType.DELETED if now is None else EventType.MODIFIED, now or before, before))
        self.flush()

    def subscribe(self, name: str, interests: Sequence[Interest], within: Sequence[str] = ()) -> None:
        self.flush()
        self._writer.audience.subscribe(name, interests, within)
        if self._table.synced:
            self._send(name, encode(Synced(self._table.id)))

    def unsubscribe(self, name: str) -> None:
        self.flush()
        self._writer.audience.unsubscribe(name)

    def synced(self) -> None:
        """Notify the subscribers that the first list is complete."""
        frame = encode(Synced(self._table.id))
        for name in self._writer.audience.subscribers:
            self._send(name, frame)

    def add(self, difference: Difference, *, writer: str = "") -> None:
        """Collect a change. writer: subscriber whose write made it, see Interest.own_writes; "" if that is unknown."""
        type, entry, previous = difference
        audience = self._writer.audience
        concerned = audience.concerned(type, entry, previous)
        if writer in concerned and (without := audience.without_own_writes.get(writer)):
            needed = concerned[writer] & ~without
            others = {name: matches for name, matches in concerned.items() if name != writer}
            concerned = others | {writer: needed} if needed else others
        if audience.of_owners:
            concerned = self._with_new_owners(entry, previous, concerned, audience.of_owners)
        if concerned:
            self._post(type, entry, previous, concerned)
        if audience.is_divided:
            for concern in audience.concerned_within(type, entry, previous):
                if concern.concerned:
                    self._post(*concern)
        self._collected[entry.key] = None
        if len(self._collected) >= MOST_EVENTS or len(self._events) >= MOST_EVENTS:
            self.flush()

    def _post(self, type: EventType, entry: Entry, previous: Entry | None, concerned: Mapping[str, int]) -> None:
        change = WatchEvent(
            type,
            self._resource,
            entry.key,
            entry.uid,
            str(entry.resource_version),
            entry.raw,
            entry.controller,
            previous.raw if previous is not None else b"",
            previous.uid if previous is not None else "",
            previous.controller if previous is not None else None,
        )
        event = encode(change)
        if self._events and self._bytes + len(event) > MOST_BYTES:
            self.flush(owing=entry.key)
        for name, matches in concerned.items():
            mail = self._mail.get(name)
            if mail is None:
                mail = self._mail[name] = ([], [])
            mail[0].append(len(self._events))
            mail[1].append(matches)
        self._events.append(event)
        self._bytes += len(event)

    def _with_new_owners(
        self, entry: Entry, previous: Entry | None, concerned: Mapping[str, int], of_owners: Mapping[str, int]
    ) -> Mapping[str, int]:
        """Return the watches concerned, without those that need only owners and get an event with the same owners."""
        kept, sent = {}, self._owners
        namespace = entry.key.partition("/")[0]
        for name, matches in concerned.items():
            if not matches & ~of_owners.get(name, 0):
                before = None if previous is None else previous.controller
                owners = name, matches, namespace, entry.controller, before
                if owners in sent:
                    continue
                sent.add(owners)
            kept[name] = matches
        return kept

    def flush(self, *, owing: Key = "") -> None:
        """Send the collected changes. owing: key of an object whose latest change is not collected yet."""
        if not self._collected:
            return
        frames: dict[tuple[tuple[int, ...], tuple[int, ...]], bytes] = {}  # shared by subscribers with equal contents
        for name, (positions, bits) in self._mail.items():
            same = (tuple(positions), tuple(bits))
            frame = frames.get(same)
            if frame is None:
                frame = frames[same] = bundle([self._events[position] for position in positions], bits)
            self._send(name, frame)
        audience = self._writer.audience
        for key in self._collected:
            if key != owing:
                audience.delivered(key)
        self._collected, self._events, self._bytes, self._mail = {}, [], 0, {}
        self._owners.clear()
