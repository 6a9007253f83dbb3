"""The controller actor: drives one reconciler. The only class that does.

Takes WatchEvent and Synced from informers, Settled and Attached from the dispatcher, Restarted, Pause, Resume and Drain
from the manager, Describe from people, Wake. Tells Subscribe, Submit, Attach, Record, Drained.

What is the same for all controllers is here: the work queue (a key is reconciled by one at a time), how many keys are
in work at once, retries with backoff, looking again after a while, the overlay of own writes, and what happens at
either end: a new incarnation acts only once its tables hold a whole list and show all that was written under its name.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from actors.actor_names import DISPATCHER, RECORDER, informer_name
from actors.own_writes import look_live, remember, update_from_the_past
from actors.readiness import Readiness, StaleTableError, check_freshness
from actors.reconciliation import Change, Listening, Reconciler, Reconciliation, RequeueAfter, Tell, Watch
from protocols.codec import encode
from protocols.messages.commands import (
    Command,
    Submit,
)
from protocols.messages.lifecycle import (
    Attach,
    Attached,
    Describe,
    Description,
    Drain,
    Drained,
    Pause,
    Restarted,
    Resume,
    Wake,
)
from protocols.messages.outcomes import (
    CommandFailed,
    Conflict,
    Outcome,
    Refused,
    Settled,
    Unknown,
)
from protocols.messages.recording import Record
from protocols.messages.watching import EventType, Subscribe, Synced, WatchEvent
from protocols.objects import Key
from runtime.actor import WAKE_FRAME, Actor, Context
from runtime.overlay import Tables
from runtime.table import Table
from runtime.vitals import Vitals
from runtime.work_queue import QueueMeter, WorkQueue

BATCH = 128  # messages between two looks at the work queue while the mailbox does not run empty
BARRIER_CHECK = 0.1  # seconds between two looks at whether the tables show the predecessor's writes
SOONEST = 0.001  # seconds until a key is looked at again: `due - now` may fall a float's rounding short of due
STALE_RETRY = 10.0  # seconds until a deletion that a stale table held back is looked at again
AWAY = (Refused, Unknown)  # they say nothing about the object: a key is not given up for them, nor waits for minutes
AWAY_RETRY = 30.0  # seconds at most between two tries while the server does not answer
TIDY = 60.0  # seconds between two looks through the overlay


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """How one controller is driven.

    name: canonical, as --controllers has it. client: whose API client it uses; component: its events' source.
    concurrency: keys in work at once. max_retries: after so many failures in a row a key is dropped until its next
    event; None never. stale_after: seconds without a sign of life of a table after which nothing is deleted.
    first_keys: looked at once as soon as it may act. resync: seconds after which it looks at everything again; 0 never.
    """

    name: str
    client: str
    component: str
    concurrency: int = 5
    max_retries: int | None = None
    stale_after: float = 300.0
    first_keys: tuple[Key, ...] = ()
    resync: float = 0.0


@dataclass(slots=True)
class _Run:
    """One reconciliation in work. While it waits: for how many outcomes, of which commands."""

    key: Key
    generator: Reconciliation | None = None  # None: not begun
    ticket: int = 0
    commands: list[Command] = field(default_factory=list)
    outcomes: list[Outcome | None] = field(default_factory=list)
    missing: int = 0
    single: bool = False
    looked: bool = False  # it has failed, and has looked at what it met


class Controller(Actor):
    """See the module. `controller:<name>` is its name."""

    def __init__(
        self,
        context: Context,
        *,
        settings: ControllerSettings,
        tables: Mapping[str, Table],
        watches: Sequence[Watch],
        build: Callable[[Tables], Reconciler],
        vitals: Vitals,
        meter: QueueMeter,
        seed: int | None = None,
    ) -> None:
        """tables: by Resource.id, all that the reconciler reads; those of its watches among them."""
        super().__init__(context)
        self._settings, self._shared = settings, tables
        self._watches, self._build, self._vitals = watches, build, vitals
        self._meter = meter
        self._random = random.Random(seed)
        self._reconciler: Reconciler
        self._tables: Tables
        self._queue: WorkQueue
        self._runs: dict[int, _Run] = {}  # those that wait for outcomes, by ticket
        self._ticket = context.incarnation * 1_000_000_000
        self._readiness = Readiness(tables)
        self._begun = False
        self._paused = self._draining = self._drained = False
        self._attach_ticket = 0  # the last one that was told before the dispatcher was told that we are there
        self._peers: dict[str, int] = {}  # the incarnation of each actor that has to know us, as we told it
        self._since_pump = 0
        self._reconciled = self._failed = 0
        self._tidy_at = 0.0
        self._resync_at = math.inf
        self._moved = 0.0  # when a key was last begun or answered

    def started(self) -> None:
        now = self.clock.monotonic()
        self._tables = Tables(self._shared)
        self._reconciler = self._build(self._tables)
        self._queue = WorkQueue(now=now, meter=self._meter, chance=self._random.random)
        self._meter.follow(self._queue, self.clock)
        self._tidy_at = now + TIDY
        self._moved = now
        for peer in (DISPATCHER, *map(informer_name, self._shared)):
            self._peers[peer] = self.context.system.incarnation(peer)
            self._introduce_ourselves(peer)
        self._say_vitals()

    def receive(self, message: Any) -> Any:
        answer = None
        match message:
            case WatchEvent():
                self._enqueue(message.resource, Change.of_event(message))
            case Settled():
                self._settled(message)
            case Wake():
                pass  # what is due follows from the queue, below
            case Synced(resource=resource):
                self._synced(resource)
            case Attached():
                self._take_attached(message)
            case Restarted(name=name, incarnation=incarnation):
                self._peer_restarted(name, incarnation)
                self._hear(message)
            case Pause():
                self._paused = True
            case Resume():
                self._paused = False
            case Drain():
                self._draining, self._drained = True, False
            case Describe():
                answer = encode(Description(self.name, orjson.dumps(self._facts())))
            case _ if self._hear(message):
                pass
            case _:
                super().receive(message)
        self._since_pump += 1
        if self._since_pump >= BATCH or self.is_last:
            self._since_pump = 0
            self._pump()
        return answer

    def pinged(self) -> None:
        """What came before the Ping left the work queue to whatever comes next, and that was the Ping."""
        if self._since_pump:
            self._since_pump = 0
            self._pump()

    # Until it may act.

    def _synced(self, resource_id: str) -> None:
        self._readiness.unsynced.discard(resource_id)
        if not self._begun:
            self._begin_if_ready()
            return
        for each in self._shared:  # the informer is new: of what has gone meanwhile nobody tells, but the rest shows it
            self._feed(each)

    def _take_attached(self, attached: Attached) -> None:
        if attached.incarnation != self.context.incarnation:
            return
        if self._readiness.attached:
            self._take_loss({(ticket, index) for ticket, index in attached.under_way})
        else:
            self._readiness.attach(attached.versions)
            self._begin_if_ready()

    def _take_loss(self, under_way: set[tuple[int, int]]) -> None:
        """The dispatcher is new: what the one before it had not sent yet is lost."""
        for ticket, run in list(self._runs.items()):
            if ticket > self._attach_ticket:
                continue  # told to the new one
            for index, outcome in enumerate(run.outcomes):
                if outcome is None and (ticket, index) not in under_way:
                    self._settled(Settled(ticket, index, Refused("the dispatcher was restarted")))

    def _begin_if_ready(self) -> None:
        if self._readiness.is_reached():
            for resource_id in self._shared:
                self._feed(resource_id)
            for key in self._settings.first_keys:
                self._queue.add(key, self.clock.monotonic())
            self._begun = True
            if self._settings.resync > 0:
                self._resync_at = self.clock.monotonic() + self._settings.resync
            self.log.info("controller ready", controller=self._settings.name)

    def _feed(self, resource_id: str) -> None:
        """Look at everything that is there, as if it had just been added."""
        for entry in self._shared[resource_id].entries():
            self._enqueue(resource_id, Change.of_entry(entry))

    def _peer_restarted(self, name: str, incarnation: int) -> None:
        if incarnation > self._peers.get(name, incarnation):
            self._peers[name] = incarnation
            self._introduce_ourselves(name)

    def _introduce_ourselves(self, peer: str) -> None:
        if peer == DISPATCHER:
            self._attach_ticket = self._ticket
            self.tell(peer, Attach(self.name, self.context.incarnation))
        else:
            self.tell(peer, Subscribe(self.name))

    def _look_for_new_peers(self) -> None:
        """Whoever was to tell us that a peer is another one may have failed while telling."""
        for peer in self._peers:
            self._peer_restarted(peer, self.context.system.incarnation(peer))

    def _hear(self, message: Any) -> bool:
        """Let the reconciler have it, if it listens at all; answers whether it does."""
        if not isinstance(self._reconciler, Listening):
            return False
        now = self.clock.monotonic()
        for key in self._reconciler.hear(message):
            self._queue.add(key, now)
        return True

    # Keys.

    def _enqueue(self, resource_id: str, change: Change) -> None:
        now = self.clock.monotonic()
        for watch in self._watches:
            if watch.resource.id != resource_id:
                continue
            try:
                for key in watch.to(change, self._tables):
                    self._queue.add(key, now)
            except Exception as err:  # a malformed object concerns nobody else
                self.log.warning(
                    "malformed object skipped",
                    controller=self._settings.name,
                    resource=watch.resource.name,
                    key=change.key,
                    error=f"{type(err).__name__}: {err}",
                )

    def _pump(self) -> None:
        """Begin what may begin, and ask to be woken for what is due later."""
        now = self.clock.monotonic()
        if not self._begun:
            self._begin_if_ready()
        self._enqueue_unseen()
        if now >= self._resync_at:
            self._resync_at = now + self._settings.resync
            for resource_id in self._shared:
                self._feed(resource_id)
        for _ in range(BATCH):
            if not self._may_begin() or (key := self._queue.take(now)) is None:
                break
            self._moved = now
            self._advance(_Run(key), None)
        else:
            self.tell_frame(self.name, WAKE_FRAME)  # whoever pings us has had to wait long enough
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY
            for overlay in self._tables.overlays().values():
                overlay.prune()
            self._look_for_new_peers()
        if self._draining and not self._runs and not self._drained:
            self._drained = True
            self.tell(self.context.system.supervisor, Drained(self.name))
        self._ask_for_wake(now)
        self._say_vitals()

    def _may_begin(self) -> bool:
        if not self._begun or self._paused or self._draining or self.context.fenced:
            return False
        return len(self._runs) < self._settings.concurrency

    def _enqueue_unseen(self) -> None:
        """What we wrote and no event will ever tell of concerns whom its deletion would concern."""
        for resource_id, overlay in self._tables.overlays().items():
            while overlay.unseen:
                entry = overlay.unseen.pop()
                gone = Change(type=EventType.DELETED, key=entry.key, raw=entry.raw, controller=entry.controller)
                self._enqueue(resource_id, gone)

    def _ask_for_wake(self, now: float) -> None:
        dues = [self._tidy_at, self._resync_at]
        if not self._begun and self._readiness.waits_for_versions:
            dues.append(now + BARRIER_CHECK)
        due = self._queue.next_due()
        if due is not None and self._may_begin():  # else what ends a run, or resumes us, looks at the queue
            dues.append(due)
        self.wake_at(min(dues))

    # Reconciliations.

    def _advance(self, run: _Run, answer: Any) -> None:
        """Run the generator up to its next wait, or its end. What is wrong with it is this key's failure alone."""
        while True:
            try:
                if run.generator is None:
                    run.generator = self._reconciler.reconcile(run.key)
                yielded = run.generator.send(answer)
                addressed = self._addressed(run, yielded)
            except StopIteration as stop:
                self._finish(run, stop.value)
                return
            except Exception as err:
                self._fail(run, err)
                return
            if addressed is not None:
                self.tell_frame(*addressed)
            if run.missing:
                return
            answer = [] if addressed is None else None

    def _addressed(self, run: _Run, yielded: Any) -> tuple[str, bytes] | None:
        """To whom it goes, encoded; None for a list without commands. Raises on what no reconciler may yield."""
        match yielded:
            case Record():
                return RECORDER, encode(self._signed(yielded))
            case Tell(to=to, message=message):
                return to, encode(message)
            case Sequence():
                return self._submission(run, list(yielded), single=False) if yielded else None
            case _:
                return self._submission(run, [yielded], single=True)

    def _submission(self, run: _Run, commands: list[Command], *, single: bool) -> tuple[str, bytes]:
        settings = self._settings
        check_freshness(self._shared, commands, now=self.clock.monotonic(), stale_after=settings.stale_after)
        ticket = self._ticket + 1
        frame = encode(Submit(self.name, self.context.incarnation, settings.client, ticket, tuple(commands)))
        self._ticket = run.ticket = ticket
        run.commands, run.single = commands, single
        run.outcomes, run.missing = [None] * len(commands), len(commands)
        self._runs[ticket] = run
        return DISPATCHER, frame

    def _settled(self, settled: Settled) -> None:
        run = self._runs.get(settled.ticket)
        if run is None or run.outcomes[settled.index] is not None:
            return  # an outcome told twice, or of a run that is over
        command = run.commands[settled.index]
        outcome = settled.outcome
        try:
            remember(self._tables, command, outcome)
        except (ValueError, TypeError, KeyError, AttributeError) as err:  # as from a proxy that answers for the server
            outcome = Unknown(f"malformed answer: {_one_line(err)}")
        run.outcomes[settled.index] = outcome
        run.missing -= 1
        self._moved = self.clock.monotonic()
        if run.missing == 0:
            del self._runs[run.ticket]
            self._advance(run, run.outcomes[0] if run.single else run.outcomes)

    def _finish(self, run: _Run, result: Any) -> None:
        if not isinstance(result, RequeueAfter | None):
            self._fail(run, TypeError(f"a reconciliation ends with RequeueAfter or None, not with {result!r}"))
            return
        now = self.clock.monotonic()
        self._reconciled += 1
        self._queue.forget(run.key)
        self._queue.done(run.key, now)
        if result is not None:
            self._queue.add_after(run.key, max(result.seconds, SOONEST), now)

    def _fail(self, run: _Run, err: Exception) -> None:
        behind = None if run.looked else update_from_the_past(err, self._tables)
        if behind is not None:
            self._advance(_Run(run.key, look_live(behind, err, self._tables), looked=True), None)
            return
        now = self.clock.monotonic()
        self._failed += 1
        self._queue.done(run.key, now)
        attempt = self._queue.failures(run.key) + 1
        most = self._settings.max_retries
        log = self.log.bind(controller=self._settings.name, key=run.key, attempt=attempt, error=_one_line(err))
        if isinstance(err, CommandFailed) and isinstance(err.failure, AWAY):
            delay = min(self._queue.add_rate_limited(run.key, now), AWAY_RETRY)
            self._queue.add_after(run.key, AWAY_RETRY, now)  # the earlier of the two counts
            log.warning("the server did not answer, trying again", seconds=round(delay, 3))
            return
        if most is not None and attempt > most:
            self._queue.forget(run.key)
            log.error("reconcile failed too often, dropped until the next event")
            return
        if isinstance(err, StaleTableError):  # no fault of the key's: it is to go on soon after the table does
            self._queue.add_after(run.key, STALE_RETRY, now)
            log.warning("nothing is deleted on the word of a stale table, trying again", seconds=STALE_RETRY)
            return
        delay = self._queue.add_rate_limited(run.key, now)
        if isinstance(err, CommandFailed) and isinstance(err.failure, Conflict):
            log.info("reconcile met a newer object, trying again", seconds=round(delay, 3))
        elif isinstance(err, (CommandFailed, ValueError)):
            log.warning("reconcile failed, trying again", seconds=round(delay, 3))
        else:
            log.warning("reconcile failed, trying again", seconds=round(delay, 3), exc_info=err)

    def _signed(self, event: Record) -> Record:
        """With our name as its source, where it names none."""
        component, client = self._settings.component, self._settings.client
        return replace(event, component=event.component or component, client=event.client or client)

    # What it says of itself.

    def _facts(self) -> dict[str, Any]:
        now = self.clock.monotonic()
        return {
            "ready": self._begun,
            "paused": self._paused,
            "draining": self._draining,
            **self._readiness.facts(),
            "queued": len(self._queue),
            "delayed": self._queue.delayed,
            "in_work": self._queue.processing,
            "longest_running_seconds": round(self._queue.longest_running(now), 3),
            "reconciled": self._reconciled,
            "failed": self._failed,
            "own_writes_unseen": {r: len(o) for r, o in self._tables.overlays().items() if len(o)},
        }

    def _say_vitals(self) -> None:
        if self.context.fenced:
            return  # its successor speaks
        self._vitals.say(
            self.name,
            {
                "ready": self._begun,
                "paused": self._paused,
                "moved": self._moved,
                "waiting_for_tables": tuple(self._readiness.unsynced),
                "queued": len(self._queue),
                "reconciled": self._reconciled,
                "failed": self._failed,
                "at": self.clock.monotonic(),
            },
        )


def _one_line(err: Exception) -> str:
    return f"{type(err).__name__}: {err}".replace("\n", " ")
