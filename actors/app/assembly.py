"""Assembly of a system: turns the specs of controllers into the plan of the manager."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from kcm.actors.app.health import misread
from kcm.actors.app.tables import plan_tables
from kcm.actors.engine.controller import (
    Controller,
    ControllerSettings,
    HeldBack,
    InHand,
    PassSettings,
    QueueSettings,
    task_log,
)
from kcm.actors.engine.discovery import Discovery
from kcm.actors.engine.dispatcher import Dispatcher, DispatchLimits, saturation
from kcm.actors.engine.elector import Candidacy, Election, Elector, LeaseCandidate, Ownership, candidate_selection
from kcm.actors.engine.event_recorder import EventRecorder
from kcm.actors.engine.informer import Informer, InformerLimits, Outage
from kcm.actors.engine.manager import ControllerManager
from kcm.actors.engine.manager.plan import ControllerPlan, DiscoveredInformer, ManagerPlan, MigrationPlan, Steering
from kcm.actors.engine.server_warnings import ServerWarnings
from kcm.actors.options import Options
from kcm.actors.reconciliation.actor_names import (
    DISCOVERY,
    DISPATCHER,
    ELECTOR,
    LEASE_CANDIDATE,
    MANAGER,
    MIGRATION_ELECTOR,
    RECORDER,
    controller_name,
    informer_name,
)
from kcm.actors.reconciliation.derived import MakeTable, new_table
from kcm.actors.reconciliation.forgotten_steps import warn_of_forgotten_steps
from kcm.actors.reconciliation.outside import Functions
from kcm.actors.reconciliation.specs import AnyQueue, ControllerContext, ControllerSpec, Pass
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.objects import Key
from kcm.protocols.resources import LEASE_CANDIDATES
from kcm.runtime.calls.listeners import SourceRunner
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.client.api import Transport
from kcm.runtime.cloud.provider import CloudProvider
from kcm.runtime.metrics.families import (
    HUNG_CALLS,
    LEADER_ELECTION_MASTER_STATUS,
    LEADER_ELECTION_SLOWPATH,
    REST_CLIENT_RATE_LIMITER_DURATION,
    UNREADABLE_OBJECTS,
)
from kcm.runtime.metrics.meters import ReconcileMeter, WorkQueueMeter, rate_limiter_use
from kcm.runtime.metrics.registry import Metrics, Reading
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.limiters import TokenBucket
from kcm.runtime.scheduling.permits import Terms
from kcm.runtime.scheduling.work_queue import QueueMeter
from kcm.runtime.system.actor import ActorSpec, Context
from kcm.runtime.system.ledger import Ledger
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.tables import Tables
from kcm.runtime.tables.view import AnyTable, tables_of

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

OWN_MODULES = "kcm.actors."


class Assembly(Struct, frozen=True, kw_only=True):
    """State and services that all actors of one system share."""

    transport: Transport
    clock: Clock
    log: FilteringBoundLogger
    options: Options
    metrics: Metrics
    vitals: Vitals
    election: Election | None  # None: write without a lease
    make_table: MakeTable = new_table
    # By Table.id. Tables of discovered resources are added and removed together with their informers.
    tables: dict[str, Table] = field(default_factory=dict)
    # What each controller sees of the tables, by the controller's name and Resource.id.
    seen: dict[str, Mapping[str, AnyTable]] = field(default_factory=dict)
    # Tables that the infrastructure reads, and no controller.
    own_tables: list[Table] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    outage: Outage = field(default_factory=Outage)
    seed: int | None = None  # makes every random choice of the actors repeatable
    calls: Calls | None = None  # None, as in a replay: no external calls
    functions: Functions = field(default_factory=Functions)
    listeners: list[SourceRunner] = field(default_factory=list)
    cloud: CloudProvider | None = None
    authority: bytes = b""  # see ControllerContext
    warnings: ServerWarnings | None = None  # log of the server's warnings; None: each actor has its own


def plan_manager(assembly: Assembly, specs: Iterable[ControllerSpec], *, enabled: Iterable[str]) -> ManagerPlan:
    """Return the plan of the manager for these controllers.

    enabled: canonical names.

    Raises ValueError if two controllers have the same name, and the errors of plan_tables.
    """
    specs, chosen = tuple(spec.adapted(spec, assembly.options) for spec in specs), set(enabled)
    seeds = random.Random(assembly.seed)  # the order of draws is fixed: a replay of a journal needs the same seeds
    tables = plan_tables(specs, options=assembly.options, enabled=chosen, make_table=assembly.make_table)
    assembly.tables.update(tables.tables)
    assembly.seen.update(tables.seen)
    controllers: dict[str, ControllerPlan] = {}
    for spec in specs:
        if spec.name in controllers:
            raise ValueError(f"two controllers are named {spec.name!r}")
        controllers[spec.name] = _controller_plan(assembly, spec, seed=seeds.getrandbits(32))
    informers = {
        table_id: _informer(assembly, table, seed=seeds.getrandbits(32)) for table_id, table in assembly.tables.items()
    }
    assembly.metrics.add_source(_unreadable_objects(assembly, tuple(controllers)))
    infrastructure = [
        _dispatcher(assembly, specs, chosen),
        _recorder(seed=seeds.getrandbits(32)),
    ]
    migration: MigrationPlan | None = None
    if assembly.election is not None:
        infrastructure.append(_elector(assembly, assembly.election, seed=seeds.getrandbits(32)))
        migration = _migration_plan(assembly, assembly.election, specs)
        if assembly.election.candidacy is not None:
            infrastructure.extend(_candidate(assembly, assembly.election, assembly.election.candidacy))
    generic = assembly.options.generic
    return ManagerPlan(
        infrastructure=tuple(infrastructure),
        informers=informers,
        controllers=controllers,
        enabled=tuple(name for name in controllers if name in chosen),
        discovery=_DiscoveryPlan(assembly, seed=seeds.getrandbits(32)),
        leader_elect=assembly.election is not None,
        migration=migration,
        stand_by_on_loss=assembly.election is not None and assembly.election.stand_by,
        start_interval=generic.controller_start_interval,
        hung_after=generic.actor_hang_timeout,
        look_every=min(5.0, generic.actor_hang_timeout / 3, *_half(assembly.options.health.stuck_after)),
        drain_within=generic.controller_shutdown_timeout or float("inf"),
    )


def _half(stuck_after: float) -> list[float]:
    """Return the longest interval between supervision ticks that notices a stuck actor in time, if this is enabled."""
    return [stuck_after / 2] if stuck_after else []


def manager_spec(
    assembly: Assembly, plan: ManagerPlan, *, ended: Callable[[str], None], seed: int | None = None
) -> ActorSpec:
    steering = Steering()  # shared by all incarnations

    def build(context: Context) -> ControllerManager:
        return ControllerManager(context, plan=plan, steering=steering, vitals=assembly.vitals, ended=ended, seed=seed)

    return ActorSpec(name=MANAGER, build=build)


# Tables and their informers.


def _informer(assembly: Assembly, table: Table, *, seed: int) -> ActorSpec:
    options = assembly.options
    limits = InformerLimits(
        silence=options.generic.watch_silence_limit, streaming_lists=options.feature_gates["WatchListClient"]
    )

    def build(context: Context) -> Informer:
        return Informer(
            context,
            table=table,
            transport=assembly.transport,
            limits=limits,
            outage=assembly.outage,
            seed=seed,
            warnings=assembly.warnings,
        )

    return ActorSpec(name=informer_name(table.id), build=build, never_blocks=True)


class _DiscoveryPlan:
    """Implements kcm.actors.engine.manager.plan.DiscoveryPlan."""

    def __init__(self, assembly: Assembly, *, seed: int) -> None:
        self.actor = ActorSpec(name=DISCOVERY, build=self._discovery, never_blocks=True)
        self.informers: dict[str, DiscoveredInformer] = {}
        self._assembly, self._seeds = assembly, random.Random(seed)

    def add(self, served: ServedResource, *, metadata_only: bool) -> DiscoveredInformer:
        assembly, resource = self._assembly, served.resource
        table = assembly.tables[resource.id] = assembly.make_table(resource, metadata_only=metadata_only)
        spec = _informer(assembly, table, seed=self._seeds.getrandbits(32))
        informer = self.informers[resource.id] = DiscoveredInformer(spec, served, metadata_only)
        return informer

    def drop(self, resource_id: str) -> None:
        self.informers.pop(resource_id, None)
        self._assembly.tables.pop(resource_id, None)

    def _discovery(self, context: Context) -> Discovery:
        assembly = self._assembly
        return Discovery(context, transport=assembly.transport, audience=MANAGER, vitals=assembly.vitals)


def _unreadable_objects(assembly: Assembly, controllers: tuple[str, ...]) -> Callable[[], Iterable[Reading]]:
    """Return a source of metrics: unreadable objects by resource, with those that a controller's model rejects."""

    def read() -> Iterable[Reading]:
        of_models = Counter(obj.resource for obj in misread(assembly.vitals, controllers))
        found: dict[str, set[Key]] = {}  # a set, because several tables may contain an object
        for table in list(assembly.tables.values()):
            found.setdefault(table.resource.name, set()).update(obj.key for obj in table.unreadable())
        for name, keys in found.items():
            yield UNREADABLE_OBJECTS, (name,), float(len(keys) + of_models[name])

    return read


