"""Metrics of the EndpointSlice controller.

Source: kubernetes v1.36 staging/src/k8s.io/endpointslice/metrics/{metrics,cache}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcm.actors.controllers.network.endpointslice.slice_plan import Group
from kcm.actors.controllers.network.shared.ports import Ports
from kcm.actors.controllers.network.shared.slice_totals import SliceTotals, slice_families
from kcm.protocols.objects import Key
from kcm.runtime.metrics.registry import Family, Metrics, Reading

_BUCKETS = tuple(float(2 ** (number + 1)) for number in range(15))
_DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SUBSYSTEM = "endpoint_slice_controller_"

ADDED = Family(
    name=f"{_SUBSYSTEM}endpoints_added_per_sync",
    kind="histogram",
    help="Number of endpoints added on each Service sync",
    buckets=_BUCKETS,
    stability="BETA",
)
REMOVED = Family(
    name=f"{_SUBSYSTEM}endpoints_removed_per_sync",
    kind="histogram",
    help="Number of endpoints removed on each Service sync",
    buckets=_BUCKETS,
    stability="BETA",
)
FAMILIES = slice_families(_SUBSYSTEM, stability="BETA")
DESIRED, SLICES, DESIRED_SLICES, CHANGES = FAMILIES
CHANGED = Family(
    name=f"{_SUBSYSTEM}endpointslices_changed_per_sync",
    kind="histogram",
    help="Number of EndpointSlices changed on each Service sync",
    labels=("topology", "traffic_distribution"),
    buckets=_DEFAULT_BUCKETS,
)
SYNCS = Family(name=f"{_SUBSYSTEM}syncs", kind="counter", help="Number of EndpointSlice syncs", labels=("result",))
DISTRIBUTIONS = Family(
    name=f"{_SUBSYSTEM}services_count_by_traffic_distribution",
    kind="gauge",
    help="Number of Services using some specific trafficDistribution",
    labels=("traffic_distribution",),
    stability="BETA",
)


class SliceMetrics:
    """Metrics of the EndpointSlice controller. Gauges are totals over all Services, as of the last sync of each."""

    def __init__(self, metrics: Metrics, *, max_endpoints: int) -> None:
        """Register the metrics. max_endpoints: maximum number of endpoints in an EndpointSlice."""
        self._metrics, self._max_endpoints = metrics, max_endpoints
        self._added, self._removed = metrics.histogram(ADDED), metrics.histogram(REMOVED)
        self._totals = SliceTotals(metrics, FAMILIES)
        self.changed = self._totals.changed
        self._results = {result: metrics.counter(SYNCS, result) for result in ("success", "stale", "error")}
        self._distributions: dict[Key, str] = {}
        metrics.add_source(self._read_distributions, name=DISTRIBUTIONS.name)

    def synced(self, result: str) -> None:
        self._results[result].inc()

    def planned(self, service: Key, groups: Mapping[Ports, Group], *, added: int, removed: int) -> None:
        """Record the planned EndpointSlices of a Service for one address type.

        A dual-stack Service is planned once for each address type. As upstream, the gauges contain only the last plan.

        groups: numbers of endpoints and slices by ports.
        added, removed: numbers of endpoints.
        """
        self._added.observe(added)
        self._removed.observe(removed)
        per_slice = self._max_endpoints
        now = {
            DESIRED: sum(group.endpoints for group in groups.values()),
            SLICES: sum(group.slices for group in groups.values()),
            DESIRED_SLICES: sum(-(-group.endpoints // per_slice) for group in groups.values()) or 1,
        }
        self._totals.replace(service, now)

    def written(self, slices: int, *, auto: bool, distribution: str) -> None:
        topology = "Auto" if auto else "Disabled"
        self._metrics.histogram(CHANGED, topology, distribution).observe(slices)

    def distribute(self, service: Key, distribution: str) -> None:
        """Record the trafficDistribution of a Service; "" if it has none."""
        if distribution:
            self._distributions[service] = distribution
        else:
            self._distributions.pop(service, None)

    def forget(self, service: Key) -> None:
        self._distributions.pop(service, None)
        self._totals.replace(service, None)

    def _read_distributions(self) -> Iterable[Reading]:
        counts: dict[str, float] = {}
        for distribution in list(self._distributions.values()):
            counts[distribution] = counts.get(distribution, 0.0) + 1.0
        return [(DISTRIBUTIONS, (distribution,), count) for distribution, count in counts.items()]
