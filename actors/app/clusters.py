"""Several clusters of one system: checks of its arguments, and health checks by cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kcm.actors.app.health import SYNC_WITHIN, Check
from kcm.actors.app.shared_parts import Assembly, check_election, check_transport
from kcm.actors.engine.elector import Election
from kcm.actors.engine.informer import Outage
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.arguments import check_mapping
from kcm.protocols.resources import check_cluster
from kcm.runtime.client.api import Transport
from kcm.runtime.client.clusters import ClusterTransports
from kcm.runtime.metrics.families import CLUSTER_REACHABLE
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.health import HealthNotice, shown_of


def routing_transport(transports: Mapping[str, Transport]) -> Transport:
    """Return a transport for all clusters. Raises TypeError or ValueError for an invalid transport or name."""
    check_mapping("transports", transports)
    if not transports:
        raise ValueError("transports are empty: a ControllerSystem works on at least one cluster")
    for name, each in transports.items():
        check_cluster(name)
        check_transport(f"transports[{name!r}]", each)
    return ClusterTransports(transports)


def elections_by_cluster(
    election: object, clusters: Collection[str], specs: Iterable[ControllerSpec]
) -> dict[str, Election]:
    """Return the elections of a system with several clusters; {} without leader election.

    specs: all controllers of the system.

    Raises TypeError unless they are given by cluster, and ValueError for an unknown cluster, a cluster without an
    election in which a controller is at home, or an election that needs a single cluster.
    """
    if election is None:
        return {}
    known = ", ".join(clusters)
    if not isinstance(election, Mapping):
        raise TypeError(f"election takes a map by cluster ({known}), as {{{next(iter(clusters))!r}: Election(…)}}")
    for cluster, each in election.items():
        if cluster not in clusters:
            raise ValueError(f"election names the unknown cluster {cluster!r}; there are {known}")
        check_election(f"election of {cluster}", each)
        if each.migration is not None or each.candidacy is not None:
            raise ValueError(f"election of {cluster}: migration and candidacy need a program with one cluster")
    for spec in specs:
        if spec.home_cluster not in election:
            raise ValueError(
                f"{spec.name} is at home in {spec.home_cluster}, which has no election: "
                "add one, or name another cluster by ControllerSpec(home=…)"
            )
    return dict(election)


def check_clusters(specs: Iterable[ControllerSpec], clusters: Collection[str]) -> None:
    """Check that the controllers fit the clusters of their system.

    Raises ValueError that names the controller and the resource.
    """
    known = ", ".join(clusters)
    for spec in specs:
        for resource in spec.resources:
            if resource.cluster not in clusters:
                where = f"on the unknown cluster {resource.cluster!r}" if resource.cluster else "on no cluster"
                raise ValueError(f"{spec.name} reads {resource.plural} {where}: name one of {known} by .on(cluster)")
        if spec.home_cluster not in clusters:
            raise ValueError(f"{spec.name} is at home in {spec.home_cluster!r}, but the clusters are {known}")
        if unsupported := _unsupported(spec):
            raise ValueError(f"{spec.name} has {unsupported}, which a system with several clusters does not support")


def _unsupported(spec: ControllerSpec) -> str:
    parts = {
        "discovered resources": spec.discovers is not None,
        "children": bool(spec.children),
        "webhooks": bool(spec.admission or spec.conversion),
    }
    return next((what for what, is_there in parts.items() if is_there), "")


def with_clusters(
    checks: Mapping[str, Check], assembly: Assembly, controllers: Iterable[ControllerSpec]
) -> dict[str, Check]:
    """Return the health checks of a system with a check for each cluster, and controllers excused by outages."""
    outages, clock = assembly.outages, assembly.clock
    own = {f"cluster-{name}": cluster_check(name, outages[name], clock) for name in assembly.clusters}
    excused = {
        spec.name: excused_by_outages(
            checks[spec.name], [outages[resource.cluster] for resource in spec.resources], clock
        )
        for spec in controllers
    }
    return {**checks, **own, **excused}


def cluster_check(cluster: str, outage: Outage, clock: Clock) -> Check:
    """Return a check that the server of a cluster responds. It is a HealthNotice: a restart does not bring it back."""

    def check() -> str | None:
        if not outage.is_on:
            return None
        seconds = outage.seconds(clock.monotonic())
        return HealthNotice(f"{cluster} has not responded for {seconds:.0f} s", shown="does not respond")

    return check


def excused_by_outages(check: Check, outages: Iterable[Outage], clock: Clock) -> Check:
    """Return the check of a controller, which is a HealthNotice while a cluster does not respond.

    Otherwise a liveness probe would end the process, and with it the controllers of the other clusters. It remains one
    for a while after an outage, until the tables are up to date.
    """
    outages = tuple(outages)
    excused_until = float("-inf")

    def excused() -> str | None:
        nonlocal excused_until
        trouble, now = check(), clock.monotonic()
        if any(outage.is_on for outage in outages):
            excused_until = now + SYNC_WITHIN
        if trouble is None or isinstance(trouble, HealthNotice) or now >= excused_until:
            return trouble
        return HealthNotice(trouble, shown=shown_of(trouble))

    return excused


def report_reachable(metrics: Metrics, outages: Mapping[str, Outage]) -> None:
    """Add a gauge for each cluster whether its server responds."""
    metrics.add_source(
        lambda: [(CLUSTER_REACHABLE, (cluster,), float(not outage.is_on)) for cluster, outage in outages.items()]
    )