# The infrastructure.


def _dispatcher(assembly: Assembly, specs: Iterable[ControllerSpec], enabled: Container[str]) -> ActorSpec:
    """Return the spec of the dispatcher.

    enabled: names of the specs that run; the metrics show the use of their rate limits from the start.
    """
    client, election = assembly.options.client_limits, assembly.election
    # As client-go: 0 selects its defaults, and only a negative rate disables the limit.
    limits = DispatchLimits(
        qps=client.qps or 5.0,
        burst=client.burst or 10,
        needs_lease=election is not None,
        lease_timeout=election.request_timeout if election is not None else 0.0,
        electors={
            controller_name(spec.name): MIGRATION_ELECTOR
            for spec in specs
            if ownership(assembly, spec) is Ownership.MIGRATED
        },
    )
    now, terms = assembly.clock.monotonic(), Terms()
    own = _own_limits(specs, assembly.options)
    clients = dict.fromkeys([*(_client(spec) for spec in specs if spec.name in enabled), *own])
    buckets = {client: _bucket(own.get(client, NO_OWN), limits, now) for client in clients}
    assembly.metrics.add_source(rate_limiter_use(lambda: saturation(buckets, assembly.clock.monotonic())))
    if assembly.calls is not None:
        assembly.metrics.gauge(HUNG_CALLS).read_from(partial(_hung_calls, assembly.calls))
    waited = assembly.metrics.histogram(REST_CLIENT_RATE_LIMITER_DURATION, "ALL", "")

    def build(context: Context) -> Dispatcher:
        return Dispatcher(
            context,
            transport=assembly.transport,
            ledger=assembly.ledger,
            limits=limits,
            waited=lambda _client, seconds: waited.observe(seconds),
            buckets=buckets,
            calls=assembly.calls,
            functions=assembly.functions,
            cloud=assembly.cloud,
            terms=terms,
            warnings=assembly.warnings,
        )

    return ActorSpec(name=DISPATCHER, build=build, never_blocks=True)


