"""The status of a DaemonSet.

Source: kubernetes v1.36 pkg/controller/daemon/daemon_controller.go (updateDaemonSetStatus, storeDaemonSetStatus).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kcm.actors.controllers.shared.status import without_zeros
from kcm.actors.controllers.workloads.daemonset.objects import DaemonSet
from kcm.actors.controllers.workloads.daemonset.placement import NodeVerdict
from kcm.actors.controllers.workloads.daemonset.pod_plan import NodePods
from kcm.protocols.objects import Object
from kcm.protocols.pods import is_available


class NodeCounts(NamedTuple):
    """Node counts for the status. On a node with several pods, the first one by pod_order counts."""

    desired: int = 0
    current: int = 0
    misscheduled: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0


def count_nodes(
    nodes: Mapping[str, NodeVerdict], pods: NodePods, *, daemon_set: DaemonSet, hash: str, now: float
) -> NodeCounts:
    """Count nodes by the state of their pods at the time `now`, in Unix seconds. Source: updateDaemonSetStatus."""
    desired = current = misscheduled = ready = updated = available = 0
    min_ready_seconds = daemon_set.min_ready_seconds
    last: Mapping[str, str] | None = None  # pods with equal labels share one mapping
    is_updated = False
    for node, verdict in nodes.items():
        on_node = pods.get(node)
        if not verdict.should_run:
            misscheduled += on_node is not None
            continue
        desired += 1
        if on_node is None:
            continue
        current += 1
        first = on_node[0].facts
        if first.ready:
            ready += 1
            available += not min_ready_seconds or is_available(first, min_ready_seconds=min_ready_seconds, now=now)
        if first.labels is not last:
            last, is_updated = first.labels, daemon_set.is_updated(first, hash)
        updated += is_updated
    return NodeCounts(desired, current, misscheduled, ready, updated, available)


def next_status(daemon_set: DaemonSet, counts: NodeCounts) -> Object | None:
    """Return the status to write, or None if the current status is up to date. Source: storeDaemonSetStatus."""
    numbers = {
        "currentNumberScheduled": counts.current,
        "numberMisscheduled": counts.misscheduled,
        "desiredNumberScheduled": counts.desired,
        "numberReady": counts.ready,
        "updatedNumberScheduled": counts.updated,
        "numberAvailable": counts.available,
        "numberUnavailable": counts.desired - counts.available,
    }
    status, generation = daemon_set.status, daemon_set.generation
    if daemon_set.observed_generation >= generation and all(
        status.get(name, 0) == number for name, number in numbers.items()
    ):
        return None
    new_status = {**status, **numbers, "observedGeneration": generation}
    return without_zeros(
        new_status, "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable"
    )
