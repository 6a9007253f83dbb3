"""The conversation around watches: transport → informer, and informer → subscribers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from protocols.objects import OwnerRef


class EventType(StrEnum):
    """What happened, in the API's words. BOOKMARK and ERROR stay between server and informer."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An object of a table changed; the table already shows it. Informer → every subscriber, the same bytes.

    type: an EventType; also sent as ADDED for all that is there when one subscribes.
    object: JSON after the change, without managedFields; for DELETED the last that was known, maybe stale.
    previous: JSON before the change; b"" for ADDED. With previous_uid != uid the object was deleted and made anew
    between two looks.
    controller, previous_controller: the controller owner reference after and before, None without one.
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


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Send me this resource's WatchEvents from now on, first ADDED for what is there. Actor → informer."""

    subscriber: str


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """No more. Actor (or the manager, for one that died) → informer."""

    subscriber: str


@dataclass(frozen=True, slots=True)
class Synced:
    """The table holds a whole list, for the first time. Informer → its subscribers (a later one is told at once)."""

    resource: str


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of a list, or its failure. Transport → informer. status: HTTP's; 0 when there was no answer."""

    stream: int
    status: int
    body: bytes
    error: str = ""
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True)
class Streamed:
    """Whole lines of a watch, each one JSON watch event. Transport → informer. stream: the informer's number for it."""

    stream: int
    lines: bytes


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """A watch is over. status: HTTP's where the server refused to start it, 200 after a clean end, 0 when it broke."""

    stream: int
    status: int
    error: str = ""
    body: bytes = b""
    retry_after: float = 0.0
