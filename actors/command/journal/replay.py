"""Feeds a controller what a journal says it was told, and compares the commands that its reconciler yields.

The controller's actor is built as it was, on a clock that shows the recorded times and on tables that show what it was
told (stage.py).
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from kcm.actors.command.journal.stage import Stage
from kcm.actors.options import Options
from kcm.actors.reconciliation.actor_names import (
    DISCOVERY,
    MANAGER,
    controller_name,
    controller_of,
    is_controller,
    is_informer,
)
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec
from kcm.protocols.codec import decode, unpack
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.commands import Submit
from kcm.protocols.messages.journal import MessageHandled, MessageSent, Opened, TurnLost
from kcm.protocols.messages.lifecycle import Attach
from kcm.protocols.times import parse_time
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.system.journal import JournalError, Record
from kcm.runtime.system.journal_table import as_json, described, message_of

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

CLOSE = 5.0  # seconds by which two times in objects may differ: the clock is read a moment after the message came
WAITING: Any = None  # in a mailbox: something is there, and what it is is not asked


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the replay leaves the journal. recorded, replayed: None where there was no such batch of commands."""

    after: MessageSent | None
    recorded: Submit | None
    replayed: Submit | None


@dataclass(frozen=True, slots=True)
class Replay:
    """handled: messages that were fed. batches: of commands that were compared and are the same.

    inexact: before its end an actor of the run lost its turn (TurnLost), so a difference may be the journal's.
    """

    handled: int
    batches: int
    difference: Difference | None
    inexact: bool = False


class Replayer:
    """One incarnation of one controller, from its first message on; fed with the whole run."""

    def __init__(self, stage: Stage, spec: ActorSpec, incarnation: int) -> None:
        self.handled = self.batches = 0
        self.over = False  # what is still to come is of a later incarnation
        self._stage, self._name, self._incarnation = stage, spec.name, incarnation
        self._actor = stage.build(spec, incarnation, self._tap)
        self._mail: dict[int, MessageSent] = {}
        self._informers_mail: dict[int, MessageSent] = {}
        self._discoveries: dict[int, MessageSent] = {}  # what the manager is sent
        self._replayed: deque[Submit] = deque()
        self._current: MessageSent | None = None
        self._begun = False

    def feed(self, record: MessageSent | MessageHandled) -> Difference | None:
        self._stage.clock.set(record)
        if isinstance(record, MessageHandled):
            return self._handle(record)
        if record.sender == self._name:
            return self._compare(record)
        if record.receiver == self._name and record.incarnation == self._incarnation:
            self._mail[record.number] = record
        elif is_informer(record.receiver):
            self._informers_mail[record.number] = record
        elif record.receiver == MANAGER and record.sender == DISCOVERY:
            self._discoveries[record.number] = record
        return None

    def _compare(self, record: MessageSent) -> Difference | None:
        message = message_of(record)
        if isinstance(message, Attach) and message.incarnation >= self._incarnation and not self._begun:
            self._begun = True
            self._actor.on_start()
        elif isinstance(message, Attach) and message.incarnation > self._incarnation:
            self.over = True
        if not self._begun or self.over or not isinstance(message, Submit):
            return None
        if not self._replayed:
            return Difference(self._current, message, None)
        replayed = self._replayed.popleft()
        if not are_alike(message, replayed):
            return Difference(self._current, message, replayed)
        self.batches += 1
        return None

    def _handle(self, record: MessageHandled) -> Difference | None:
        informers = self._informers_mail.pop(record.number, None)
        if informers is not None:
            self._stage.informer_handles(informers)
            return None
        discovered = self._discoveries.pop(record.number, None)
        if discovered is not None:
            self._stage.discovers(message_of(discovered))
            return None
        told = self._mail.pop(record.number, None)
        if told is None:
            return None
        if self._replayed:  # all that the handlers before told is in the journal by now
            return Difference(self._current, None, self._replayed.popleft())
        self._current = told
        self.handled += 1
        self._actor.actor_inbox = queue.SimpleQueue()
        if not record.last:
            self._actor.actor_inbox.put(WAITING)
        self._actor.on_receive(told.frame)
        return None

    def _tap(self, _sender: str, _receiver: str, frame: bytes) -> None:
        message = decode(frame)
        if isinstance(message, Submit):
            self._replayed.append(message)