NO_OWN: tuple[float | None, int | None] = (None, None)


def _bucket(own: tuple[float | None, int | None], limits: DispatchLimits, now: float) -> TokenBucket:
    """Return a client's bucket. As in client-go, a rate of 0 selects the general limit, and below 0 is no limit."""
    qps, burst = own
    return TokenBucket(qps=qps or limits.qps, burst=burst or limits.burst, now=now)


def _own_limits(specs: Iterable[ControllerSpec], options: Options) -> dict[str, tuple[float | None, int | None]]:
    """Return qps and burst by client, from the specs. Raises ValueError if specs of one client differ."""
    own: dict[str, tuple[float | None, int | None]] = {}
    for spec in specs:
        chosen = (_value(spec.qps, options), _value(spec.burst, options))
        if chosen != NO_OWN and own.setdefault(_client(spec), chosen) != chosen:
            raise ValueError(f"{spec.name} and another controller give different rate limits to {_client(spec)}")
    return own


def _hung_calls(calls: Calls) -> float:
    return len(calls.hung())


def _recorder(*, seed: int) -> ActorSpec:
    return ActorSpec(name=RECORDER, build=lambda context: EventRecorder(context, seed=seed), never_blocks=True)


def _candidate(assembly: Assembly, election: Election, candidacy: Candidacy) -> Iterable[ActorSpec]:
    """Return the candidate of coordinated leader election, and the informer of its LeaseCandidate."""
    table = assembly.make_table(LEASE_CANDIDATES, selection=candidate_selection(election))
    assembly.own_tables.append(table)

    def build(context: Context) -> LeaseCandidate:
        return LeaseCandidate(context, election=election, candidacy=candidacy, table=table)

    return [
        _informer(assembly, table, seed=random.Random(assembly.seed).getrandbits(32)),
        ActorSpec(name=LEASE_CANDIDATE, build=build, never_blocks=True),
    ]


