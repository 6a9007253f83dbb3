"""GET /controllers and GET /controllers/NAME: state of the controllers, and of all actors, as JSON.

The state is read from vitals and from the actor system, without messages, so it is complete while actors hang. Fields
have camelCase names; "Seconds" are durations up to `at`. Documented in docs/operations/control.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from kcm.actors.app.health import Check
from kcm.actors.engine.vitals import ChildVitals, ControllerVitals, InWork, ManagerVitals, SourceVitals
from kcm.actors.reconciliation.actor_names import (
    MANAGER,
    controller_name,
    controller_of,
    informer_name,
    is_elector,
    is_informer,
    is_recorder,
    table_of,
)
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.times import format_micro_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.health import shown_of
from kcm.runtime.system.actor_system import ActorFacts, ActorSystem
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Table

DISABLED = "Disabled"
SKIPPED = "Skipped"  # its requirement is not met
STANDBY = "Standby"  # another process leads
STARTING = "Starting"  # it waits for its tables
RUNNING = "Running"
PAUSING = "Pausing"  # it starts no reconciliation, and some are in progress
PAUSED = "Paused"  # no reconciliation is in progress
RESTARTING = "Restarting"
FAILED = "Failed"  # it failed too often, and is left stopped
STOPPING = "Stopping"  # the process shuts down


class QueueState(Struct, frozen=True, kw_only=True, rename="camel"):
    """State of one work queue."""

    name: str
    queued: int  # keys that are ready to be reconciled
    delayed: int  # keys that wait for their time, for example after a failure
    in_work: int  # keys that are being reconciled
    longest_waiting: str | None  # key that has been ready for longest; null without one
    longest_waiting_seconds: float
    longest_running: str | None  # key that has been reconciled for longest; null without one
    longest_running_seconds: float
    failures_in_a_row: int  # failed reconciliations since the last success
    failing_seconds: float  # since the first of them
    last_error: str  # key and error of the last failure of this incarnation; "" without one
    since_success_seconds: float | None  # null without a success of this incarnation


class PassState(Struct, frozen=True, kw_only=True, rename="camel"):
    """State of one periodic pass."""

    name: str
    running_seconds: float  # 0 while it does not run
    due_in_seconds: float | None  # null while it runs, and before the controller is ready
    failures_in_a_row: int
    last_error: str
    since_success_seconds: float | None


class HeldKeyState(Struct, frozen=True, kw_only=True, rename="camel"):
    """Key that is held back because its reconciliation hung. hangs: its thread still hangs."""

    queue: str
    key: str
    seconds: float
    hangs: bool


class DeniedRightState(Struct, frozen=True, kw_only=True, rename="camel"):
    """Right that the API server denies to the controller."""

    verb: str
    resource: str
    namespace: str
    times: int
    seconds: float
    message: str


class ControllerStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """State of one controller. Numbers without a queue are the sum of all queues."""

    name: str
    state: str  # one of those above
    reason: str  # why it is not Running, in one line; "" for Running
    problem: str  # text of its health check; "" while that passes
    condition: str  # short form of the problem: stuck, deaf, failing, starved, …
    enabled: bool
    paused: bool  # it starts no reconciliation
    ready: bool  # it may reconcile: its tables are complete, and contain its earlier writes
    client: str  # name of its API client, whose rate limit it shares with other controllers of this client
    actor: str  # name of its actor, in `actors`
    incarnation: int  # 0: it has not been started
    restarts: int
    failures: int  # recent failures of its actor
    last_error: str  # of its actor
    up_seconds: float | None  # null while it does not run
    mailbox: int
    busy_seconds: float
    doing: str  # queue and key that its thread handles now; "" while it is idle
    queued: int
    delayed: int
    in_work: int
    longest_waiting_seconds: float
    longest_running_seconds: float
    failures_in_a_row: int
    reconciled: int  # reconciliations of this incarnation that succeeded
    failed: int
    waiting_for_tables: tuple[str, ...]
    queues: tuple[QueueState, ...]
    passes: tuple[PassState, ...]
    held: tuple[HeldKeyState, ...]
    denied: tuple[DeniedRightState, ...]
    informers: tuple[str, ...]  # actors that fill its tables; without those of discovered resources


class TableState(Struct, frozen=True, kw_only=True, rename="camel"):
    """State of an informer's table."""

    resource: str
    objects: int
    synced: bool
    age_seconds: float | None  # since the server last sent data; null if it never did
    failure: str  # of the last list or watch; "" if the server has sent data since


