"""What a DaemonSet's status says of its pods.

Source: kubernetes v1.36 pkg/controller/daemon/daemon_controller.go (updateDaemonSetStatus, storeDaemonSetStatus).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.actors.controllers.shared.status import without_zeros
from kcm.actors.controllers.workloads.daemonset.fields import DaemonSpec
from kcm.actors.controllers.workloads.daemonset.placement import Verdict
from kcm.actors.controllers.workloads.daemonset.pod_plan import NodePods
from kcm.protocols.objects import Object
from kcm.protocols.pods import is_available


class Counts(NamedTuple):
    """Numbers of nodes. On each the pod counts that has been there longest."""

    desired: int = 0
    current: int = 0
    misscheduled: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0


def count_nodes(nodes: Mapping[str, Verdict], pods: NodePods, *, spec: DaemonSpec, hash: str, now: float) -> Counts:
    """now: Unix seconds."""
    desired = current = misscheduled = ready = updated = available = 0
    waits = spec.min_ready_seconds > 0
    last: Mapping[str, str] | None = None  # pods with equal labels share one mapping
    is_updated = False
    for node, verdict in nodes.items():
        there = pods.get(node)
        if not verdict.should_run:
            misscheduled += there is not None
            continue
        desired += 1
        if there is None:
            continue
        current += 1
        first = there[0].facts
        if first.ready:
            ready += 1
            available += not waits or is_available(first, min_ready_seconds=spec.min_ready_seconds, now=now)
        if first.labels is not last:
            last, is_updated = first.labels, spec.is_updated(first, hash)
        updated += is_updated
    return Counts(desired, current, misscheduled, ready, updated, available)


def next_status(status: Mapping[str, Any], counts: Counts, *, generation: int) -> Object | None:
    """The status to write; None if it is as it should be."""
    numbers = {
        "currentNumberScheduled": counts.current,
        "numberMisscheduled": counts.misscheduled,
        "desiredNumberScheduled": counts.desired,
        "numberReady": counts.ready,
        "updatedNumberScheduled": counts.updated,
        "numberAvailable": counts.available,
        "numberUnavailable": counts.desired - counts.available,
    }
    observed = status.get("observedGeneration", 0)
    if observed >= generation and all(status.get(name, 0) == number for name, number in numbers.items()):
        return None
    wanted = {**status, **numbers, "observedGeneration": generation}
    may_be_left_out = ("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable")
    return without_zeros(wanted, *may_be_left_out)