def _migration_plan(assembly: Assembly, election: Election, specs: Iterable[ControllerSpec]) -> MigrationPlan | None:
    """Return the plan of leader migration, or None without it."""
    if election.migration is None:
        return None
    after = next((spec.name for spec in specs if spec.by_its_flags_alone), "")
    second = replace(election, name=election.migration.lease, migration=None)
    elector = _elector(assembly, second, name=MIGRATION_ELECTOR, seed=random.Random(assembly.seed).getrandbits(32))
    return MigrationPlan(elector=elector, after=after)


def ownership(assembly: Assembly, spec: ControllerSpec) -> Ownership:
    """Return the lease under which this manager runs a controller."""
    if assembly.election is None or spec.by_its_flags_alone:  # as upstream, the token controller is never migrated
        return Ownership.MAIN
    migration = assembly.election.migration
    if migration is None:
        return Ownership.MAIN
    return migration.ownership(spec.name, component=assembly.election.component)


def _elector_of(assembly: Assembly, spec: ControllerSpec) -> str:
    return MIGRATION_ELECTOR if ownership(assembly, spec) is Ownership.MIGRATED else ELECTOR


def _elector(assembly: Assembly, election: Election, *, seed: int, name: str = ELECTOR) -> ActorSpec:
    status = assembly.metrics.gauge(LEADER_ELECTION_MASTER_STATUS, election.name)
    slow = assembly.metrics.counter(LEADER_ELECTION_SLOWPATH, election.name)

    def build(context: Context) -> Elector:
        return Elector(
            context,
            election=election,
            audience=(DISPATCHER, MANAGER),
            vitals=assembly.vitals,
            status=status,
            slow=slow,
            seed=seed,
        )

    return ActorSpec(name=name, build=build)


# One controller.


def _controller_plan(assembly: Assembly, spec: ControllerSpec, *, seed: int) -> ControllerPlan:
    tables = assembly.seen[spec.name]
    settings = _controller_settings(assembly, spec, seed=seed)
    held_back = HeldBack(hung_after=assembly.options.generic.actor_hang_timeout)

    log = assembly.log.bind(source=spec.name, controller=spec.name)
    settings = replace(settings, sources=tuple(_sources(assembly, spec, log)))

    def controller_context(tables: Tables, log: FilteringBoundLogger = log) -> ControllerContext:
        return ControllerContext(
            tables=tables,
            clock=assembly.clock,
            log=log,
            metrics=assembly.metrics,
            options=assembly.options,
            authority=assembly.authority,
        )

    def build(context: Context) -> Controller:
        in_hand = InHand()
        return Controller(
            context,
            settings=settings,
            tables=tables,
            build=lambda tables: _reconciler(spec, controller_context(tables, task_log(log, in_hand))),
            in_hand=in_hand,
            vitals=assembly.vitals,
            seed=seed,
            all_tables=assembly.tables,
            held_back=held_back,
            functions=assembly.functions,
            calls=assembly.calls,
        )

    return ControllerPlan(
        spec=ActorSpec(name=controller_name(spec.name), build=build, never_blocks=spec.never_blocks),
        resources=tuple(tables),
        tables=tuple(part.id for table in tables.values() for part in tables_of(table)),
        child=lambda kind, name: spec.children[kind](name, controller_context(Tables(tables))),
        discovers=spec.discovers,
        elector=_elector_of(assembly, spec),
    )


