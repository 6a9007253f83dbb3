"""The controllers that make the embedded cluster's pods run."""

from __future__ import annotations

import math

from actors.hollow.fleet import make_fleet
from actors.hollow.kubelet import HollowKubelet, kubelet_watches
from actors.hollow.nodes import QUEUE, HollowNodes, node_watches
from actors.hollow.scheduler import SCHEDULER_NAME, HollowScheduler, scheduler_watches
from actors.options import Options
from actors.reconciliation.specs import ControllerSpec, Pass, Queue

CONCURRENCY = 64  # keys in work at once: they wait for the server, hardly for the processor


def _many(_options: Options) -> int:
    return CONCURRENCY


def hollow_specs(
    *, nodes: int, zones: int, cpu: str = "32", memory: str = "128Gi", pods_per_node: int = 110
) -> tuple[ControllerSpec, ...]:
    """nodes, zones: --hollow-nodes, --hollow-zones. cpu, memory: quantities, of each node.

    Raises ValueError as make_fleet.
    """
    fleet = make_fleet(nodes=nodes, zones=zones, cpu=cpu, memory=memory, pods=pods_per_node)
    return (
        ControllerSpec(
            name="hollow-nodes-controller",
            queues=(Queue(QUEUE, watches=node_watches(fleet), concurrency=_many),),
            passes=(Pass("fleet", every=lambda _options: math.inf, run=HollowNodes.enqueue_fleet),),
            build=lambda s: HollowNodes(tables=s.tables, clock=s.clock, fleet=fleet),
            client="hollow-nodes",
            component="kubelet",
        ),
        ControllerSpec(
            name="hollow-kubelet-controller",
            queues=(Queue(watches=kubelet_watches(fleet), concurrency=_many),),
            build=lambda s: HollowKubelet(tables=s.tables, clock=s.clock, fleet=fleet),
            client="hollow-kubelet",
            component="kubelet",
        ),
        ControllerSpec(
            name="hollow-scheduler-controller",
            queues=(Queue(watches=scheduler_watches(), concurrency=_many),),
            build=lambda s: HollowScheduler(tables=s.tables, clock=s.clock),
            client="hollow-scheduler",
            component=SCHEDULER_NAME,
        ),
    )
