"""Assembly of a system: turns the specs of controllers into the plan of the manager."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kcm.actors.app.controller_plans import client_of, controller_plan, elector_of, value_of
from kcm.actors.app.elector_parts import elector_spec, electors_of_groups, recorder_spec
from kcm.actors.app.health import misread
from kcm.actors.app.shared_parts import Assembly
from kcm.actors.app.tables import plan_tables
from kcm.actors.engine.discovery import Discovery
from kcm.actors.engine.dispatcher import ONE_CLUSTER, Dispatcher, DispatchLimits, saturation
from kcm.actors.engine.elector import Candidacy, Election
from kcm.actors.engine.elector.lease import CLIENT as LEASE_CLIENT
from kcm.actors.engine.informer import Informer, InformerLimits
from kcm.actors.engine.manager import ControllerManager
from kcm.actors.engine.manager.plan import ControllerPlan, DiscoveredInformer, ManagerPlan, MigrationPlan, Steering
from kcm.actors.engine.vitals import ControllerVitals
from kcm.actors.options import Options
from kcm.actors.reconciliation.actor_names import (
    DISCOVERY,
    DISPATCHER,
    ELECTOR,
    LEASE_CANDIDATE,
    MANAGER,
    MIGRATION_ELECTOR,
    controller_name,
    elector_name,
    informer_name,
    recorder_name,
)
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.objects import Key
from kcm.protocols.resources import LEASE_CANDIDATES, LEASES, split_cluster
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.client.api import HasServer
from kcm.runtime.metrics.families import (
    HUNG_CALLS,
    REST_CLIENT_RATE_LIMITER_DURATION,
    RUNNING_CONTROLLERS,
    UNREADABLE_OBJECTS,
)
from kcm.runtime.metrics.meters import InformerMeter, rate_limiter_use
from kcm.runtime.metrics.registry import Reading
from kcm.runtime.scheduling.limiters import TokenBucket
from kcm.runtime.scheduling.permits import Terms
from kcm.runtime.system.actor import ActorSpec, Context
from kcm.runtime.tables.table import Table

if TYPE_CHECKING:
    from kcm.actors.app.webhooks import WebhookParts


UNREAD_EVERY = 1.0  # seconds between two updates of a table that no controller reads, as on a standby
# Seconds by which renewals of Leases may be late: in a large cluster hundreds arrive in a second, and what waits for
# them waits for tens of seconds.
LEASE_LAG = 0.25


def plan_manager(
    assembly: Assembly,
    specs: Iterable[ControllerSpec],
    *,
    enabled: Iterable[str],
    webhooks: WebhookParts | None = None,
) -> ManagerPlan:
    """Return the plan of the manager for these controllers.

    enabled: canonical names.
    webhooks: webhooks of the controllers; None without any.

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
        controllers[spec.name] = controller_plan(assembly, spec, seed=seeds.getrandbits(32))
    informers = {
        table_id: _informer(assembly, table, seed=seeds.getrandbits(32)) for table_id, table in assembly.tables.items()
    }
    assembly.metrics.add_source(_unreadable_objects(assembly, tuple(controllers)))
    assembly.metrics.add_source(partial(_running_controllers, assembly))
    infrastructure = [
        _dispatcher(assembly, specs, chosen),
        *(recorder_spec(assembly, cluster, seed=seeds.getrandbits(32)) for cluster in assembly.clusters or ("",)),
    ]
    migration: MigrationPlan | None = None
    if assembly.election is not None:
        if assembly.election.groups is not None:
            from kcm.actors.app.group_parts import actors_of_groups  # few managers have groups

            infrastructure += actors_of_groups(assembly, assembly.election, seeds)
        else:
            infrastructure.append(elector_spec(assembly, assembly.election, seed=seeds.getrandbits(32)))
        migration = _migration_plan(assembly, assembly.election, specs)
        if assembly.election.candidacy is not None:
            infrastructure.extend(_candidate(assembly, assembly.election, assembly.election.candidacy))
    infrastructure += [
        elector_spec(assembly, election, cluster=cluster, seed=seeds.getrandbits(32))
        for cluster, election in assembly.elections.items()
    ]
    servers = () if webhooks is None else (webhooks.server(assembly.seen, assembly.vitals),)
    generic = assembly.options.generic
    return ManagerPlan(
        infrastructure=tuple(infrastructure),
        informers=informers,
        controllers=controllers,
        enabled=tuple(name for name in controllers if name in chosen),
        discovery=_DiscoveryPlan(assembly, seed=seeds.getrandbits(32)),
        servers=servers,
        leader_elect=assembly.has_lease,
        electors=tuple(elector_name(cluster) for cluster in assembly.elections or assembly.clusters or ("",)),
        migration=migration,
        group_electors=tuple(electors_of_groups(assembly).values()),
        # The loss of one cluster's Lease must not end the controllers of the others.
        stand_by_on_loss=bool(assembly.elections) or (assembly.election is not None and assembly.election.stand_by),
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
        silence=options.generic.watch_silence_limit,
        streaming_lists=options.feature_gates["WatchListClient"],
        unread_every=UNREAD_EVERY if assembly.has_lease else 0.0,
        may_lag=LEASE_LAG if split_cluster(table.resource.id)[1] == LEASES.id else 0.0,
    )

    cluster = table.resource.cluster
    program = f"{assembly.program}/{cluster}" if cluster else assembly.program

    def build(context: Context) -> Informer:
        meter: InformerMeter | None = None
        if table.id == table.resource.id:
            meter = InformerMeter(assembly.metrics, table.resource, program=program)
        return Informer(
            context,
            table=table,
            transport=assembly.transport_of(cluster),
            limits=limits,
            outage=assembly.outages[cluster],
            seed=seed,
            warnings=assembly.warnings,
            meter=meter,
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


# Controllers that upstream reports as running, with their names in this metric.
# Sources, kubernetes v1.36: pkg/controller/nodeipam, staging/src/k8s.io/cloud-provider/controllers.
RUNNING_NAMES: Mapping[str, str] = {
    "node-ipam-controller": "nodeipam",
    "node-route-controller": "route",
    "service-lb-controller": "service",
    "cloud-node-lifecycle-controller": "cloud-node-lifecycle",
}


def _running_controllers(assembly: Assembly) -> Iterable[Reading]:
    """Report which of RUNNING_NAMES run in this process, as a source of metrics."""
    for name, shown in RUNNING_NAMES.items():
        vitals = assembly.vitals.of(controller_name(name), ControllerVitals)
        if vitals is not None:
            yield RUNNING_CONTROLLERS, (shown, assembly.program), float(vitals.ready)


# The infrastructure.


def _dispatcher(assembly: Assembly, specs: Iterable[ControllerSpec], enabled: Container[str]) -> ActorSpec:
    """Return the spec of the dispatcher.

    enabled: names of the specs that run; the metrics show the use of their rate limits from the start.
    """
    client, clusters = assembly.options.client_limits, assembly.clusters
    elections = [*assembly.elections.values(), *([assembly.election] if assembly.election is not None else [])]
    # As client-go: 0 selects its defaults, and only a negative rate disables the limit.
    limits = DispatchLimits(
        qps=client.qps or 5.0,
        burst=client.burst or 10,
        needs_lease=assembly.has_lease,
        lease_timeout=min((election.request_timeout for election in elections), default=0.0),
        electors={
            **{
                controller_name(spec.name): elector
                for spec in specs
                if (elector := elector_of(assembly, spec)) != ELECTOR
            },
            **{recorder_name(cluster): elector_name(cluster) for cluster in clusters},
            **electors_of_groups(assembly),
        },
        clusters=frozenset(clusters) or ONE_CLUSTER,
    )
    now, terms = assembly.clock.monotonic(), Terms(within=dict.fromkeys(electors_of_groups(assembly).values(), ELECTOR))
    own = _own_limits(specs, assembly.options)
    if assembly.groups is not None:
        own[LEASE_CLIENT] = (-1.0, None)  # the renewals of many Leases must not wait for a low --kube-api-qps
    clients = dict.fromkeys([*(client_of(spec) for spec in specs if spec.name in enabled), *own])
    buckets = {
        f"{cluster}:{client}" if cluster else client: _bucket(own.get(client, NO_OWN), limits, now)
        for cluster in clusters or ("",)
        for client in clients
    }
    assembly.metrics.add_source(rate_limiter_use(lambda: saturation(buckets, assembly.clock.monotonic())))
    if assembly.calls is not None:
        assembly.metrics.gauge(HUNG_CALLS).read_from(partial(_hung_calls, assembly.calls))
    waits = {
        (cluster, method): assembly.metrics.histogram(REST_CLIENT_RATE_LIMITER_DURATION, method, host)
        for cluster, host in _hosts(assembly).items()
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    }

    def build(context: Context) -> Dispatcher:
        return Dispatcher(
            context,
            transport=assembly.transport,
            ledger=assembly.ledger,
            limits=limits,
            waited=lambda cluster, method, seconds: waits[cluster, method].observe(seconds),
            buckets=buckets,
            calls=assembly.calls,
            functions=assembly.functions,
            cloud=assembly.cloud,
            terms=terms,
            warnings=assembly.warnings,
            tracing=assembly.tracing,
            vitals=assembly.vitals,
            brake=assembly.brake,
        )

    return ActorSpec(name=DISPATCHER, build=build, never_blocks=True)


def _hosts(assembly: Assembly) -> Mapping[str, str]:
    """Return the host and port of each cluster's server, as metrics have them; "" for a transport without a server."""
    transports = {cluster: assembly.transport_of(cluster) for cluster in assembly.clusters or ("",)}
    return {
        cluster: transport.host if isinstance(transport, HasServer) else "" for cluster, transport in transports.items()
    }


NO_OWN: tuple[float | None, int | None] = (None, None)


def _bucket(own: tuple[float | None, int | None], limits: DispatchLimits, now: float) -> TokenBucket:
    """Return a client's bucket. As in client-go, a rate of 0 selects the general limit, and below 0 is no limit."""
    qps, burst = own
    return TokenBucket(qps=qps or limits.qps, burst=burst or limits.burst, now=now)


def _own_limits(specs: Iterable[ControllerSpec], options: Options) -> dict[str, tuple[float | None, int | None]]:
    """Return qps and burst by client, from the specs. Raises ValueError if specs of one client differ."""
    own: dict[str, tuple[float | None, int | None]] = {}
    for spec in specs:
        chosen = (value_of(spec.qps, options), value_of(spec.burst, options))
        if chosen != NO_OWN and own.setdefault(client_of(spec), chosen) != chosen:
            raise ValueError(f"{spec.name} and another controller give different rate limits to {client_of(spec)}")
    return own


def _hung_calls(calls: Calls) -> float:
    return len(calls.hung())


def _candidate(assembly: Assembly, election: Election, candidacy: Candidacy) -> Iterable[ActorSpec]:
    """Return the candidate of coordinated leader election, and the informer of its LeaseCandidate."""
    from kcm.actors.engine.elector.candidate import LeaseCandidate, candidate_selection  # few managers have one

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
    elector = elector_spec(assembly, second, name=MIGRATION_ELECTOR, seed=random.Random(assembly.seed).getrandbits(32))
    return MigrationPlan(elector=elector, after=after)
