"""The controllers of nodes: names, clients and event sources as upstream has them.

Source: kubernetes v1.36 cmd/kube-controller-manager/names/controller_names.go, app/core.go.
"""

from __future__ import annotations

from actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics, zone_meter
from actors.controllers.nodes.node_lifecycle.options import NodeLifecycleOptions
from actors.controllers.nodes.node_lifecycle.reconciler import NAME as NODE_LIFECYCLE
from actors.controllers.nodes.node_lifecycle.reconciler import WATCHES, NodeLifecycleReconciler
from actors.controllers.nodes.node_lifecycle.settings import lifecycle_settings
from actors.controllers.nodes.zone_eviction_queue import KIND, ZoneEvictionQueue, zone_queue_name
from actors.reconciliation.actor_names import controller_name
from actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from protocols.resources import LEASES
from runtime.system.actor_system import ActorSpec


def _node_lifecycle(context: ControllerContext) -> NodeLifecycleReconciler:
    return NodeLifecycleReconciler(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        metrics=NodeLifecycleMetrics(context.metrics),
        settings=lifecycle_settings(context.options),
    )


def _zone_queue(zone: str, context: ControllerContext) -> ActorSpec:
    return ActorSpec(
        name=zone_queue_name(zone),
        actor=ZoneEvictionQueue,
        arguments={
            "zone": zone,
            "owner": controller_name(NODE_LIFECYCLE),
            "meter": zone_meter(context.metrics, zone),
        },
    )


NODES: tuple[ControllerSpec, ...] = (
    ControllerSpec(
        name=NODE_LIFECYCLE,
        aliases=("nodelifecycle", "node"),
        options=NodeLifecycleOptions,
        client="node-controller",
        component="node-controller",
        queues=(Queue("node_lifecycle_controller", watches=WATCHES, concurrency=lambda _options: 16),),
        reads=(LEASES,),
        build=_node_lifecycle,
        children={KIND: _zone_queue},
    ),
)