def _sources(assembly: Assembly, spec: ControllerSpec, log: FilteringBoundLogger) -> Iterable[tuple[SourceRunner, str]]:
    """Yield each source of the controller with the name of its queue. Nothing in a replay, which has no calls."""
    if assembly.calls is None:
        return
    for source in spec.sources:
        name = f"{spec.name}/{source.name}"
        listener = SourceRunner(name, source.listen, host=assembly.calls, clock=assembly.clock, log=log)
        assembly.listeners.append(listener)
        yield listener, spec.queue_named(source.queue)


def _reconciler(spec: ControllerSpec, context: ControllerContext) -> Any:
    reconciler = spec.build(context)
    if not type(reconciler).__module__.startswith(OWN_MODULES):  # a test checks ours, and parsing takes memory
        functions: list[Callable[..., Any]] = [queue.reconcile for queue in spec.queues]
        functions += [entry.run for entry in spec.passes]
        warn_of_forgotten_steps(reconciler, functions)
    return reconciler


def _controller_settings(assembly: Assembly, spec: ControllerSpec, *, seed: int) -> ControllerSettings:
    return ControllerSettings(
        name=spec.name,
        client=_client(spec),
        component=spec.component or spec.name,
        queues=tuple(_queue(assembly, queue, spec.name.removesuffix("-controller")) for queue in spec.queues),
        passes=tuple(_pass(assembly, entry) for entry in spec.passes),
        discovers=spec.discovers,
        resync=_resync(assembly, spec, seed=seed),
        calls=spec.calls,
        meter=ReconcileMeter(assembly.metrics, spec.name),
        reconcile_timeout=assembly.options.generic.reconcile_timeout,
    )


def _client(spec: ControllerSpec) -> str:
    return spec.client or spec.name


def _queue(assembly: Assembly, queue: AnyQueue, default_name: str) -> QueueSettings:
    name = queue.name or default_name
    return QueueSettings(
        name=name,
        watches=tuple(watch.resolved(assembly.options) for watch in queue.watches),
        reconcile=queue.reconcile,
        concurrency=_value(queue.concurrency, assembly.options),
        max_retries=queue.max_retries,
        terminal=queue.terminal,
        backoff=queue.backoff,
        retry_qps=queue.retry_qps,
        retry_burst=queue.retry_burst,
        events_first=queue.events_first,
        turn_of=queue.turn_of,
        meter=WorkQueueMeter(assembly.metrics, queue.reports_as or name),
    )


T = TypeVar("T")


def _value(value: T | Callable[[Options], T], options: Options) -> T:
    """Return a field of a spec that is a value or a function of the options."""
    return value(options) if callable(value) else value


def _pass(assembly: Assembly, spec: Pass) -> PassSettings:
    meter = WorkQueueMeter(assembly.metrics, spec.queue) if spec.queue else QueueMeter()
    return PassSettings(name=spec.name, every=_value(spec.every, assembly.options), run=spec.run, meter=meter)


def _resync(assembly: Assembly, spec: ControllerSpec, *, seed: int) -> float:
    """Return a random period between --min-resync-period and twice that, as upstream, so that resyncs are spread."""
    own = spec.resync(assembly.options) if callable(spec.resync) else spec.resync
    return assembly.options.generic.min_resync_period * (1 + random.Random(seed).random()) if own is None else own
