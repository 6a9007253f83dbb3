"""Parts of a ControllerSystem: checks of its arguments, its health checks, and what only some systems have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pykka
from msgspec.structs import replace

from kcm.actors.app.controller_plans import check_shared_clients, recorder_of
from kcm.actors.app.health import (
    Check,
    calls_check,
    controller_check,
    deaf_after,
    discovery_check,
    informer_sync_check,
    infrastructure_check,
    leader_check,
    never,
    sources_check,
    unreadable_check,
)
from kcm.actors.app.shared_parts import Assembly, check_election, check_transport
from kcm.actors.engine.elector import Election
from kcm.actors.options import Options
from kcm.actors.reconciliation import DebugPage
from kcm.actors.reconciliation.actor_names import controller_name, controller_of
from kcm.actors.reconciliation.specs import ControllerSpec, clusters_of
from kcm.protocols.arguments import check_type
from kcm.protocols.messages.debug_pages import ShowPage
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.client.api import Transport
from kcm.runtime.metrics.families import DESTRUCTIVE_WRITES, STORM_BRAKE
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.limiters import BrakeLimits, StormBrake
from kcm.runtime.system.actor_system import ActorSystem
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.view import AnyTable

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer
    from structlog.typing import FilteringBoundLogger

    from kcm.actors.app.webhooks import MakeHost, WebhookParts
    from kcm.actors.engine.spans import Tracing
    from kcm.actors.engine.webhooks.settings import WebhookServing


def check_arguments(*, options: object, metrics: object, log: object) -> None:
    """Raise TypeError for an argument of another type, because callers may not use a type checker."""
    if options is not None:
        check_type("options", options, Options, "Options, as read_options() returns them")
    if metrics is not None:
        check_type("metrics", metrics, Metrics, "a Metrics()")
    if log is not None and not (hasattr(log, "bind") and hasattr(log, "info")):
        raise TypeError(f"log takes a bound logger of structlog's, not {log!r:.80}")


class WaysToClusters(NamedTuple):
    """Transports and elections of a system: `transports` and `elections` by cluster, if there are several."""

    transport: Transport
    transports: Mapping[str, Transport]
    election: Election | None
    elections: dict[str, Election]


def ways_to_clusters(
    transport: Transport | None,
    transports: Mapping[str, Transport] | None,
    election: Election | Mapping[str, Election] | None,
    specs: Sequence[ControllerSpec],
) -> WaysToClusters:
    """Return the transports and elections from the arguments of a system. Raises TypeError or ValueError."""
    if transports is None:
        check_transport("transport", transport)
        if named := clusters_of(specs):
            raise ValueError(f"controllers name the clusters {', '.join(named)}: pass transports={{{named[0]!r}: …}}")
        if election is not None:
            check_election("election", election)
        assert transport is not None
        assert not isinstance(election, Mapping)
        return WaysToClusters(transport, {}, election, {})
    from kcm.actors.app.clusters import check_clusters, elections_by_cluster, routing_transport  # few have several

    if transport is not None:
        raise TypeError("a ControllerSystem takes a transport, or transports by cluster, not both")
    routing = routing_transport(transports)
    check_clusters(specs, transports)
    return WaysToClusters(routing, transports, None, elections_by_cluster(election, transports, specs))


def spec_named(specs: Iterable[ControllerSpec], controller: str) -> ControllerSpec:
    """Return the spec with this name or alias. Raises ValueError."""
    specs = tuple(specs)
    spec = next((spec for spec in specs if controller in (spec.name, *spec.aliases)), None)
    if spec is None:
        raise ValueError(f"no controller is called {controller!r}; there are {', '.join(spec.name for spec in specs)}")
    return spec


def shown_page(
    actors: ActorSystem,
    specs: Iterable[ControllerSpec],
    controller: str,
    path: str,
    query: Mapping[str, list[str]],
    *,
    timeout: float,
) -> DebugPage:
    """Return a page of a controller; see ControllerSystem.debug_page."""
    try:
        name = spec_named(specs, controller).name
    except ValueError as err:
        raise LookupError(f"no controller is called {controller!r}") from err
    try:
        shown = actors.ask(controller_name(name), ShowPage(path, dict(query)), timeout=timeout)
    except pykka.ActorDeadError as err:
        raise LookupError(f"{name} does not run") from err
    except pykka.Timeout as err:
        raise TimeoutError(f"{name} did not respond within {timeout:.0f} s") from err
    if not shown.found:
        raise LookupError(f"{name} has no page {path!r}")
    return DebugPage(shown.body.decode(), shown.content_type)


def storm_brake(options: Options, *, metrics: Metrics, clock: Clock) -> StormBrake:
    chosen = options.storm_brake
    return StormBrake(
        BrakeLimits(limit=chosen.limit, window=chosen.window, qps=chosen.qps),
        now=clock.monotonic(),
        count=metrics.counter(DESTRUCTIVE_WRITES).inc,
        show=metrics.gauge(STORM_BRAKE).set,
    )


def labels_of_actor(name: str) -> dict[str, str]:
    """Return the labels of an actor in profiles."""
    controller = controller_of(name)
    return {"actor": name} if controller is None else {"actor": name, "controller": controller}


def with_active_groups(assembly: Assembly, specs: Sequence[ControllerSpec], enabled: Sequence[str]) -> Assembly:
    """Return the assembly with the groups of the controllers that run; the same without groups. Raises ValueError."""
    if assembly.election is None or assembly.groups is None:
        return assembly
    groups = assembly.groups.active(enabled, [spec.name for spec in specs])
    check_shared_clients(groups, [spec for spec in specs if spec.name in enabled])
    return replace(assembly, election=replace(assembly.election, groups=groups))


def webhooks_of(
    running: Sequence[ControllerSpec],
    serving: WebhookServing | None,
    make_host: MakeHost | None,
    *,
    clock: Clock,
    log: FilteringBoundLogger,
    metrics: Metrics,
) -> WebhookParts | None:
    """Return the webhooks of the enabled controllers; None if they have none or are not served, which is logged."""
    having = [spec for spec in running if spec.admission or spec.conversion]
    if not having:
        return None
    if serving is None:
        log.warning("webhooks are not served", controllers=[spec.name for spec in having])
        return None
    from kcm.actors.app.webhooks import webhook_parts  # most systems have no webhooks

    return webhook_parts(serving, having, make_host=make_host, clock=clock, log=log, metrics=metrics)


def tracing_of(tracer: Tracer, actors: ActorSystem, *, clock: Clock) -> Tracing:
    """Return the spans of a system's messages, reconciliations and commands."""
    from kcm.actors.engine.spans import Tracing  # with the API of OpenTelemetry, which is an extra

    tracing = Tracing(tracer, clock=clock, handled_now=actors.handled_now)
    actors.beginnings.append(tracing.begin)
    actors.endings.append(tracing.end)
    return tracing


