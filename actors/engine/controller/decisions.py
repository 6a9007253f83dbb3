"""Decisions of a controller: what each reconciliation sent, for which reasons, and how it ended.

Bounded: the latest decision of each key, at most MOST_KEYS of a queue, and the RECENT latest of the controller that did
something. They contain no bodies. They outlive an incarnation, so they explain why a controller that crashes did so.

The controller's thread writes them. Any thread reads them without a message, because the controller may hang: each
read is one operation on a dict or a deque, which no other thread can interrupt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct

from kcm.protocols.messages.commands import (
    Command,
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    in_words,
    object_in_words,
)
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.protocols.resources import name_of_resource

MOST_KEYS = 2000  # latest decisions of one queue
RECENT = 128  # latest decisions of one controller
MOST_REASONS = 8  # of one reconciliation
MOST_COMMANDS = 12  # commands of one reconciliation that are remembered singly; refused ones beside them
MOST_REFUSALS = 6
LONGEST = 400  # characters of a reason, of an error and of a server's message

# Verb, place, outcome and message of a command: cheap to make, and made for each command. SentCommand shows it.
Sent = tuple[type[Command], tuple[str, ...], type[Outcome], str]
_PLACES: dict[type[Command], Callable[[Any], Any]] = {
    **dict.fromkeys((Update, Patch, Get), attrgetter("resource", "key", "subresource")),
    Delete: attrgetter("resource", "key"),
    **dict.fromkeys((List, DeleteCollection), attrgetter("resource", "namespace")),
    Create: attrgetter("resource", "namespace", "subresource"),
}


class SentCommand(Struct, frozen=True):
    """Command and its outcome.

    text: the command in words. The name of a created object is left out, because its body would have to be decoded.
    outcome: its type.
    message: of the server; "" for success.
    """

    text: str
    outcome: type[Outcome]
    message: str

    def __str__(self) -> str:
        message = f": {self.message}" if self.message else ""
        return f"{self.text} → {self.outcome.__name__}{message}"


class SyncDecision(Struct, frozen=True, gc=False):
    """One reconciliation of a key, or of a pass, whose key is "".

    began, ended: monotonic times.
    reasons: the texts of its Because.
    sent: commands that it sent, in their order; see `commands`.
    more: number of its further commands.
    error: class and text of the exception that it raised; "" without one.
    again: seconds from its end until it is repeated without an event; None: not before its next event.
    """

    queue: str
    key: str
    began: float
    ended: float
    reasons: tuple[str, ...] = ()
    sent: tuple[Sent, ...] = ()
    more: int = 0
    error: str = ""
    again: float | None = None

    @property
    def commands(self) -> list[SentCommand]:
        return [SentCommand(_in_words(*entry[:3]), *entry[2:]) for entry in self.sent]


Remembered = SyncDecision | float  # the end of a reconciliation that sent nothing and gave no reason


def _in_words(verb: type[Command], place: tuple[str, ...], outcome: type[Outcome]) -> str:
    if verb not in _PLACES:
        return place[0]
    resource, where, *subresource = place
    words = "delete all" if verb is DeleteCollection else verb.__name__.lower()
    if verb in (List, DeleteCollection) or (verb is Create and outcome is Done):
        where = f"in {where}" if where else ""
    return " ".join(word for word in (words, name_of_resource(resource), where, *subresource) if word)


def sent(command: Command, outcome: Outcome) -> Sent:
    """Return what is remembered of a command. Decodes no body of a successful command."""
    verb = type(command)
    if type(outcome) is Done and verb in _PLACES:
        return verb, _PLACES[verb](command), Done, ""
    message = "" if isinstance(outcome, Done) else outcome.message[:LONGEST]
    if verb not in _PLACES:  # a call, or a document
        return verb, (in_words(command),), type(outcome), message
    place = _PLACES[verb](command)
    if verb is Create:
        place = (place[0], object_in_words(command), place[2])
    return verb, place, type(outcome), message


def add_sent(
    known: tuple[Sent, ...], commands: Sequence[Command], outcomes: Sequence[Outcome | None]
) -> tuple[Sent, ...]:
    """Return the commands that are remembered, with further ones: some of all, and some that failed."""
    added = list(known)
    refused = sum(entry[2] is not Done for entry in known)
    for command, outcome in zip(commands, outcomes, strict=True):
        if type(outcome) is Done:
            if len(added) < MOST_COMMANDS:
                added.append(sent(command, outcome))
        elif outcome is not None and (len(added) < MOST_COMMANDS or refused < MOST_REFUSALS):
            refused += 1
            added.append(sent(command, outcome))
    return tuple(added)


def _nothing(_queue: str, _key: str) -> list[Command]:
    return []


class DecisionMemory:
    """Latest decisions of one controller.

    latest: by queue and key, in the order of their ends.
    recent: those that sent commands, gave reasons, failed or wait.
    awaited: returns the commands for whose outcomes a running reconciliation waits, from any thread; set by the newest
        incarnation.
    """

    __slots__ = ("_latest", "_recent", "awaited")

    def __init__(self) -> None:
        self._latest: dict[str, dict[Hashable, Remembered]] = {}
        self._recent: deque[SyncDecision] = deque(maxlen=RECENT)
        self.awaited: Callable[[str, str], list[Command]] = _nothing

    def latest_of(self, queue: str) -> dict[Hashable, Remembered]:
        """Return the memory of a queue, or a pass, for its source, which calls `remember`."""
        return self._latest.setdefault(queue, {})

    def add_recent(self, decision: SyncDecision) -> None:
        self._recent.append(decision)

    # Any thread.

    def of(self, key: str) -> list[SyncDecision]:
        """Return the latest decision of this key in each queue, the latest first."""
        decisions = []
        for queue, latest in list(self._latest.items()):
            remembered = latest.get(key)
            if remembered is None and key:
                remembered = next((found for other, found in list(latest.items()) if str(other) == key), None)
            if isinstance(remembered, float):
                decisions.append(SyncDecision(queue, key, remembered, remembered))
            elif remembered is not None:
                decisions.append(remembered)
        return sorted(decisions, key=lambda decision: -decision.ended)

    def recent(self) -> list[SyncDecision]:
        """Return the latest decisions of the controller that did something, oldest first."""
        return list(self._recent)

    def kept(self) -> int:
        """Return the number of keys whose decision is remembered."""
        return sum(map(len, list(self._latest.values())))


def remember(latest: dict[Hashable, Remembered], key: Hashable, decision: Remembered) -> None:
    """Keep the decision as the latest of its key, and drop the oldest one if there are too many."""
    latest.pop(key, None)
    latest[key] = decision
    if len(latest) > MOST_KEYS:
        latest.pop(next(iter(latest)), None)
