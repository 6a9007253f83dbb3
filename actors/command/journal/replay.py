"""Replay of a journal: passes the recorded messages to a controller, and compares the commands of its reconciler.

The controller's actor is built as in the run, with a clock that returns the recorded times and with tables as they were
(stage.py).
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct

from kcm.actors.command.journal.stage import ReplayStage
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

CLOSE = 5.0  # seconds by which two times in objects may differ: the clock is read shortly after the message arrived
WAITING: Any = None  # stands in the mailbox for a further message, whose content does not matter


class ReplayDifference(Struct, frozen=True):
    """First difference between journal and replay.

    after: message that the controller handled last; None before the first message.
    recorded, replayed: batch of commands; None if that side sent none.
    """

    after: MessageSent | None
    recorded: Submit | None
    replayed: Submit | None


class Replay(Struct, frozen=True):
    """Result of a replay."""

    # Messages that were passed to the controller.
    handled: int
    # Batches of commands that were compared and are equal.
    batches: int
    difference: ReplayDifference | None
    # An actor hung while it handled a message (TurnLost), so that messages may be recorded in a wrong order.
    inexact: bool = False


class Replayer:
    """Replay of one incarnation of one controller. feed() takes the records of the run, in order.

    actor: the controller.
    """

    def __init__(self, stage: ReplayStage, spec: ActorSpec, incarnation: int) -> None:
        self.handled = self.batches = 0
        self.over = False  # a later incarnation has started: the remaining records belong to it
        self._stage, self._name, self._incarnation = stage, spec.name, incarnation
        self.actor = stage.build(spec, incarnation, self._tap)
        self._mail: dict[int, MessageSent] = {}
        self._informers_mail: dict[int, MessageSent] = {}
        self._discoveries: dict[int, MessageSent] = {}  # messages to the manager
        self._replayed: deque[Submit] = deque()
        self._current: MessageSent | None = None
        self._begun = False

    def feed(self, record: MessageSent | MessageHandled) -> ReplayDifference | None:
        """Apply a record. Return the difference if the controller's commands differ from the recorded ones."""
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

    def _compare(self, record: MessageSent) -> ReplayDifference | None:
        message = message_of(record)
        if isinstance(message, Attach) and message.incarnation >= self._incarnation and not self._begun:
            self._begun = True
            self.actor.on_start()
        elif isinstance(message, Attach) and message.incarnation > self._incarnation:
            self.over = True
        if not self._begun or self.over or not isinstance(message, Submit):
            return None
        if not self._replayed:
            return ReplayDifference(self._current, message, None)
        replayed = self._replayed.popleft()
        if not are_alike(message, replayed):
            return ReplayDifference(self._current, message, replayed)
        self.batches += 1
        return None

    def _handle(self, record: MessageHandled) -> ReplayDifference | None:
        informers = self._informers_mail.pop(record.number, None)
        if informers is not None:
            self._stage.informer_handles(informers)
            return None
        discovered = self._discoveries.pop(record.number, None)
        if discovered is not None:
            self._stage.discovers(message_of(discovered))
            return None
        received = self._mail.pop(record.number, None)
        if received is None:
            return None
        if self._replayed:  # the handler of the previous message sent more commands than the journal contains
            return ReplayDifference(self._current, None, self._replayed.popleft())
        self._current = received
        self.handled += 1
        self.actor.actor_inbox = queue.SimpleQueue()
        if not record.last:
            self.actor.actor_inbox.put(WAITING)
        self.actor.on_receive(received.frame)
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
    """Replay the last run of the journal, until its end or the first difference.

    actor: name of the controller, with or without "controller:".
    specs: all available controllers.
    read_options: parses the arguments of a command line.
    incarnation: incarnation of the controller to replay; None for the newest.

    Raises JournalError if the journal does not contain the start of that incarnation.
    """
    opened, run = last_run(records)
    name = actor if is_controller(actor) else controller_name(actor)
    incarnation = beginning(run, name, incarnation)
    wanted, specs = controller_of(name) or "", tuple(specs)
    if wanted not in {spec.name for spec in specs}:
        raise JournalError(f"{wanted} is not available: is the package that contains it installed?")
    stage = stage_of(opened, specs=specs, options=read_options(opened.arguments), log=log)
    controller = stage.plan.controllers.get(wanted)
    if controller is None:
        raise JournalError(f"{name} is not a controller of that run, which had {', '.join(opened.controllers)}")
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


