"""Decisions of a controller: what each reconciliation sent, for which reasons, and how it ended.

Bounded: the latest decision of each key, at most MOST_KEYS of a queue, and the RECENT latest of the controller. They
contain no bodies. They outlive an incarnation, so they explain why a controller that crashes did so.

The controller's thread writes them. Any thread reads them without a message, because the controller may hang: each
read is one operation on a dict or a deque whose keys are texts, which no other thread can interrupt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from kcm.protocols.messages.commands import Command, Create, DeleteCollection, List, in_words, object_in_words
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.protocols.objects import make_key
from kcm.protocols.resources import name_of_resource

MOST_KEYS = 2000  # latest decisions of one queue
RECENT = 128  # latest decisions of one controller
MOST_REASONS = 8  # of one reconciliation
MOST_COMMANDS = 12  # commands of one reconciliation that are remembered singly; refused ones beside them
MOST_REFUSALS = 6
LONGEST = 400  # characters of a reason, of an error and of a server's message

_IN_METADATA, _NAME = b'"metadata":{', b'"name":"'


class SentCommand(Struct, frozen=True, gc=False):
    """Command and its outcome.

    verb: type of the command.
    resource: a Resource.id; "" for a call or a document, whose words are the key.
    key: of the object, or "in NAMESPACE" if the command names no object.
    outcome: its type.
    message: of the server; "" for success.
    """

    verb: type[Command]
    resource: str
    key: str
    subresource: str
    outcome: type[Outcome]
    message: str

    def __str__(self) -> str:
        if self.resource:
            verb = "delete all" if self.verb is DeleteCollection else self.verb.__name__.lower()
            words = [verb, name_of_resource(self.resource), self.key, self.subresource]
        else:
            words = [self.key]
        message = f": {self.message}" if self.message else ""
        return f"{' '.join(word for word in words if word)} → {self.outcome.__name__}{message}"


class Decision(Struct, frozen=True, gc=False):
    """One reconciliation of a key, or of a pass, whose key is "".

    began, ended: monotonic times.
    reasons: the texts of its Because.
    commands: commands that it sent, in their order.
    more: number of its further commands.
    error: class and text of the exception that it raised; "" without one.
    again: seconds from its end until it is repeated without an event; None: not before its next event.
    """

    queue: str
    key: str
    began: float
    ended: float
    reasons: tuple[str, ...]
    commands: tuple[SentCommand, ...]
    more: int
    error: str
    again: float | None


def sent(command: Any, outcome: Outcome) -> SentCommand:
    """Return what is remembered of a command. Decodes no body of a successful command."""
    kind, verb = type(outcome), type(command)
    done = kind is Done
    resource: str = command.resource
    if not resource:  # a call, or a document
        return SentCommand(verb, "", in_words(command), "", kind, _message(outcome))
    if verb is Create:
        if done and not command.subresource:
            key = make_key(command.namespace, _name_in(outcome.body))  # type: ignore[union-attr]
        else:
            key = object_in_words(command)
    elif verb is List or verb is DeleteCollection:
        key = f"in {command.namespace}" if command.namespace else ""
    else:
        key = command.key
    subresource = "" if verb is List or verb is DeleteCollection else command.subresource
    return SentCommand(verb, resource, key, subresource, kind, "" if done else _message(outcome))


def _message(outcome: Outcome) -> str:
    return "" if type(outcome) is Done else outcome.message[:LONGEST]  # type: ignore[union-attr]


def _name_in(body: bytes) -> str:
    """Return the first name in the metadata of an object, which the server writes before everything else there."""
    start = body.find(_NAME, body.find(_IN_METADATA)) + len(_NAME)
    return body[start : body.find(b'"', start)].decode(errors="replace")


def add_sent(
    known: tuple[SentCommand, ...], commands: Sequence[Command], outcomes: Sequence[Outcome | None]
) -> tuple[SentCommand, ...]:
    """Return the commands that are remembered, with further ones: some of all, and some that failed."""
    added = list(known)
    refused = sum(entry.outcome is not Done for entry in known)
    for command, outcome in zip(commands, outcomes, strict=True):
        if outcome is None:
            continue
        if type(outcome) is Done:
            if len(added) < MOST_COMMANDS:
                added.append(sent(command, outcome))
        elif len(added) < MOST_COMMANDS or refused < MOST_REFUSALS:
            refused += 1
            added.append(sent(command, outcome))
    return tuple(added)


def _nothing(_queue: str, _key: str) -> list[Command]:
    return []


class Decisions:
    """Latest decisions of one controller.

    awaited: returns the commands for whose outcomes a running reconciliation waits, from any thread; set by the newest
        incarnation.
    """

    __slots__ = ("_latest", "_recent", "awaited")

    def __init__(self) -> None:
        self._latest: dict[str, dict[str, Decision]] = {}  # by queue and key, in the order of their ends
        self._recent: deque[Decision] = deque(maxlen=RECENT)
        self.awaited: Callable[[str, str], list[Command]] = _nothing

    def add(self, decision: Decision) -> None:
        self._recent.append(decision)
        key = decision.key
        latest = self._latest.get(decision.queue)
        if latest is None:
            latest = self._latest[decision.queue] = {}
        latest.pop(key, None)
        latest[key] = decision
        if len(latest) > MOST_KEYS:
            latest.pop(next(iter(latest)), None)

    # Any thread.

    def of(self, key: str) -> list[Decision]:
        """Return the latest decision of this key in each queue, the latest first."""
        found = [latest.get(key) for latest in list(self._latest.values())]
        return sorted((decision for decision in found if decision is not None), key=lambda one: -one.ended)

    def recent(self) -> list[Decision]:
        """Return the latest decisions of the controller, oldest first."""
        return list(self._recent)

    def kept(self) -> int:
        """Return the number of keys whose decision is remembered."""
        return sum(map(len, list(self._latest.values())))