class ActorState(Struct, frozen=True, kw_only=True, rename="camel"):
    """State of one actor of the supervision tree."""

    name: str
    kind: str  # manager, dispatcher, recorder, elector, informer, controller, or the first part of its name
    supervisor: str  # actor that restarts it; "" for the manager, which the process restarts
    owner: str  # controller that requested it, as the queue of a zone; "" for the others
    alive: bool
    incarnation: int
    restarts: int
    failures: int  # recent ones
    gave_up: bool  # it failed too often, and is left stopped
    last_error: str
    up_seconds: float | None
    mailbox: int  # messages that wait
    handled: int  # messages that this incarnation has handled
    busy_seconds: float  # for how long it has handled the same message, as far as was observed; 0 while idle
    doing: str  # its description of that message
    hung_threads: int  # threads of earlier incarnations that have not returned
    has_thread: bool  # it has a thread of its own, because it may block
    table: TableState | None  # of an informer


class SystemState(Struct, frozen=True, kw_only=True, rename="camel"):
    """Response to GET /controllers."""

    at: str  # RFC 3339, with microseconds
    leading: bool
    leader: str  # holder of the lease as last seen; "" without leader election
    stopping: bool
    controllers: tuple[ControllerStatus, ...]
    actors: tuple[ActorState, ...]


class ControllerDetails(Struct, frozen=True, kw_only=True, rename="camel"):
    """Response to GET /controllers/NAME. actors: its own, those that it requested, and its informers."""

    at: str  # RFC 3339, with microseconds
    leading: bool
    leader: str
    stopping: bool
    controller: ControllerStatus
    actors: tuple[ActorState, ...]


class _Moment(Struct, frozen=True):
    """Values from which all states of one response are computed."""

    now: float
    manager: ManagerVitals
    facts: Mapping[str, ActorFacts]
    busy: Mapping[str, float]


NOTHING_YET = ManagerVitals(leading=False, leader="", draining=False, children={}, at=0.0)


