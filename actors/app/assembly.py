"""From the specs of controllers to the plan that the manager carries out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from actors.engine.controller import Controller, ControllerSettings, PassSettings, QueueSettings
from actors.engine.dispatcher import Dispatcher, DispatchLimits, saturation
from actors.engine.elector import Election, Elector
from actors.engine.event_recorder import EventRecorder
from actors.engine.informer import Informer, InformerLimits
from actors.engine.manager import ControllerManager
from actors.engine.manager.plan import ControllerPlan, ManagerPlan, Steering
from actors.options import Options
from actors.reconciliation.actor_names import DISPATCHER, ELECTOR, MANAGER, RECORDER, controller_name, informer_name
from actors.reconciliation.derived import new_table
from actors.reconciliation.specs import AnyQueue, ControllerContext, ControllerSpec, Pass
from protocols.resources import Resource
from runtime.client.api import Transport
from runtime.cloud.calls import CloudCalls
from runtime.metrics.families import (
    LEADER_ELECTION_MASTER_STATUS,
    LEADER_ELECTION_SLOWPATH,
    REST_CLIENT_RATE_LIMITER_DURATION,
)
from runtime.metrics.meters import WorkQueueMeter, rate_limiter_use
from runtime.metrics.registry import Metrics
from runtime.scheduling.clock import Clock
from runtime.scheduling.limiters import TokenBucket
from runtime.scheduling.work_queue import QueueMeter
from runtime.system.actor_system import ActorSpec
from runtime.system.ledger import Ledger
from runtime.system.vitals import Vitals
from runtime.tables.overlay import Tables
from runtime.tables.table import Table

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What all actors of one system share.

    tables: filled with one table for each resource that a controller reads. election: None to write without a lease.
    seed: makes every random choice of the actors repeatable. cloud: the way to it, None where there is none.
    """

    transport: Transport
    clock: Clock
    log: FilteringBoundLogger
    options: Options
    metrics: Metrics
    vitals: Vitals
    election: Election | None
    make_table: Callable[[Resource], Table] = new_table
    tables: dict[str, Table] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    seed: int | None = None
    cloud: CloudCalls | None = None


def plan_manager(assembly: Assembly, specs: Iterable[ControllerSpec], *, enabled: Iterable[str]) -> ManagerPlan:
    """enabled: canonical names. Raises ValueError if two controllers have one name."""
    seeds = random.Random(assembly.seed)
    controllers: dict[str, ControllerPlan] = {}
    clients: dict[str, str] = {}
    for spec in specs:
        if spec.name in controllers:
            raise ValueError(f"two controllers are named {spec.name!r}")
        controllers[spec.name] = _controller(assembly, spec, seed=seeds.getrandbits(32))
        clients[spec.name] = spec.client or spec.name
    informers = {
        resource_id: ActorSpec(
            name=informer_name(resource_id),
            actor=Informer,
            arguments={
                "table": table,
                "transport": assembly.transport,
                "limits": InformerLimits(silence=assembly.options.generic.watch_silence_limit),
                "seed": seeds.getrandbits(32),
            },
        )
        for resource_id, table in assembly.tables.items()
    }
    generic = assembly.options.generic
    chosen = set(enabled)
    return ManagerPlan(
        infrastructure=tuple(
            _infrastructure(assembly, seeds, clients=[clients[name] for name in controllers if name in chosen])
        ),
        informers=informers,
        controllers=controllers,
        enabled=tuple(name for name in controllers if name in chosen),
        leader_elect=assembly.election is not None,
        start_interval=generic.controller_start_interval,
        drain_within=generic.controller_shutdown_timeout or float("inf"),
    )


def manager_spec(
    assembly: Assembly, plan: ManagerPlan, *, ended: Callable[[str], None], seed: int | None = None
) -> ActorSpec:
    return ActorSpec(
        name=MANAGER,
        actor=ControllerManager,
        arguments={"plan": plan, "steering": Steering(), "vitals": assembly.vitals, "ended": ended, "seed": seed},
    )


