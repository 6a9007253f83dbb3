"""Plan of a controller: turns its spec into settings and an actor."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from kcm.actors.app.shared_parts import Assembly
from kcm.actors.engine.controller import (
    Controller,
    ControllerSettings,
    DecisionMemory,
    HeldBack,
    InHand,
    PassSettings,
    QueueSettings,
    task_log,
)
from kcm.actors.engine.elector import Ownership
from kcm.actors.engine.manager.plan import ControllerPlan
from kcm.actors.options import Options
from kcm.actors.reconciliation.actor_names import (
    MIGRATION_ELECTOR,
    controller_name,
    elector_name,
    group_elector_name,
    recorder_name,
)
from kcm.actors.reconciliation.forgotten_steps import warn_of_forgotten_steps
from kcm.actors.reconciliation.specs import AnyQueue, ControllerContext, ControllerSpec, Pass
from kcm.runtime.calls.listeners import SourceRunner
from kcm.runtime.metrics.meters import ReconcileMeter, WorkQueueMeter
from kcm.runtime.scheduling.work_queue import QueueMeter
from kcm.runtime.system.actor import ActorSpec, Context
from kcm.runtime.tables.tables import Tables
from kcm.runtime.tables.view import tables_of

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kcm.actors.engine.elector.groups import ControllerGroups

OWN_MODULES = "kcm.actors."


def ownership(assembly: Assembly, spec: ControllerSpec) -> Ownership:
    """Return the lease under which this manager runs a controller."""
    if assembly.election is None or spec.by_its_flags_alone:  # as upstream, the token controller is never migrated
        return Ownership.MAIN
    migration = assembly.election.migration
    if migration is None:
        return Ownership.MAIN
    return migration.ownership(spec.name, component=assembly.election.component)


def elector_of(assembly: Assembly, spec: ControllerSpec) -> str:
    """Return the name of the elector of the lease under which this manager runs a controller."""
    if ownership(assembly, spec) is Ownership.MIGRATED:
        return MIGRATION_ELECTOR
    if assembly.groups is not None:
        return group_elector_name(assembly.groups.group_of(spec.name))
    return elector_name(spec.home_cluster if assembly.clusters else "")


def recorder_of(assembly: Assembly, spec: ControllerSpec) -> str:
    """Return the name of the recorder of a controller, which writes under the same lease."""
    if assembly.groups is not None:
        return recorder_name(assembly.groups.group_of(spec.name))
    return recorder_name(spec.home_cluster if assembly.clusters else "")


def controller_plan(assembly: Assembly, spec: ControllerSpec, *, seed: int) -> ControllerPlan:
    tables = assembly.seen[spec.name]
    settings = _controller_settings(assembly, spec, seed=seed)
    decisions = assembly.decisions[spec.name] = DecisionMemory()
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
            vitals=assembly.vitals,
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
            decisions=decisions,
            functions=assembly.functions,
            calls=assembly.calls,
            tracing=assembly.tracing,
        )

    return ControllerPlan(
        spec=ActorSpec(name=controller_name(spec.name), build=build, never_blocks=spec.never_blocks),
        resources=tuple(tables),
        tables=tuple(part.id for table in tables.values() for part in tables_of(table)),
        child=lambda kind, name: spec.children[kind](name, controller_context(Tables(tables))),
        discovers=spec.discovers,
        elector=elector_of(assembly, spec),
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
        client=client_of(spec),
        component=spec.component or spec.name,
        recorder=recorder_of(assembly, spec),
        queues=tuple(_queue(assembly, queue, queue_name(spec, queue)) for queue in spec.queues),
        passes=tuple(_pass(assembly, entry) for entry in spec.passes),
        discovers=spec.discovers,
        resync=_resync(assembly, spec, seed=seed),
        calls=spec.calls,
        meter=ReconcileMeter(assembly.metrics, spec.name),
    )


def client_of(spec: ControllerSpec) -> str:
    return spec.client or spec.name


def queue_name(spec: ControllerSpec, queue: AnyQueue) -> str:
    return queue.name or spec.name.removesuffix("-controller")


def check_shared_clients(groups: ControllerGroups, specs: Iterable[ControllerSpec]) -> None:
    """Check that controllers of one client are in one group, because they share its rate limit and its account.

    Raises ValueError that names two controllers that are apart.
    """
    first: dict[str, str] = {}  # by client
    for spec in specs:
        other = first.setdefault(client_of(spec), spec.name)
        if groups.group_of(other) != groups.group_of(spec.name):
            raise ValueError(
                f"{other} and {spec.name} send requests as {client_of(spec)} and must be in one group, but are in "
                f"{groups.group_of(other)!r} and {groups.group_of(spec.name)!r}"
            )


def _queue(assembly: Assembly, queue: AnyQueue, name: str) -> QueueSettings:
    return QueueSettings(
        name=name,
        watches=tuple(watch.resolved(assembly.options) for watch in queue.watches),
        reconcile=queue.reconcile,
        concurrency=value_of(queue.concurrency, assembly.options),
        max_retries=queue.max_retries,
        terminal=queue.terminal,
        backoff=queue.backoff,
        retry_qps=queue.retry_qps,
        retry_burst=queue.retry_burst,
        events_first=queue.events_first,
        turn_of=queue.turn_of,
        priority_of=queue.priority_of,
        timeout=assembly.options.generic.reconcile_timeout if queue.timeout is None else queue.timeout,
        meter=WorkQueueMeter(assembly.metrics, queue.reports_as or name),
    )


T = TypeVar("T")


def value_of(value: T | Callable[[Options], T], options: Options) -> T:
    """Return a field of a spec that is a value or a function of the options."""
    return value(options) if callable(value) else value


def _pass(assembly: Assembly, spec: Pass) -> PassSettings:
    meter = WorkQueueMeter(assembly.metrics, spec.queue) if spec.queue else QueueMeter()
    return PassSettings(name=spec.name, every=value_of(spec.every, assembly.options), run=spec.run, meter=meter)


def _resync(assembly: Assembly, spec: ControllerSpec, *, seed: int) -> float:
    """Return a random period between --min-resync-period and twice that, as upstream, so that resyncs are spread."""
    own = spec.resync(assembly.options) if callable(spec.resync) else spec.resync
    return assembly.options.generic.min_resync_period * (1 + random.Random(seed).random()) if own is None else own