class StateReader:
    """Reader of the states, on any thread. Two callers at once do no harm: times of busy actors become shorter."""

    def __init__(
        self,
        *,
        actors: ActorSystem,
        vitals: Vitals,
        tables: Mapping[str, Table],
        clock: Clock,
        specs: Sequence[ControllerSpec],
        skipped: Iterable[str],
        informers_of: Mapping[str, Sequence[str]],
        electors: Mapping[str, str],
        checks: Mapping[str, Check],
        elsewhere: Callable[[str], str | None],
    ) -> None:
        """Create a reader.

        skipped: names of the controllers whose requirements are not met.
        informers_of: Table.ids of the static tables of each controller.
        electors: elector of the lease under which each controller runs.
        checks: health checks by name.
        elsewhere: see Assembly.elsewhere.
        """
        self._elsewhere = elsewhere
        self._actors, self._vitals, self._tables, self._clock = actors, vitals, tables, clock
        self._electors = electors
        self._specs, self._skipped, self._checks = tuple(specs), frozenset(skipped), checks
        self._informers_of = {name: tuple(map(informer_name, tables)) for name, tables in informers_of.items()}
        self._turns: dict[str, tuple[int, int, float]] = {}  # incarnation, turn, and when it was first seen

    def system(self) -> SystemState:
        moment = self._moment()
        manager = moment.manager
        return SystemState(
            at=format_micro_time(self._clock.now()),
            leading=manager.leading,
            leader=manager.leader,
            stopping=manager.draining,
            controllers=tuple(self._controller(spec, moment) for spec in self._specs),
            actors=tuple(self._actor(name, moment) for name in self._names(moment)),
        )

    def details(self, spec: ControllerSpec) -> ControllerDetails:
        """Return the state of one controller and its actors."""
        moment = self._moment()
        state, manager = self._controller(spec, moment), moment.manager
        owned = [actor for actor, child in manager.children.items() if child.owner == spec.name]
        names = [name for name in (state.actor, *owned, *state.informers) if name in moment.facts or name in owned]
        return ControllerDetails(
            at=format_micro_time(self._clock.now()),
            leading=manager.leading,
            leader=manager.leader,
            stopping=manager.draining,
            controller=state,
            actors=tuple(self._actor(name, moment) for name in names),
        )

    def state(self, spec: ControllerSpec) -> ControllerStatus:
        return self._controller(spec, self._moment())

    def leader(self) -> str | None:
        """Return the holder of the lease, "" if it is unknown; None if this process leads."""
        manager = self._vitals.of(MANAGER, ManagerVitals) or NOTHING_YET
        return None if manager.leading else manager.leader

    def _moment(self) -> _Moment:
        now = self._clock.monotonic()
        facts = {actor.name: actor for actor in self._actors.facts()}
        manager = self._vitals.of(MANAGER, ManagerVitals) or NOTHING_YET
        return _Moment(now, manager, facts, self._busy(facts, manager.children, now))

    def _busy(
        self, facts: Mapping[str, ActorFacts], children: Mapping[str, ChildVitals], now: float
    ) -> dict[str, float]:
        """Return for how many seconds each busy actor has handled the same message, at least.

        Actors do not record when they begin, which would cost time for each message. The manager notes the turn of
        each busy actor at its ticks, and this reader at each response, so frequent readers see exact times.
        """
        turns, busy = self._turns, {}
        for name, actor in facts.items():
            if actor.turns % 2 == 0:
                continue
            seen = turns.get(name)
            if seen is None or seen[:2] != (actor.incarnation, actor.turns):
                turns[name] = seen = (actor.incarnation, actor.turns, now)
            child = children.get(name)
            since = seen[2] if child is None or child.busy_since is None else min(seen[2], child.busy_since)
            busy[name] = max(0.0, now - since)
        for name in turns.keys() - busy.keys():
            turns.pop(name, None)
        return busy

    def _names(self, moment: _Moment) -> list[str]:
        """Return the names of all actors: the manager, then its children in the order of their start."""
        return list(dict.fromkeys([MANAGER, *moment.manager.children, *moment.facts]))

    # Actors.

    def _actor(self, name: str, moment: _Moment) -> ActorState:
        facts, child, now = moment.facts.get(name), moment.manager.children.get(name), moment.now
        incarnation = self._actors.incarnation(name)
        started = None if child is None else child.started_at
        return ActorState(
            name=name,
            kind=_kind(name),
            supervisor="" if name == MANAGER else MANAGER,
            owner="" if child is None else child.owner,
            alive=facts is not None,
            incarnation=incarnation,
            restarts=max(0, incarnation - 1),
            failures=0 if child is None else child.failures,
            gave_up=child is not None and child.gave_up,
            last_error="" if child is None else child.last_error,
            up_seconds=None if facts is None or started is None else _seconds(now - started),
            mailbox=0 if facts is None else facts.mailbox,
            handled=0 if facts is None else max(0, (facts.turns - 1) // 2),
            busy_seconds=_seconds(moment.busy.get(name, 0.0)),
            doing=self._actors.doing(name) if name in moment.busy else "",
            hung_threads=0 if facts is None else facts.hung_threads,
            has_thread=facts is not None and facts.has_thread,
            table=self._table(name, now) if is_informer(name) else None,
        )

    def _table(self, informer: str, now: float) -> TableState | None:
        table = self._tables.get(table_of(informer))
        if table is None:
            return None
        age = table.age(now)
        return TableState(
            resource=table.resource.id,
            objects=len(table),
            synced=table.synced,
            age_seconds=None if age is None else _seconds(age),
            failure=table.failure(),
        )

    # Controllers.

    def _controller(self, spec: ControllerSpec, moment: _Moment) -> ControllerStatus:
        name, actor, now = spec.name, controller_name(spec.name), moment.now
        child, facts = moment.manager.children.get(actor), moment.facts.get(actor)
        vitals = self._vitals.of(actor, ControllerVitals) if facts is not None else None
        if vitals is not None and child is not None and vitals.at < (child.started_at or 0.0):
            vitals = None  # of an earlier incarnation
        state, reason = self._summary(spec, moment, vitals)
        trouble = self._checks[name]() if name in self._checks and child is not None else None
        sources = vitals.sources if vitals is not None else ()
        queues = tuple(_queue(source, now) for source in sources if not source.is_pass)
        incarnation = self._actors.incarnation(actor)
        return ControllerStatus(
            name=name,
            state=state,
            reason=reason,
            problem=str(trouble or ""),
            condition="" if trouble is None else shown_of(trouble),
            enabled=name in moment.manager.wanted,
            paused=vitals.paused if vitals is not None else name in moment.manager.paused,
            ready=vitals is not None and vitals.ready,
            client=spec.client or name,
            actor=actor,
            incarnation=incarnation,
            restarts=max(0, incarnation - 1),
            failures=0 if child is None else child.failures,
            last_error="" if child is None else child.last_error,
            up_seconds=None
            if facts is None or child is None or child.started_at is None
            else _seconds(now - child.started_at),
            mailbox=0 if facts is None else facts.mailbox,
            busy_seconds=_seconds(moment.busy.get(actor, 0.0)),
            doing=self._actors.doing(actor) if actor in moment.busy else "",
            queued=sum(queue.queued for queue in queues),
            delayed=sum(queue.delayed for queue in queues),
            in_work=sum(queue.in_work for queue in queues),
            longest_waiting_seconds=max((queue.longest_waiting_seconds for queue in queues), default=0.0),
            longest_running_seconds=max((queue.longest_running_seconds for queue in queues), default=0.0),
            failures_in_a_row=max((source.history.failures for source in sources), default=0),
            reconciled=0 if vitals is None else vitals.work.reconciled,
            failed=0 if vitals is None else vitals.work.failed,
            waiting_for_tables=() if vitals is None else vitals.waiting_for_tables,
            queues=queues,
            passes=tuple(_pass(source, now) for source in sources if source.is_pass),
            held=()
            if vitals is None
            else tuple(
                HeldKeyState(queue=held.queue, key=held.key, seconds=_seconds(now - held.since), hangs=held.hangs)
                for held in vitals.held
            ),
            denied=()
            if vitals is None
            else tuple(
                DeniedRightState(
                    verb=right.verb,
                    resource=right.resource,
                    namespace=right.namespace,
                    times=right.times,
                    seconds=_seconds(now - right.since),
                    message=right.message,
                )
                for right in vitals.denied
            ),
            informers=self._informers_of.get(name, ()),
        )

    def _summary(self, spec: ControllerSpec, moment: _Moment, vitals: ControllerVitals | None) -> tuple[str, str]:
        """Return the state of a controller, and why it does not run."""
        manager, actor = moment.manager, controller_name(spec.name)
        child = manager.children.get(actor)
        if spec.name not in manager.wanted:
            return (SKIPPED, spec.needs) if spec.name in self._skipped else (DISABLED, "")
        if manager.draining:
            return STOPPING, "the process shuts down"
        if child is None:
            if self._electors.get(spec.name) in manager.leads:
                return STARTING, "its start is due"
            if manager.leading:  # groups of controllers, leader migration, or several clusters have Leases of their own
                replica = self._elsewhere(spec.name)
                return STANDBY, f"{replica or 'another process'} holds the Lease under which it runs"
            return STANDBY, f"{manager.leader or 'another process'} leads"
        if child.gave_up:
            return FAILED, f"failed too often and is left stopped: {child.last_error}"
        if actor not in moment.facts:
            is_first = child.started_at is None and not child.failures
            return (STARTING, "its start is due") if is_first else (RESTARTING, child.last_error)
        if vitals is None:
            return STARTING, "has not said anything yet"
        if not vitals.ready:
            return STARTING, f"waits for {', '.join(vitals.waiting_for_tables) or 'its own earlier writes'}"
        if vitals.paused or spec.name in manager.paused:
            running = sum(source.counted().in_work for source in vitals.sources)
            if running:
                return PAUSING, f"{running} reconciliations are in progress"
            return (PAUSED, "") if vitals.paused else (PAUSING, "")
        return RUNNING, ""


def _queue(source: SourceVitals, now: float) -> QueueState:
    load, waiting, history = source.counted(), source.oldest_waiting(), source.history
    return QueueState(
        name=source.name,
        queued=load.queued,
        delayed=load.delayed,
        in_work=load.in_work,
        longest_waiting=None if waiting is None else waiting.key,
        longest_waiting_seconds=_since(waiting, now),
        longest_running=None if load.longest is None else load.longest.key,
        longest_running_seconds=_since(load.longest, now),
        failures_in_a_row=history.failures,
        failing_seconds=_seconds(now - history.failing_since) if history.failures else 0.0,
        last_error=history.last_error,
        since_success_seconds=None if history.succeeded_at is None else _seconds(now - history.succeeded_at),
    )


def _pass(source: SourceVitals, now: float) -> PassState:
    load, history = source.counted(), source.history
    return PassState(
        name=source.name,
        running_seconds=_since(load.longest, now),
        due_in_seconds=None if load.due is None else _seconds(load.due - now),
        failures_in_a_row=history.failures,
        last_error=history.last_error,
        since_success_seconds=None if history.succeeded_at is None else _seconds(now - history.succeeded_at),
    )


def _kind(name: str) -> str:
    if name == MANAGER:
        return "manager"
    if controller_of(name) is not None:
        return "controller"
    if is_informer(name):
        return "informer"
    if is_elector(name):
        return "elector"
    if is_recorder(name):
        return "recorder"
    return name.partition(":")[0]


def _since(work: InWork | None, now: float) -> float:
    return 0.0 if work is None else _seconds(now - work.since)


def _seconds(seconds: float) -> float:
    return round(max(0.0, seconds), 3)