def _infrastructure(assembly: Assembly, seeds: random.Random, *, clients: Iterable[str]) -> Iterable[ActorSpec]:
    """clients: those that are sure to write; their use of their rate limits is shown from the start."""
    limits = assembly.options.client_limits
    # As client-go: zero values stand for its own defaults, only a negative rate lifts the limit.
    qps, burst = limits.qps or 5.0, limits.burst or 10
    waited = assembly.metrics.histogram(REST_CLIENT_RATE_LIMITER_DURATION, "ALL", "")
    now = assembly.clock.monotonic()
    buckets = {client: TokenBucket(qps=qps, burst=burst, now=now) for client in clients}
    assembly.metrics.add_source(rate_limiter_use(lambda: saturation(buckets, assembly.clock.monotonic())))
    yield ActorSpec(
        name=DISPATCHER,
        actor=Dispatcher,
        arguments={
            "transport": assembly.transport,
            "ledger": assembly.ledger,
            "limits": DispatchLimits(
                qps=qps,
                burst=burst,
                needs_lease=assembly.election is not None,
                lease_timeout=assembly.election.request_timeout if assembly.election is not None else 0.0,
            ),
            "waited": lambda _client, seconds: waited.observe(seconds),
            "buckets": buckets,
            "cloud": assembly.cloud,
        },
    )
    yield ActorSpec(name=RECORDER, actor=EventRecorder, arguments={"seed": seeds.getrandbits(32)})
    if assembly.election is not None:
        yield ActorSpec(
            name=ELECTOR,
            actor=Elector,
            arguments={
                "election": assembly.election,
                "audience": (DISPATCHER, MANAGER),
                "vitals": assembly.vitals,
                "status": assembly.metrics.gauge(LEADER_ELECTION_MASTER_STATUS, assembly.election.name),
                "slow": assembly.metrics.counter(LEADER_ELECTION_SLOWPATH, assembly.election.name),
                "seed": seeds.getrandbits(32),
            },
        )


def _resync(assembly: Assembly, spec: ControllerSpec, *, seed: int) -> float:
    """As upstream's informers: at random between --min-resync-period and twice that, so that not all come at once."""
    own = spec.resync(assembly.options)
    return assembly.options.generic.min_resync_period * (1 + random.Random(seed).random()) if own is None else own


def _queue(assembly: Assembly, queue: AnyQueue, default_name: str) -> QueueSettings:
    name = queue.name or default_name
    return QueueSettings(
        name=name,
        watches=queue.watches,
        reconcile=queue.reconcile,
        concurrency=queue.concurrency(assembly.options),
        max_retries=queue.max_retries,
        meter=WorkQueueMeter(assembly.metrics, name),
    )


def _pass(assembly: Assembly, one: Pass) -> PassSettings:
    meter = WorkQueueMeter(assembly.metrics, one.queue) if one.queue else QueueMeter()
    return PassSettings(name=one.name, every=one.every(assembly.options), run=one.run, meter=meter)


def _controller(assembly: Assembly, spec: ControllerSpec, *, seed: int) -> ControllerPlan:
    for resource in spec.resources:
        if resource.id not in assembly.tables:
            assembly.tables[resource.id] = assembly.make_table(resource)
    short = spec.name.removesuffix("-controller")

    def context(tables: Tables) -> ControllerContext:
        return ControllerContext(
            tables=tables,
            clock=assembly.clock,
            log=assembly.log.bind(source=spec.name),
            metrics=assembly.metrics,
            options=assembly.options,
        )

    def build(own_tables: Tables) -> Any:
        return spec.build(context(own_tables))

    tables: Mapping[str, Table] = {resource.id: assembly.tables[resource.id] for resource in spec.resources}

    def child(kind: str, name: str) -> ActorSpec:
        return spec.children[kind](name, context(Tables(tables)))

    return ControllerPlan(
        child=child,
        spec=ActorSpec(
            name=controller_name(spec.name),
            actor=Controller,
            arguments={
                "settings": ControllerSettings(
                    name=spec.name,
                    client=spec.client or spec.name,
                    component=spec.component or spec.name,
                    queues=tuple(_queue(assembly, queue, short) for queue in spec.queues),
                    passes=tuple(_pass(assembly, one) for one in spec.passes),
                    resync=_resync(assembly, spec, seed=seed),
                ),
                "tables": tables,
                "build": build,
                "vitals": assembly.vitals,
                "seed": seed,
            },
        ),
        resources=tuple(tables),
    )