def replay(
    records: Sequence[Record],
    actor: str,
    *,
    specs: Iterable[ControllerSpec],
    read_options: Callable[[Sequence[str]], Options],
    log: FilteringBoundLogger,
    incarnation: int | None = None,
) -> Replay:
    """The last run in the journal, or what is left of it; of the actor its newest incarnation unless one is named.

    specs: of all controllers that there are. read_options: from the arguments of a command line.
    Raises JournalError if the journal does not hold the beginning of that incarnation.
    """
    opened, run = last_run(records)
    name = actor if is_controller(actor) else controller_name(actor)
    incarnation = beginning(run, name, incarnation)
    wanted = controller_of(name) or ""
    by_name = {spec.name: spec for spec in specs}
    if wanted not in by_name:
        raise JournalError(f"{wanted} is not here: is the package installed that brings it?")
    chosen = [by_name.get(one) or _absent(one) for one in opened.controllers]
    stage = Stage(chosen, options=read_options(opened.arguments), seed=opened.seed, log=log)
    controller = stage.plan.controllers.get(wanted)
    if controller is None:
        raise JournalError(f"{name} is no controller of that run: {', '.join(opened.controllers)}")
    replayer = Replayer(stage, controller.spec, incarnation)
    difference, inexact = None, False
    for record in run:
        if isinstance(record, TurnLost):
            inexact = True
            continue
        difference = replayer.feed(record)
        if difference is not None or replayer.over:
            break
    return Replay(replayer.handled, replayer.batches, difference, inexact)


def _absent(name: str) -> ControllerSpec:
    """In place of a controller that is not here: the random choices of the others follow from who came before them."""

    def build(_context: ControllerContext) -> Any:
        raise JournalError(f"{name} is not here")

    return ControllerSpec(name=name, build=build)


def last_run(records: Sequence[Record]) -> tuple[Opened, list[MessageSent | MessageHandled | TurnLost]]:
    """Raises JournalError if there is none."""
    opened: Opened | None = None
    run: list[MessageSent | MessageHandled | TurnLost] = []
    for record in records:
        if isinstance(record, Opened):
            if opened is None or opened.session != record.session:
                opened, run = record, []
        else:
            run.append(record)
    if opened is None:
        raise JournalError("the journal holds no run")
    if opened.part != 1:
        raise JournalError("the first files of the run are gone; keep more of them with --journal-files")
    return opened, run


def beginning(run: Sequence[MessageSent | MessageHandled | TurnLost], name: str, incarnation: int | None) -> int:
    """Which incarnation is wanted, the newest if None is. Raises JournalError if it is not there."""
    begun: dict[str, set[int]] = {}  # incarnations, by the controller's name
    for record in run:
        if isinstance(record, MessageSent) and record.sender.startswith("controller:"):
            message = message_of(record)
            if isinstance(message, Attach):
                begun.setdefault(record.sender, set()).add(message.incarnation)
    there = begun.get(name, set())
    wanted = incarnation if incarnation is not None else max(there, default=0)
    if wanted in there:
        return wanted
    which = name if incarnation is None else f"incarnation {incarnation} of {name}"
    raise JournalError(f"in this run no {which} began; those that did: {', '.join(sorted(begun)) or 'none'}")


def are_alike(recorded: Submit, replayed: Submit) -> bool:
    """The same, but for times in bodies that are a moment apart."""
    if (recorded.client, recorded.ticket) != (replayed.client, replayed.ticket):
        return False
    if recorded.queue and (recorded.queue, recorded.key) != (replayed.queue, replayed.key):
        return False
    return _alike(command_values(recorded), command_values(replayed))


def command_values(submit: Submit) -> list[dict[str, Any]]:
    """Commands as JSON-like values, bodies decoded."""
    values = []
    for command in submit.commands:
        value: dict[str, Any] = {"command": type(command).__name__}
        for field in command.__struct_fields__:
            one = getattr(command, field)
            if isinstance(command, Call) and field == "arguments":
                value[field] = as_json(unpack(one))
            else:
                value[field] = orjson.loads(one) if isinstance(one, bytes) and one else one
        values.append(value)
    return values


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if one == other:
        return True
    try:
        return abs(parse_time(one) - parse_time(other)) <= CLOSE
    except ValueError:
        return False


def told_in_words(difference: Difference) -> str:
    """After which message it was."""
    after = difference.after
    return "at its start" if after is None else f"after message {after.number}, {described(message_of(after))}"
