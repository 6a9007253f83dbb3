"""Several clusters of one system: checks of its arguments, and health checks by cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kcm.actors.app.health import SYNC_WITHIN, Check
from kcm.actors.app.shared_parts import check_election, check_transport
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
from kcm.runtime.serving.health import HealthNotice
from kcm.runtime.tables.view import AnyTable


def routing_transport(transports: Mapping[str, Transport]) -> Transport:
    """Return a transport for all clusters. Raises TypeError or ValueError for an invalid transport or name."""
    check_mapping("transports", transports)
    if not transports:
        raise ValueError("transports are empty: a ControllerSystem works on at least one cluster")
    for name, transport in transports.items():
        check_cluster(name)
        check_transport(f"transports[{name!r}]", transport)
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
    for cluster, own in election.items():
        if cluster not in clusters:
            raise ValueError(f"election names the unknown cluster {cluster!r}; there are {known}")
        check_election(f"election of {cluster}", own)
        if own.migration is not None or own.candidacy is not None or own.groups is not None:
            raise ValueError(f"election of {cluster}: migration, candidacy and groups need a program with one cluster")
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


def cluster_check(cluster: str, outage: Outage, clock: Clock) -> Check:
    """Return a check that the server of a cluster responds. It is a HealthNotice: a restart does not bring it back."""

    def check() -> str | None:
        if not outage.is_on:
            return None
        seconds = outage.seconds(clock.monotonic())
        return HealthNotice(f"{cluster} has not responded for {seconds:.0f} s", shown="does not respond")

    return check


class AwayClusters:
    """Clusters whose server does not respond, or has responded again for so short a time that tables may be behind."""

    def __init__(self, outages: Mapping[str, Outage], clock: Clock) -> None:
        self._outages, self._clock = outages, clock
        self._until: dict[str, float] = {}  # by cluster

    def has(self, table: AnyTable) -> bool:
        """Report whether the table is of such a cluster. Called at least every few minutes, as a health check."""
        cluster, now = table.resource.cluster, self._clock.monotonic()
        if self._outages[cluster].is_on:
            self._until[cluster] = now + SYNC_WITHIN
        return now < self._until.get(cluster, now)


def report_reachable(metrics: Metrics, outages: Mapping[str, Outage]) -> None:
    """Add a gauge for each cluster whether its server responds."""
    metrics.add_source(
        lambda: [(CLUSTER_REACHABLE, (cluster,), float(not outage.is_on)) for cluster, outage in outages.items()]
    )
