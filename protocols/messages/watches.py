"""Messages about watches: transport → informer, and informer → subscribers."""

from __future__ import annotations

from enum import StrEnum

from kcm.protocols.messages.message import Message
from kcm.protocols.objects import OwnerRef


class EventType(StrEnum):
    """Types of watch events, as in the API. The informer handles BOOKMARK and ERROR itself."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


ORPHANS = ""  # the owner kind of objects without a controller owner

Fact = str | int | float | bool | None


class Interest(Message, frozen=True, kw_only=True, tag=47):
    """The changes of a resource that concern a watch: those that meet all conditions that are set; by default all.

    types: EventTypes.
    owner_kinds: kinds of the controller owner; ORPHANS selects objects without one.
    changed: names of the table's derived facts, at least one of which differs. ADDED, DELETED and a change of the
        controller owner meet this condition as well.
    having: (derived fact, its values) pairs; each fact has one of its values.
    finalizers: the object has at least one of these.
    indexed: (index of the table, value) pairs; the object is found under at least one of them.
    owners: the owner references differ, in the owners or in blockOwnerDeletion. ADDED and DELETED meet this condition
        as well.
    filled: names of derived facts, none of which is empty, 0 or False.
    of_owner: no condition: the watch needs only the controller owner, before and after a change. Of several changes in
        one frame with the same owners, those after the first may be left out.
    own_writes: False if the changes that the subscriber's own creations and updates make may be left out. Reconcilers
        read them in their tables at once, so such an event is necessary only if the sync that wrote does not do all
        that follows.

    A condition on an object is met if the object before or after the change meets it, so that leaving a state concerns
    the same watches as entering it. An object that was deleted and recreated between two events meets types and
    changed.
    """

    types: tuple[str, ...] = ()
    owner_kinds: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    having: tuple[tuple[str, tuple[Fact, ...]], ...] = ()
    finalizers: tuple[str, ...] = ()
    indexed: tuple[tuple[str, str], ...] = ()
    owners: bool = False
    filled: tuple[str, ...] = ()
    of_owner: bool = False
    own_writes: bool = True

    def __post_init__(self) -> None:
        """Raise TypeError on ("x") instead of ("x",), which would be met by each letter."""
        for name in ("types", "owner_kinds", "changed", "having", "finalizers", "indexed", "filled"):
            if not isinstance(getattr(self, name), tuple):
                raise TypeError(f"{name} of an Interest: expected a tuple, got {getattr(self, name)!r}")


EVERYTHING = Interest()


class WatchEvent(Message, frozen=True, tag=40):
    """A change of an object in a table, which the table contains already. Sent in WatchEvents.

    type: an EventType.
    object: JSON after the change, without managedFields; for DELETED the last known state, which may be stale.
    previous: JSON before the change; b"" for ADDED. If previous_uid != uid the object was deleted and recreated
        between two events.
    controller, previous_controller: the controller owner reference after and before, or None.
    """

    type: str
    resource: str
    key: str
    uid: str
    resource_version: str
    object: bytes
    controller: OwnerRef | None = None
    previous: bytes = b""
    previous_uid: str = ""
    previous_controller: OwnerRef | None = None


class WatchEvents(Message, frozen=True, tag=48):
    """Changes that concern the subscriber, in their order. Informer → subscriber.

    matches: for each event, the positions in Subscribe.interests of the interests that it meets, as bits: 1 <<
        position.
    """

    events: tuple[WatchEvent, ...]
    matches: tuple[int, ...]


class Subscribe(Message, frozen=True, tag=41):
    """Subscribe to Synced, and then to this resource's changes that meet one of `interests`. Actor → informer.

    interests: one for each watch, 63 at most; none for Synced alone. A second Subscribe replaces them.
    within: for each interest the index of the table that contains the objects of its watch, "" for the whole table; ()
        is "" for each. An object that enters that index is ADDED for the watch, an object that leaves it is DELETED.
    """

    subscriber: str
    interests: tuple[Interest, ...] = (EVERYTHING,)
    within: tuple[str, ...] = ()


class Unsubscribe(Message, frozen=True, tag=42):
    """End a subscription. Actor, or the manager for an actor that has failed → informer."""

    subscriber: str


class Synced(Message, frozen=True, tag=43):
    """The table contains a complete list for the first time. Informer → its subscribers; to a later subscriber at once.

    resource: the table's id: Resource.id, with a suffix if the table is restricted.
    """

    resource: str


class Listed(Message, frozen=True, tag=44):
    """A page of a list, or its failure. Transport → informer. status: HTTP status; 0 without a response."""

    stream: int
    status: int
    body: bytes
    error: str = ""
    retry_after: float = 0.0


class Streamed(Message, frozen=True, tag=45):
    """Complete lines of a watch, each a JSON watch event, or a piece of a list's JSON. Transport → informer.

    stream: the informer's number of the watch or list.
    """

    stream: int
    lines: bytes


class StreamEnded(Message, frozen=True, tag=46):
    """A watch or list has ended. Transport → informer.

    status: HTTP status if the server refused it, 200 after a clean end, 0 after a connection error.
    begun: the connection broke after the response had begun.
    """

    stream: int
    status: int
    error: str = ""
    body: bytes = b""
    retry_after: float = 0.0
    begun: bool = False
