"""Running reconciliations: submits their commands, sends them the outcomes, and reports their ends to the source."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from kcm.actors.engine.controller.decisions import (
    LONGEST,
    MOST_COMMANDS,
    MOST_REASONS,
    DecisionMemory,
    Remembered,
    Sent,
    SyncDecision,
    add_sent,
    sent,
)
from kcm.actors.engine.controller.held_back import HeldBack
from kcm.actors.engine.controller.own_writes import HotLoops, refresh, remember, stale_update
from kcm.actors.engine.controller.readiness import StaleTableError, check_freshness, check_readable
from kcm.actors.engine.controller.retries import SyncTimeoutError, error_kind, one_line, result_of
from kcm.actors.engine.controller.rights import RequiredRight, Rights, denied_right
from kcm.actors.engine.controller.settings import ControllerSettings
from kcm.actors.engine.controller.sources import Task
from kcm.actors.engine.controller.task_log import InHand
from kcm.actors.engine.vitals import InWork
from kcm.actors.reconciliation import Because, Enqueue, RequeueAfter, Running, Tell, itself
from kcm.actors.reconciliation.actor_names import DISPATCHER
from kcm.actors.reconciliation.failures import Retry
from kcm.actors.reconciliation.outside import Outside
from kcm.protocols.codec import as_message, encode, encode_checked
from kcm.protocols.errors import ACCIDENTS, clear_frames
from kcm.protocols.messages.commands import COMMANDS, Command, Fetch, Get, List, Submit, in_words
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Done, Forbidden, Outcome, Refused, Settled, Unknown
from kcm.runtime.system.actor import Context
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from kcm.actors.engine.controller.malformed import MalformedObjects

# Hint in errors of coroutines that use asyncio's waits or an async client.
NO_LOOP = "no event loop runs in a controller: write `await kcm.call(function, …)`"
READS = (Get, List, Fetch)
MOST_NAMED = 5  # commands that the error of an overdue reconciliation names
SINGLE = frozenset(COMMANDS)  # to look up a type; isinstance() takes longer
ALONE = (*COMMANDS, Record, Tell, Enqueue)  # values that a reconciliation may yield; commands also in a list


class _Attempt(Struct):
    """Running reconciliation, with the commands whose outcomes it waits for."""

    task: Task
    generator: Running | None = None  # None before it begins
    ticket: int = 0
    commands: list[Command] = field(default_factory=list)
    outcomes: list[Outcome | None] = field(default_factory=list)
    missing: int = 0
    single: bool = False
    refreshes: bool = False  # reads the object of a failed update live, see _fail
    deadline: float = math.inf  # monotonic time at which it is ended with an error
    began: float = 0.0  # monotonic
    # For its SyncDecision.
    reasons: tuple[str, ...] = ()
    sent: tuple[Sent, ...] = ()
    left_out: int = 0  # number of commands that are not in `sent`


class Work:
    """Running reconciliations of a controller. len() is the number of reconciliations that wait for outcomes.

    ticket: number of the last Submit.
    reconciled, failed: number of reconciliations that succeeded and failed.
    moved: monotonic time of the last progress: a key was begun, or received an outcome.
    rights: rights that the API server refused.
    loops: objects that are written again and again.
    """

    def __init__(
        self,
        context: Context,
        *,
        settings: ControllerSettings,
        tables: Tables,
        tell_frame: Callable[[str, bytes], None],
        enqueue: Callable[[Enqueue], None],
        in_hand: InHand,
        held_back: HeldBack,
        decisions: DecisionMemory,
    ) -> None:
        """Create it without reconciliations. enqueue: raises KeyError for a queue that the controller does not have."""
        self._held_back, self._decisions = held_back, decisions
        decisions.awaited = self.awaited
        self._context, self._settings = context, settings
        self._tables, self._tell_frame, self._enqueue = tables, tell_frame, enqueue
        self._clock, self._in_hand, self._meter = context.clock, in_hand, settings.meter
        self._timeouts = {queue.name: queue.timeout for queue in settings.queues if queue.timeout}
        self.rights = Rights()
        # By queue, the resources whose keys are in the queue themselves (Watch(…, to=itself)).
        self._objects_of_keys = {
            queue.name: tuple(watch.resource.id for watch in queue.watches if watch.to is itself)
            for queue in settings.queues
        }
        # By queue, the resources of which a key may name an object.
        self._watched = {
            queue.name: tuple(watch.resource.id for watch in queue.watches[:1]) for queue in settings.queues
        } | {queue: resources for queue, resources in self._objects_of_keys.items() if resources}
        self._malformed: MalformedObjects | None = None
        self._waiting: dict[int, _Attempt] = {}  # by ticket
        self.ticket = context.incarnation * 1_000_000_000
        self.reconciled = self.failed = 0
        self.moved = self._clock.monotonic()
        self.loops = HotLoops(self.moved)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def at_work(self) -> InWork | None:
        """Return the key that is being reconciled at this moment. Called from any thread."""
        task = self._in_hand.task
        return None if task is None else InWork(queue=task.queue, key=task.key, since=self.moved)

    def awaited(self, queue: str, key: str) -> list[Command]:
        """Return the commands for whose outcomes the reconciliation of this key waits. Called from any thread."""
        return [
            command
            for attempt in list(self._waiting.values())
            if (attempt.task.queue, attempt.task.key) == (queue, key)
            # Not strict: another thread may see the commands of one batch with the outcomes of another.
            for command, outcome in zip(attempt.commands, attempt.outcomes, strict=False)
            if outcome is None
        ]

    def submitted(self, ticket: int, index: int) -> Command | None:
        """Return a command that waits for its outcome. Called from any thread."""
        attempt = self._waiting.get(ticket)
        return None if attempt is None else attempt.commands[index]

    def begin(self, task: Task, now: float) -> None:
        self.moved = now
        attempt = _Attempt(task, began=now)
        if self._timeouts and task.key:
            attempt.deadline = now + self._timeouts.get(task.queue, math.inf)
        self._advance(attempt, None)

    def next_deadline(self) -> float:
        """Return the monotonic time at which the next waiting reconciliation is ended; infinity for none."""
        return min((attempt.deadline for attempt in self._waiting.values()), default=math.inf)

    def end_overdue(self, now: float) -> None:
        """End the waiting reconciliations whose deadline has passed. Their keys fail with SyncTimeoutError."""
        for attempt in [attempt for attempt in self._waiting.values() if attempt.deadline <= now]:
            self._end_overdue(attempt)

    def _end_overdue(self, attempt: _Attempt) -> None:
        """Close the reconciliation. Its key fails at once, or when its writes in flight have ended.

        Until a write in flight has ended, the outcome may still change the object, and a retry could decide the
        opposite: the dispatcher may send a deletion after the retry found that the object must stay.
        """
        task, context = attempt.task, self._context
        awaited = [
            command for command, outcome in zip(attempt.commands, attempt.outcomes, strict=True) if outcome is None
        ]
        err = SyncTimeoutError(
            f"sync of {task.queue} {task.key} by {self._settings.name} did not end within "
            f"{self._timeouts[task.queue]:g} s, waiting for "
            + ", ".join(map(in_words, awaited[:MOST_NAMED]))
            + (f" and {len(awaited) - MOST_NAMED} more" if len(awaited) > MOST_NAMED else "")
        )
        attempt.deadline = math.inf
        self._in_hand.task = task
        try:
            if attempt.generator is not None:
                attempt.generator.close()
        except Exception as close_error:
            context.system.raised(context.name, "closing a reconciliation", task.key, close_error)
        finally:
            self._in_hand.task = None
        if all(isinstance(command, READS) for command in awaited):
            del self._waiting[attempt.ticket]
            self._fail(attempt, err)
            return
        attempt.generator = _raising(err)
        context.log.warning(
            "reconcile timed out, retrying once its writes have ended",
            controller=self._settings.name,
            queue=task.queue,
            key=task.key,
            error=one_line(err),
        )

    def settle(self, settled: Settled) -> None:
        """Take an outcome, and resume the reconciliation that waits for it once all its outcomes are there."""
        attempt = self._waiting.get(settled.ticket)
        if attempt is None or attempt.outcomes[settled.index] is not None:
            self._take_review(settled)
            return  # a review's, a repeated outcome, or the reconciliation has ended
        command = attempt.commands[settled.index]
        outcome = settled.outcome
        try:
            remember(self._tables, command, outcome)
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
        ) as err:  # such as a response of a proxy
            self._context.system.raised(self._context.name, "taking an answer", attempt.task.key, err)
            outcome = Unknown(f"malformed answer: {one_line(err)}")
        if self.rights.refused or type(outcome) is Forbidden:
            self._note_right(command, outcome)
        if type(outcome) is Done:
            self.loops.wrote(command)
        attempt.outcomes[settled.index] = outcome
        attempt.missing -= 1
        self.moved = self._clock.monotonic()
        if attempt.missing == 0:
            del self._waiting[attempt.ticket]
            if attempt.single and len(attempt.sent) < MOST_COMMANDS:
                attempt.sent += (sent(command, outcome),)
            else:
                before = len(attempt.sent)
                attempt.sent = add_sent(attempt.sent, attempt.commands, attempt.outcomes)
                attempt.left_out += len(attempt.commands) + before - len(attempt.sent)
            self._advance(attempt, attempt.outcomes[0] if attempt.single else attempt.outcomes)

    def _note_right(self, command: Command, outcome: Outcome) -> None:
        now = self._clock.monotonic()
        right = self.rights.note(command, outcome, now)
        if right is not None:
            self._review(right, now)

    def review_denied(self, now: float) -> None:
        """Review the denied rights again, as they may have been granted without another attempt to use them."""
        for right in self.rights.denied_to_review(now):
            self._review(right, now)

    def _review(self, right: RequiredRight, now: float) -> None:
        context = self._context
        self.ticket += 1
        review = self.rights.begin_review(right, self.ticket, now)
        client, ticket = self._settings.client, self.ticket
        self._tell_frame(DISPATCHER, encode(Submit(context.name, context.incarnation, client, ticket, (review,))))

    def _take_review(self, settled: Settled) -> None:
        right = self.rights.take_review(settled.ticket, settled.outcome)
        if right is not None:
            denied = denied_right(right, self.rights.refused[right])
            self._context.log.warning(
                "API server denies a right to the controller",
                controller=self._settings.name,
                verb=denied.verb,
                resource=denied.resource,
                namespace=denied.namespace,
                error=denied.message,
            )

    def lose(self, *, last_ticket: int, under_way: set[tuple[int, int]]) -> None:
        """Settle, as Refused, the commands that a failed dispatcher had received but not sent.

        last_ticket: the newest ticket that was submitted to that dispatcher.
        under_way: ticket and index of the commands that it had sent.
        """
        for ticket, attempt in list(self._waiting.items()):
            if ticket > last_ticket:
                continue
            for index, outcome in enumerate(attempt.outcomes):
                if outcome is None and (ticket, index) not in under_way:
                    self.settle(Settled(ticket, index, Refused("the dispatcher was restarted")))

    def _advance(self, attempt: _Attempt, answer: Any) -> None:
        """Run the reconciliation until it waits for outcomes or ends. An exception fails this key only."""
        in_hand = self._in_hand
        in_hand.task = attempt.task
        try:
            while True:
                try:
                    yielded = self._resume(attempt, answer)
                    addressed = self._addressed(attempt, yielded)
                except StopIteration as stop:
                    self._finish(attempt, stop.value)
                    return
                except Exception as err:
                    self._fail(attempt, err)
                    return
                if addressed is not None:
                    self._tell_frame(*addressed)
                if attempt.missing:
                    return
                answer = [] if addressed is None and not isinstance(yielded, Enqueue) else None
        finally:
            if self._context.fenced and (at_work := self.at_work) is not None:
                self._held_back.came_back(at_work, self._clock.monotonic())
            in_hand.task = None

    def _resume(self, attempt: _Attempt, answer: Any) -> Any:
        """Run the reconciliation to its next yield, and return what it yields. Raises StopIteration at its end."""
        if attempt.generator is None:
            self._require_its_own(attempt.task)
            for beginning in self._context.system.beginnings:
                beginning(self._context.name, attempt.task.queue, attempt.task.key)
            attempt.generator = attempt.task.begin()
        yielded = attempt.generator.send(answer)
        while type(yielded) is Because:
            text = yielded.text
            if type(text) is not str:
                mistake = TypeError(f"Because takes a text, not {text!r:.80}")
                attempt.generator.throw(mistake)
                raise mistake
            if len(attempt.reasons) < MOST_REASONS:
                attempt.reasons += (text[:LONGEST],)
            yielded = attempt.generator.send(None)
        if (wrong := nonsense(yielded, attempt.generator)) is not None:
            attempt.generator.throw(wrong)  # raised at the yield, so that the traceback shows it to the author
            raise wrong
        return yielded

    def _require_its_own(self, task: Task) -> None:
        """Raise UnreadableError if the object that the key names exists and is unreadable."""
        for resource_id in self._objects_of_keys.get(task.queue, ()):
            overlay = self._tables.overlay(resource_id)
            if overlay is not None and overlay.table.has_unreadable:
                Lister(overlay).require(task.key)

    def _addressed(self, attempt: _Attempt, yielded: Any) -> tuple[str, bytes] | None:
        """Return receiver and frame; None for an empty list or an Enqueue. Raises for values that cannot be encoded."""
        if type(yielded) in SINGLE:  # most are, and the test for a Sequence is slow
            return self._submission(attempt, [yielded], single=True)
        match yielded:
            case Record():
                return self._settings.recorder, self._signed(yielded)
            case Tell(to=to, message=message):
                return to, encode_checked(message)
            case Enqueue():
                self._enqueue(yielded)
                return None
            case Sequence():
                return self._submission(attempt, list(yielded), single=False) if yielded else None
            case _:
                return self._submission(attempt, [yielded], single=True)

    def _submission(self, attempt: _Attempt, commands: list[Command], *, single: bool) -> tuple[str, bytes]:
        context, settings = self._context, self._settings
        check_freshness(self._tables, commands, now=self._clock.monotonic(), stale_after=settings.stale_after)
        check_readable(self._tables, commands)
        for index, command in enumerate(commands):
            if type(command) is Outside and not command.key:
                commands[index] = msgspec.structs.replace(command, key=attempt.task.key)
        ticket = self.ticket + 1
        task, sender, incarnation = attempt.task, context.name, context.incarnation
        sent_commands = tuple(map(as_message, commands))  # without the functions of outside calls
        submit = Submit(sender, incarnation, settings.client, ticket, sent_commands, task.queue, task.key)
        try:
            frame = encode_checked(submit)
        except TypeError:
            for command in sent_commands:
                encode_checked(command)  # raises an error that names the command instead of its position
            raise
        self.ticket = attempt.ticket = ticket
        attempt.commands, attempt.single = commands, single
        attempt.outcomes, attempt.missing = [None] * len(commands), len(commands)
        self._waiting[ticket] = attempt
        return DISPATCHER, frame

    def _signed(self, event: Record) -> bytes:
        """Encode the event, with our name as its source if it has none."""
        settings = self._settings
        signed = msgspec.structs.replace(
            event, component=event.component or settings.component, client=event.client or settings.client
        )
        return encode_checked(signed)

    def _finish(self, attempt: _Attempt, result: Any) -> None:
        if not _is_result(result):
            self._fail(attempt, TypeError(f"a reconciliation returns RequeueAfter(seconds) or None, not {result!r}"))
            return
        now = self._clock.monotonic()
        self.reconciled += 1
        (self._meter.success if result is None else self._meter.requeue_after).inc()
        self._ended(attempt.task, result)
        decision: Remembered = now
        if result is not None or attempt.sent or attempt.reasons:
            decision = self._decision(attempt, now, "", None if result is None else result.seconds)
        attempt.task.succeed(result, now, decision)

    def _fail(self, attempt: _Attempt, err: Exception) -> None:
        """End the task with this error.

        After a Conflict of an update whose basis is still the version in the tables, the object is read live first. The
        overlay then shows the newer version, and the retry does not repeat the conflict while the watch is late. The
        read is done by a generator (own_writes.refresh) instead of the reconciler's; it ends with the same error.
        """
        conflicting = None if attempt.refreshes else stale_update(err, self._tables)
        if conflicting is not None:
            attempt.generator, attempt.refreshes = refresh(conflicting, err, self._tables), True
            attempt.deadline = math.inf
            self._advance(attempt, None)
            return
        now = self._clock.monotonic()
        self.failed += not isinstance(err, Retry)
        self._meter.raised(result_of(err), error_kind(err))
        if isinstance(err, StaleTableError):
            self._meter.skipped_as_stale(err.resource_id)
        task, context = attempt.task, self._context
        add_hint(err, attempt.generator)
        err = self._explained(err, task)
        context.system.raised(context.name, f"reconciliation of {task.queue}", task.key, err)
        self._ended(task, err)
        again = task.fail(err, now)
        task.remember(self._decision(attempt, now, one_line(err)[:LONGEST], again))
        clear_frames(err)

    def _decision(self, attempt: _Attempt, now: float, error: str, again: float | None) -> SyncDecision:
        task, reasons, left_out = attempt.task, attempt.reasons, attempt.left_out
        decision = SyncDecision(task.queue, task.key, attempt.began, now, reasons, attempt.sent, left_out, error, again)
        self._decisions.add_recent(decision)
        return decision

    def _explained(self, err: Exception, task: Task) -> Exception:
        """Return the error, or one in its place that names a malformed object that caused it."""
        if type(err) not in (*ACCIDENTS, ValueError):
            return err
        if self._malformed is None:
            from kcm.actors.engine.controller.malformed import MalformedObjects  # few objects are malformed

            self._malformed = MalformedObjects(self._tables)
        return self._malformed.explained(err, task.key, self._watched.get(task.queue, ()))

    def _ended(self, task: Task, result: object) -> None:
        for ending in self._context.system.endings:
            ending(self._context.name, task.queue, task.key, result)


def _raising(err: Exception) -> Running:
    """Return a reconciliation that waits for its outcomes, then raises this error."""

    def wait() -> Generator[Any, Any, None]:
        yield
        raise err

    waiting = wait()
    next(waiting)
    return waiting


# Mistakes of reconcilers, reported to their authors.


def nonsense(yielded: Any, by: Running) -> TypeError | None:
    """Return the error for a yielded or awaited value that is not supported, None for a supported value."""
    if type(yielded) in SINGLE or isinstance(yielded, ALONE):
        return None
    if isinstance(yielded, Sequence) and all(isinstance(command, COMMANDS) for command in yielded):
        return None
    if not isinstance(by, Generator):
        return TypeError(f"a reconciliation awaits commands, records and steps, not {yielded!r:.200}; {NO_LOOP}")
    hint = "; steps are written `yield from`" if isinstance(yielded, (Generator, Awaitable)) else ""
    return TypeError(f"a reconciliation yields a command, a list of commands or a record, not {yielded!r:.200}{hint}")


def add_hint(err: Exception, by: Running | None) -> None:
    """Add a note that names kcm.call to the error of a coroutine that used an event loop, of asyncio or anyio.

    Nothing but this note depends on the text of the error.
    """
    if isinstance(err, RuntimeError) and isinstance(by, Coroutine) and any(word in str(err) for word in _OF_LOOPS):
        err.add_note(NO_LOOP)


_OF_LOOPS = (
    "event loop",
    "async library",
    "async context",
)  # in errors of asyncio, of sniffio (used by httpx), and of trio


def _is_result(result: Any) -> bool:
    return result is None or isinstance(result, RequeueAfter)
