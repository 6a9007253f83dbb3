"""Eviction rates of zones, computed independently of the controller that is checked with them.

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, ComputeZoneState,
ReducedQPSFunc, handleDisruption.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcm.actors.controllers.nodes.node_lifecycle.zones import EvictionLimits
from kcm.protocols.nodes import NodeFacts


def eviction_rates(nodes: Iterable[NodeFacts], limits: EvictionLimits) -> Mapping[str, float]:
    """Return the eviction rate of each zone, in nodes per second. All rates are 0 if no zone has a ready node."""
    counts: dict[str, list[int]] = {}  # by zone: [ready, all]
    for node in nodes:
        if not node.excluded:
            count = counts.setdefault(node.zone, [0, 0])
            count[0] += node.ready == "True"
            count[1] += 1
    if all(ready == 0 for ready, _ in counts.values()):
        return dict.fromkeys(counts, 0.0)
    return {zone: _rate(ready, size, limits) for zone, (ready, size) in counts.items()}


def _rate(ready: int, size: int, limits: EvictionLimits) -> float:
    broken = size - ready
    if ready and broken > 2 and broken / size >= limits.unhealthy_threshold:
        return limits.secondary_rate if size > limits.large_zone else 0.0
    return limits.eviction_rate
