"""Metrics of node-lifecycle-controller, and of the eviction queue of each zone.

Source of node_collector_*: kubernetes v1.36 pkg/controller/nodelifecycle/metrics.go. Upstream does not have the others.
"""

from __future__ import annotations

from kcm.actors.controllers.nodes.node_lifecycle.zone_eviction_queue import ZoneMeter
from kcm.runtime.metrics.registry import Counter, Family, Metrics

ZONE = ("zone",)
ZONE_HEALTH = Family(
    name="node_collector_zone_health",
    kind="gauge",
    help="Gauge measuring percentage of healthy nodes per zone.",
    labels=ZONE,
)
ZONE_SIZE = Family(
    name="node_collector_zone_size",
    kind="gauge",
    help="Gauge measuring number of registered Nodes per zones.",
    labels=ZONE,
)
UNHEALTHY_NODES = Family(
    name="node_collector_unhealthy_nodes_in_zone",
    kind="gauge",
    help="Gauge measuring number of not Ready Nodes per zones.",
    labels=ZONE,
)
EVICTIONS = Family(
    name="node_collector_evictions_total",
    kind="counter",
    help="Number of Node evictions that happened since current instance of NodeController started.",
    labels=ZONE,
    stability="STABLE",
)
UPDATE_NODE_HEALTH = Family(
    name="node_collector_update_node_health_duration_seconds",
    kind="histogram",
    help="Duration in seconds for NodeController to update the health of a single node.",
    buckets=tuple(0.001 * 4.0**exponent for exponent in range(8)),
)
UPDATE_ALL_NODES_HEALTH = Family(
    name="node_collector_update_all_nodes_health_duration_seconds",
    kind="histogram",
    help="Duration in seconds for NodeController to update the health of all nodes.",
    buckets=tuple(0.01 * 4.0**exponent for exponent in range(8)),
)
QUEUE_DEPTH = Family(
    name="zone_eviction_queue_depth", kind="gauge", help="Number of Nodes waiting for their eviction.", labels=ZONE
)
QUEUE_RATE = Family(
    name="zone_eviction_queue_rate", kind="gauge", help="Rate limit of the queue in Nodes per second.", labels=ZONE
)
QUEUE_LET_THROUGH = Family(
    name="zone_eviction_queue_let_through_total",
    kind="counter",
    help="Number of Nodes released for eviction.",
    labels=ZONE,
)


class NodeLifecycleMetrics:
    """Metrics that node-lifecycle-controller updates."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.node = metrics.histogram(UPDATE_NODE_HEALTH)
        self.all_nodes = metrics.histogram(UPDATE_ALL_NODES_HEALTH)

    def evictions(self, zone: str) -> Counter:
        return self._metrics.counter(EVICTIONS, zone)

    def zone(self, zone: str, *, ready: int, not_ready: int) -> None:
        """Set the gauges of a zone to these numbers of nodes. A zone with 0 nodes counts as 100 % healthy."""
        size = ready + not_ready
        self._metrics.gauge(ZONE_SIZE, zone).set(size)
        self._metrics.gauge(ZONE_HEALTH, zone).set(100 * ready / size if size else 100)
        self._metrics.gauge(UNHEALTHY_NODES, zone).set(not_ready)


def zone_meter(metrics: Metrics, zone: str) -> ZoneMeter:
    return ZoneMeter(
        depth=metrics.gauge(QUEUE_DEPTH, zone),
        rate=metrics.gauge(QUEUE_RATE, zone),
        let_through=metrics.counter(QUEUE_LET_THROUGH, zone),
    )
