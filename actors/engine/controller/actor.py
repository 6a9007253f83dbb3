"""Controller actor, which drives one reconciler.

Takes WatchEvents and Synced from informers, Settled and Attached from the dispatcher, Restarted, Pause, Resume and
Drain from the manager, Describe and ShowPage from people, Wake. Sends Subscribe, Submit, Attach, Record, Drained.

All controllers share this class and the modules beside it: work queues (one worker per key), concurrency, retries with
backoff, RequeueAfter, the overlay of own writes, start and shutdown. A new incarnation begins to reconcile once its
tables contain a complete list and all writes of its predecessor.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from kcm.actors.engine.controller.decisions import DecisionMemory
from kcm.actors.engine.controller.discovered import DiscoveredTables
from kcm.actors.engine.controller.held_back import LOOK_AGAIN, HeldBack
from kcm.actors.engine.controller.keys import Keys
from kcm.actors.engine.controller.peers import Peers
from kcm.actors.engine.controller.readiness import Readiness
from kcm.actors.engine.controller.retries import Traces
from kcm.actors.engine.controller.settings import ControllerSettings, QueueSettings
from kcm.actors.engine.controller.sources import KeyQueue, PeriodicPass, TaskSources
from kcm.actors.engine.controller.start_lines import LIFECYCLE_LINES, OTHER
from kcm.actors.engine.controller.task_log import InHand
from kcm.actors.engine.controller.timetable import Timetable
from kcm.actors.engine.controller.work import Work
from kcm.actors.engine.vitals import (
    ControllerDescription,
    ControllerVitals,
    InWork,
    Misread,
    PendingKey,
    SourceVitals,
    description,
)
from kcm.actors.reconciliation import Change, Debuggable, Enqueue, Receiver, itself
from kcm.actors.reconciliation.actor_names import DISPATCHER, informer_name
from kcm.actors.reconciliation.outside import Functions
from kcm.protocols.codec import encode
from kcm.protocols.messages.debug_pages import PageShown, ShowPage
from kcm.protocols.messages.discovery import RequestTables, TablesChanged
from kcm.protocols.messages.lifecycle import (
    Attached,
    Describe,
    Drain,
    Drained,
    EnqueueKey,
    Pause,
    PlainKey,
    Restarted,
    Resume,
    Wake,
)
from kcm.protocols.messages.outcomes import Settled
from kcm.protocols.messages.watches import Synced, WatchEvents
from kcm.protocols.resources import name_of_resource
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.scheduling.events_first import EventsFirst
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.system.actor import WAKE_FRAME, Actor, Context
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.tables import Tables
from kcm.runtime.tables.view import AnyTable, tables_of

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kcm.actors.engine.spans import Tracing

BATCH = 128  # messages and events after which the work queues are served while the mailbox is not empty
NONE_ARRIVING: Mapping[str, float] = MappingProxyType({})
BARRIER_CHECK = 0.1  # seconds between two checks whether the tables contain the predecessor's writes


class Controller(Actor):
    """Actor of one controller, named `controller:<name>`."""

    def __init__(
        self,
        context: Context,
        *,
        settings: ControllerSettings,
        tables: Mapping[str, AnyTable],
        build: Callable[[Tables], Any],
        vitals: Vitals,
        seed: int | None = None,
        all_tables: Mapping[str, Table] | None = None,
        in_hand: InHand | None = None,
        held_back: HeldBack | None = None,
        decisions: DecisionMemory | None = None,
        functions: Functions | None = None,
        calls: Calls | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """Create an incarnation of the controller.

        tables: by Resource.id, the tables of all watches and reads, restricted to what the controller sees.
        all_tables: tables of the whole system, to which discovered tables are added later.
        in_hand: updated with the task that is being reconciled, for the reconciler's log.
        held_back: keys whose reconciliations hung in earlier incarnations.
        decisions: where its reconciliations are remembered, with those of earlier incarnations.
        functions: where the dispatcher looks up the functions of outside calls.
        calls: runs outside calls; None: not supported.
        tracing: spans of reconciliations; None without traces.
        """
        super().__init__(context)
        self._settings, self._static = settings, tables
        self._all_tables = all_tables if all_tables is not None else {}  # an empty one may be filled later
        self._build, self._vitals = build, vitals
        self._in_hand = in_hand if in_hand is not None else InHand()
        self._held_back = held_back if held_back is not None else HeldBack()
        self._decisions = decisions if decisions is not None else DecisionMemory()
        self._functions, self._calls, self._tracing = functions, calls, tracing
        self._random = random.Random(seed)
        self._reconciler: Any
        self._receiver: Receiver | None = None
        self._tables: Tables
        self._queues: dict[str, WorkQueue[Any]] = {}
        self._key_queues: list[KeyQueue] = []
        self._passes: list[PeriodicPass] = []
        self._sources: TaskSources
        self._keys: Keys
        self._work: Work
        self._peers: Peers
        self._timetable: Timetable
        self._discovered: DiscoveredTables | None = None
        self._readiness = Readiness(tables)
        self._source_vitals: tuple[SourceVitals, ...] = ()
        self._published: tuple[object, ...] = ()  # the part of the last vitals that changes at all in most controllers
        self._listing_began = False  # for the objects that exist at the start
        self._begun = False
        self._may_begin_since = 0.0
        self._paused = self._draining = self._drained = False
        self._since_pump = 0
        self._has_timeouts = settings.has_timeouts

    def started(self) -> None:
        now = self.clock.monotonic()
        settings = self._settings
        tables = Tables(self._static, discovers=settings.discovers is not None, writer=self.name)
        self._tables, self._reconciler = tables, self._build(tables)
        log = self.log.bind(controller=settings.name)
        self._log_lifecycle("starting")
        self.log.info("Waiting for caches to sync", v=1, controller=settings.name)
        self._receiver = self._reconciler if isinstance(self._reconciler, Receiver) else None
        self._held_back.learn(
            (actor for actor in self.context.system.stragglers(self.name) if isinstance(actor, Controller)), now
        )
        self._build_sources(log, now)
        routes = [(watch, self._queues[queue.name]) for queue in settings.queues for watch in queue.watches]
        if self._tracing is not None:
            routes = self._tracing.follow(
                self.name, self.context.incarnation, settings=settings, tables=tables, queues=self._queues
            )
        self._keys = Keys(
            routes=routes,
            tables=tables,
            clock=self.clock,
            log=log,
            raised=functools.partial(self.context.system.raised, self.name),
        )
        self._work = Work(
            self.context,
            settings=settings,
            tables=tables,
            tell_frame=self.tell_frame,
            enqueue=self._enqueue,
            in_hand=self._in_hand,
            held_back=self._held_back,
            decisions=self._decisions,
        )
        if self._functions is not None:
            self._functions.lend(self.name, self.context.incarnation, self._work.submitted, most=settings.calls)
        self._timetable = Timetable(now=now, resync=settings.resync)
        self._peers = Peers(self, keys=self._keys, newest_ticket=lambda: self._work.ticket)
        static = (part.id for table in self._static.values() for part in tables_of(table))
        for peer in (DISPATCHER, *map(informer_name, static)):
            self._peers.meet(peer)
        if settings.discovers is not None:
            self._discovered = DiscoveredTables(
                settings.discovers,
                shared=self._all_tables,
                tables=tables,
                keys=self._keys,
                queue=self._queues[settings.discovers.queue or settings.queues[0].name],
                readiness=self._readiness,
                subscribe=lambda resource_id: self._peers.meet(informer_name(resource_id)),
                clock=self.clock,
                log=log,
            )
            self.tell(self.context.system.supervisor, RequestTables(settings.name))
        self._say_vitals()

    def _build_sources(self, log: FilteringBoundLogger, now: float) -> None:
        """Create the work queues and the periodic passes of this incarnation."""
        settings, reconciler, held_back, traces = self._settings, self._reconciler, self._held_back, Traces()
        self._queues = {queue.name: self._new_queue(queue, now) for queue in settings.queues}
        self._key_queues = [
            KeyQueue(
                queue,
                reconciler=reconciler,
                queue=self._queues[queue.name],
                traces=traces,
                held_back=held_back,
                log=log,
                objects=self._objects_of_keys(queue),
                decisions=self._decisions,
            )
            for queue in settings.queues
        ]
        self._passes = [
            PeriodicPass(
                entry, reconciler=reconciler, traces=traces, held_back=held_back, log=log, decisions=self._decisions
            )
            for entry in settings.passes
        ]
        for periodic in self._passes:
            periodic.settings.meter.follow(periodic, self.clock)
        self._sources = TaskSources([*self._key_queues, *self._passes])
        self._source_vitals = (*self._key_queues, *self._passes)

    def stopped(self) -> None:
        incarnation = self.context.incarnation
        if incarnation == self.context.system.incarnation(self.name):  # otherwise they belong to the next incarnation
            for listener, _ in self._settings.sources:
                listener.stop()
            for queue in self._settings.queues:
                queue.meter.ended()
            self._settings.meter.hot_loops(0)
        if self._functions is not None:
            self._functions.withdraw(self.name, incarnation)
        if self._calls is not None:
            self._calls.cancel(self.name, incarnation + 1)

    def _objects_of_keys(self, queue: QueueSettings) -> list[AnyTable]:
        """Return the tables whose objects are the keys of this queue."""
        ids = dict.fromkeys(watch.resource.id for watch in queue.watches if watch.to is itself)
        return [self._static[resource_id] for resource_id in ids if resource_id in self._static]

    def _new_queue(self, settings: QueueSettings, now: float) -> WorkQueue[Any]:
        make: type[WorkQueue[Any]] = EventsFirst if settings.events_first else WorkQueue
        priority_of, tables = settings.priority_of, self._tables
        queue = make(
            now=now,
            meter=settings.meter,
            per_key=settings.backoff,
            qps=settings.retry_qps,
            burst=settings.retry_burst,
            chance=self._random.random,
            turn_of=settings.turn_of,
            priority_of=None if priority_of is None else lambda key: priority_of(key, tables),
        )
        settings.meter.follow(queue, self.clock)
        return queue

    def receive(self, message: Any) -> Any:
        answer, began = None, self.clock.monotonic()
        match message:
            case WatchEvents(events=events, matches=matches):
                for event, matched in zip(events, matches, strict=True):
                    self._keys.add_concerned(event.resource, Change.of_event(event), matched)
                self._since_pump += len(events) - 1
            case Settled():
                self._work.settle(message)
            case Wake():
                pass  # due work is taken from the queues below
            case Synced(resource=table_id):
                self._synced(table_id)
            case TablesChanged() if self._discovered is not None:
                self._follow_tables(self._discovered, message)
            case Attached():
                self._take_attached(message)
            case Restarted(name=name, incarnation=incarnation):
                self._peers.restarted(name, incarnation)
                self._pass_on(message)
            case Pause():
                self._paused = True
            case Resume():
                self._paused = False
                self._may_begin_since = self.clock.monotonic()
            case Drain():
                self._draining, self._drained = True, False
                self._log_lifecycle("stopping")
            case EnqueueKey(queue=queue, key=key):
                self._enqueue(Enqueue(queue, key))
            case Describe():
                answer = description(self.name, self._description())
            case ShowPage(path=path, query=query):
                answer = encode(self._page(path, query))
            case _:
                if not self._pass_on(message):
                    super().receive(message)
        self._since_pump += 1
        if self._since_pump >= BATCH or self.is_last:
            self._since_pump = 0
            self._pump(began)
        return answer

    @property
    def at_work(self) -> InWork | None:
        """Return the key that its thread reconciles now. Called from any thread, also while this one hangs."""
        return None if self._in_hand.task is None else self._work.at_work

    def doing(self) -> str:
        at = self.at_work
        return "" if at is None else f"{at.queue} {at.key}".rstrip()

    def pinged(self) -> None:
        """Serve the work queues, which earlier messages of this batch left to the next one."""
        if self._since_pump:
            self._since_pump = 0
            self._pump(self.clock.monotonic())

    def _pass_on(self, message: Any) -> bool:
        """Pass a message to the reconciler and enqueue the returned keys. Return False if it takes no messages."""
        if self._receiver is None:
            return False
        for enqueue in self._receiver.on_message(message):
            self._enqueue(enqueue)
        return True

    def _enqueue(self, enqueue: Enqueue) -> None:
        """Enqueue a key. Raises KeyError for a queue that this controller does not have."""
        self._queues[enqueue.queue].add_after(enqueue.key, enqueue.after, self.clock.monotonic())

    def _wake_from_outside(self, source: str, queue: str, key: PlainKey) -> None:
        """Enqueue a key for a source. Called on a thread of the source."""
        self.context.system.tell(self.name, EnqueueKey(queue, key), sender=f"source:{source}")

    def _follow_tables(self, discovered: DiscoveredTables, change: TablesChanged) -> None:
        discovered.follow(change)
        self._peers.forget_informers(lambda resource_id: resource_id in self._static or resource_id in discovered)
        self._pass_on(change)

    # Start.

    def _synced(self, table_id: str) -> None:
        self._readiness.unsynced.discard(table_id)
        if not self._listing_began:
            self._begin_if_ready()
        elif self._discovered is not None and table_id in self._discovered:
            if table_id not in self._discovered.arriving:  # as below
                self._keys.add_all_of(table_id)
        else:  # a new informer reports deleted objects, but not necessarily added ones
            self._keys.add_all()

    def _take_attached(self, attached: Attached) -> None:
        if attached.incarnation != self.context.incarnation:
            return
        if self._readiness.attached:
            under_way = {(ticket, index) for ticket, index in attached.under_way}
            self._work.lose(last_ticket=self._peers.ticket_of_attach, under_way=under_way)
        else:
            self._readiness.attach(attached.versions)
            self._begin_if_ready()

    def _begin_if_ready(self) -> None:
        if not self._readiness.is_reached():
            return
        if not self._listing_began:
            self._listing_began = True
            self._keys.add_all()
        if self._keys.is_listing:
            return
        now = self.clock.monotonic()
        for periodic in self._passes:
            periodic.make_due(now)
        self._begun, self._may_begin_since = True, now
        for listener, queue in self._settings.sources:
            listener.start(functools.partial(self._wake_from_outside, listener.name, queue))
        self._timetable.begin_resyncs(now)
        self.log.info("Caches are synced", v=1, controller=self._settings.name)

    def _log_lifecycle(self, which: Literal["starting", "stopping"]) -> None:
        """Log the start or the end with upstream's text. Verbosity 1, unlike upstream: few lines without --v."""
        name = self._settings.name
        lines = LIFECYCLE_LINES.get(name, OTHER)
        self.log.info(getattr(lines, which), v=1, **{**lines.facts, "controller": lines.facts.get("controller", name)})

    # Serving the queues.

    def _pump(self, now: float) -> None:
        """Begin the tasks that may begin, and schedule a wake-up for the next one that is due.

        now: when the handling of the message began. What becomes due during that is left to the wake-up, because this
            is the only time that a replay of the message has.
        """
        if self._keys.is_listing:
            self._keys.list_some()
        if not self._begun:
            self._begin_if_ready()
        if self._begun and self._discovered is not None:
            self._discovered.look_for_arrivals()
        timetable, tables = self._timetable, self._tables
        if now >= timetable.due and timetable.is_tidying_due(now):
            for overlay in tables.overlays().values():
                overlay.prune()
            self._peers.look_for_restarts()
            self._report_hot_loops(now)
            if self._may_begin():
                self._work.review_denied(now)
        if tables.has_written:
            self._keys.add_unseen()
        if tables.ineffective.unreported:
            self._report_ineffective_patches()
        if now >= timetable.due and timetable.is_resync_due(now):
            tables.ineffective.forget()
            self._keys.add_all()
        if self._keys.is_listing:
            self.tell_frame(self.name, WAKE_FRAME)
        if self._has_timeouts:
            self._work.end_overdue(now)
        for _ in range(BATCH):
            if not self._may_begin() or (task := self._sources.take(now)) is None:
                break
            self._work.begin(task, now)
        else:
            self.tell_frame(self.name, WAKE_FRAME)  # end this turn: a long one would count as hung
        if self._draining and not self._work and not self._drained:
            self._drained = True
            self.tell(self.context.system.supervisor, Drained(self.name))
        self._ask_for_wake(now)
        self._say_vitals()

    def _report_ineffective_patches(self) -> None:
        unreported = self._tables.ineffective.unreported
        for patch in unreported:
            self.log.warning(
                "patch changed nothing, holding it back: the server ignores or sets back these fields",
                controller=self._settings.name,
                resource=patch.resource.name,
                key=patch.key,
                fields=list(patch.fields),
            )
        unreported.clear()

    def _report_hot_loops(self, now: float) -> None:
        loops = self._work.loops
        for loop in loops.look(now):
            self.log.warning(
                "hot loop: the controller writes the same object again and again",
                controller=self._settings.name,
                resource=name_of_resource(loop.resource),
                key=loop.key,
                writes_per_second=round(loop.rate, 1),
            )
        self._settings.meter.hot_loops(len(loops.loops))

    def _may_begin(self) -> bool:
        return self._begun and not self._paused and not self._draining and not self.context.fenced

    def _ask_for_wake(self, now: float) -> None:
        soonest = self._timetable.due
        if self._is_waiting_for_versions():
            soonest = min(soonest, now + BARRIER_CHECK)
        due = self._sources.next_due()
        if due is not None and due < soonest and self._may_begin():
            soonest = due  # otherwise the event that allows tasks to begin also serves the queues
        if self._has_timeouts:
            soonest = min(soonest, self._work.next_deadline())
        if self._held_back.hangs:
            soonest = min(soonest, now + LOOK_AGAIN)  # no message reports that a hung thread has returned
        self.wake_at(soonest)

    def _is_waiting_for_versions(self) -> bool:
        """Report whether it waits for a table to reach a version, which no message reports."""
        if not self._begun:
            return self._readiness.waits_for_versions
        if self._discovered is None:
            return False
        tables = self._all_tables
        return any(tables[resource_id].synced for resource_id in self._discovered.arriving if resource_id in tables)

    def pending(self) -> Iterator[PendingKey]:
        """Yield every key of its queues that is queued, delayed or being reconciled."""
        for name, queue in self._queues.items():
            for key, state in queue.pending().items():
                awaited = self._work.awaited(name, str(key)) if state.taken is not None else []
                yield PendingKey(name, str(key), state, awaited)

    # Status.

    def _description(self) -> ControllerDescription:
        now = self.clock.monotonic()
        queues = {queue.settings.name: queue.description(now) for queue in self._key_queues}
        of_all = queues.values()
        return ControllerDescription(
            ready=self._begun,
            paused=self._paused,
            draining=self._draining,
            waiting_for_tables=tuple(sorted(self._readiness.unsynced)),
            waiting_for_versions=self._readiness.missing_versions(),
            queued=sum(queue.queued for queue in of_all),
            delayed=sum(queue.delayed for queue in of_all),
            in_work=sum(queue.in_work for queue in of_all),
            longest_running_seconds=max((queue.longest_running_seconds for queue in of_all), default=0.0),
            reconciled=self._work.reconciled,
            failed=self._work.failed,
            own_writes_unseen={r: len(o) for r, o in self._tables.overlays().items() if len(o)},
            queues=queues,
            passes={periodic.settings.name: periodic.description(now) for periodic in self._passes},
        )

    def _page(self, path: str, query: Mapping[str, Sequence[str]]) -> PageShown:
        reconciler = self._reconciler
        page = reconciler.debug_page(path, query) if isinstance(reconciler, Debuggable) else None
        return PageShown(False) if page is None else PageShown(True, page.content_type, page.body.encode())

    def _misread(self) -> Iterator[Misread]:
        for resource, obj in self._tables.misread():
            yield Misread(resource.name, obj.key, obj.why)

    def _say_vitals(self) -> None:
        if self.context.fenced:
            return  # the next incarnation publishes its own
        work, discovered, unsynced = self._work, self._discovered, self._readiness.unsynced
        # Most messages change none of this, and the rest of the vitals is empty in most controllers.
        changing = (self._begun, self._paused, self._may_begin_since)
        is_plain = discovered is None and not (
            unsynced or self._held_back.hangs or self._tables.has_models or work.rights.refused
        )
        if is_plain and changing == self._published:
            return
        self._published = changing if is_plain else ()
        vitals = ControllerVitals(
            ready=self._begun,
            paused=self._paused,
            waiting_for_tables=tuple(unsynced),
            work=work,
            at=self.clock.monotonic(),
            discovered=tuple(discovered) if discovered is not None else (),
            arriving=discovered.arriving if discovered is not None else NONE_ARRIVING,
            held=tuple(self._held_back) if self._held_back.hangs else (),
            misread=tuple(self._misread()) if self._tables.has_models else (),
            denied=tuple(work.rights.denied()) if work.rights.refused else (),
            sources=self._source_vitals,
            may_begin_since=self._may_begin_since,
        )
        self._vitals.say(self.name, vitals)