def log_skipped(log: FilteringBoundLogger, spec: ControllerSpec) -> None:
    """Log, with upstream's texts, why a requested controller does not run.

    Difference: a disabled feature gate is logged at v=1, because most are off by default.
    """
    gate = spec.needs.removeprefix("--feature-gates=").removesuffix("=true")
    if gate != spec.needs:
        why = {"requiredFeatureGates": [gate]}
        log.info("Controller is disabled by a feature gate", v=1, controller=spec.name, **why)
    elif "--cloud-provider" in spec.needs:
        log.info("Skipping a cloud provider controller", v=1, controller=spec.name)
    facts = {"needs": spec.needs} if spec.needs else {}
    log.info("Warning: skipping controller", v=1 if gate != spec.needs else 0, controller=spec.name, **facts)


def system_checks(
    *, assembly: Assembly, vitals: Vitals, clock: Clock, calls: Calls, controllers: Sequence[ControllerSpec]
) -> dict[str, Check]:
    """Return the checks: infrastructure, one for each part that the system has, and one for each controller."""
    silence = assembly.options.generic.watch_silence_limit
    checks: dict[str, Check] = {
        "infrastructure": infrastructure_check(
            vitals=vitals, clock=clock, hung_after=assembly.options.generic.actor_hang_timeout
        )
    }
    if assembly.election is not None:
        checks["leaderElection"] = leader_check(vitals=vitals, election=assembly.election, clock=clock)
    for cluster, election in assembly.elections.items():
        checks[f"leaderElection-{cluster}"] = leader_check(
            vitals=vitals, election=election, clock=clock, cluster=cluster
        )
    if assembly.own_tables:
        checks["informer-sync"] = informer_sync_check(assembly.own_tables)
    is_away: Callable[[AnyTable], bool] = never
    if assembly.clusters:
        from kcm.actors.app.clusters import AwayClusters, cluster_check  # few systems have several

        is_away = AwayClusters(assembly.outages, clock).has
        for cluster in assembly.clusters:
            checks[f"cluster-{cluster}"] = cluster_check(cluster, assembly.outages[cluster], clock)
    checks["calls"] = calls_check(calls, clock=clock)
    if assembly.listeners:
        checks["sources"] = sources_check(assembly.listeners)
    discovering = [spec.name for spec in controllers if spec.discovers is not None and not spec.discovers.only_shared]
    if discovering:
        checks["discovery"] = discovery_check(
            vitals=vitals,
            controllers=discovering,
            tables=assembly.tables,
            clock=clock,
            deaf_after=deaf_after(assembly.options.health, silence),
        )
    checks["unreadable-objects"] = unreadable_check(
        tables=assembly.tables, vitals=vitals, controllers=[spec.name for spec in controllers]
    )
    for spec in controllers:
        seen = assembly.seen[spec.name]
        checks[spec.name] = controller_check(
            spec.name,
            client=spec.client or spec.name,
            vitals=vitals,
            tables=seen,
            clock=clock,
            thresholds=assembly.options.health,
            silence_limit=silence,
            recorder=recorder_of(assembly, spec),
            is_away=is_away,
        )
    return checks