def stage_of(
    opened: Opened, *, specs: Iterable[ControllerSpec], options: Options, log: FilteringBoundLogger
) -> ReplayStage:
    """Return the stage of a run. specs: all available controllers."""
    by_name = {spec.name: spec for spec in specs}
    chosen = [by_name.get(controller) or _absent(controller) for controller in opened.controllers]
    return ReplayStage(chosen, options=options, seed=opened.seed, log=log)


def _absent(name: str) -> ControllerSpec:
    """Return a placeholder for a controller that is not available.

    The seed of each controller depends on its position, so the placeholder keeps the random choices of the others.
    """

    def build(_context: ControllerContext) -> Any:
        raise JournalError(f"{name} is not available")

    return ControllerSpec(name=name, build=build)


def last_run(records: Sequence[Record]) -> tuple[Opened, list[MessageSent | MessageHandled | TurnLost]]:
    """Return the records of the last run. Raises JournalError if there is no run or its first file is missing."""
    opened: Opened | None = None
    run: list[MessageSent | MessageHandled | TurnLost] = []
    for record in records:
        if isinstance(record, Opened):
            if opened is None or opened.session != record.session:
                opened, run = record, []
        else:
            run.append(record)
    if opened is None:
        raise JournalError("the journal contains no run")
    if opened.part != 1:
        raise JournalError("the first files of the run were deleted; keep more files with --journal-files")
    return opened, run


def beginning(run: Sequence[MessageSent | MessageHandled | TurnLost], name: str, incarnation: int | None) -> int:
    """Return the incarnation to replay; the newest for None. Raises JournalError if it is missing."""
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
    raise JournalError(f"{which} did not start in this run; controllers that did: {', '.join(sorted(begun)) or 'none'}")


def are_alike(recorded: Submit, replayed: Submit) -> bool:
    """Report whether two batches are equal, except for small differences between times in bodies."""
    if (recorded.client, recorded.ticket) != (replayed.client, replayed.ticket):
        return False
    if recorded.queue and (recorded.queue, recorded.key) != (replayed.queue, replayed.key):
        return False
    return _alike(command_values(recorded), command_values(replayed))


def command_values(submit: Submit) -> list[dict[str, Any]]:
    """Return commands as JSON-like values, with decoded bodies."""
    values = []
    for command in submit.commands:
        value: dict[str, Any] = {"command": type(command).__name__}
        for field in command.__struct_fields__:
            content = getattr(command, field)
            if isinstance(command, Call) and field == "arguments":
                value[field] = as_json(unpack(content))
            else:
                value[field] = orjson.loads(content) if isinstance(content, bytes) and content else content
        values.append(value)
    return values


def _alike(recorded: Any, replayed: Any) -> bool:
    if isinstance(recorded, dict) and isinstance(replayed, dict):
        return recorded.keys() == replayed.keys() and all(_alike(recorded[key], replayed[key]) for key in recorded)
    if isinstance(recorded, list) and isinstance(replayed, list):
        return len(recorded) == len(replayed) and all(map(_alike, recorded, replayed))
    if recorded == replayed:
        return True
    try:
        return abs(parse_time(recorded) - parse_time(replayed)) <= CLOSE
    except ValueError:
        return False


def position_of(difference: ReplayDifference) -> str:
    """Return the position of a difference, in words."""
    after = difference.after
    return (
        "at the controller's start"
        if after is None
        else f"after message {after.number}, {described(message_of(after))}"
    )
