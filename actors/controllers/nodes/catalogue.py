"""The controllers of nodes: names, clients and event sources as upstream has them.

Source: kubernetes v1.36 cmd/kube-controller-manager/names/controller_names.go, app/core.go.
"""

from __future__ import annotations

from actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics, zone_meter
from actors.controllers.nodes.node_lifecycle.options import NodeLifecycleOptions
from actors.controllers.nodes.node_lifecycle.reconciler import (
    BOUND_OR_DELETING,
    NODE_QUEUE,
    POD_QUEUE,
    ZONE_QUEUE,
    NodeLifecycleReconciler,
    pod_concerned,
)
from actors.controllers.nodes.node_lifecycle.reconciler import NAME as NODE_LIFECYCLE
from actors.controllers.nodes.node_lifecycle.settings import lifecycle_settings
from actors.controllers.nodes.zone_eviction_queue import KIND, ZoneEvictionQueue, zone_queue_name
from actors.reconciliation import Watch, itself
from actors.reconciliation.actor_names import controller_name
from actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass, Queue
from protocols.resources import LEASES, PODS
from protocols.resources import NODES as NODE_RESOURCE
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
        build=lambda actor: ZoneEvictionQueue(
            actor, zone=zone, owner=controller_name(NODE_LIFECYCLE), meter=zone_meter(context.metrics, zone)
        ),
    )


NODES: tuple[ControllerSpec, ...] = (
    ControllerSpec(
        name=NODE_LIFECYCLE,
        aliases=("nodelifecycle", "node"),
        options=NodeLifecycleOptions,
        client="node-controller",
        component="node-controller",
        queues=(
            Queue(
                NODE_QUEUE,
                watches=(Watch(NODE_RESOURCE, to=itself),),
                reconcile=NodeLifecycleReconciler.reconcile_node,
                concurrency=lambda _options: 16,
            ),
            Queue(
                POD_QUEUE,
                watches=(Watch(PODS, to=pod_concerned, interest=BOUND_OR_DELETING),),
                reconcile=NodeLifecycleReconciler.reconcile_pod,
                concurrency=lambda _options: 4,
            ),
            Queue(ZONE_QUEUE, reconcile=NodeLifecycleReconciler.reconcile_zone),
        ),
        passes=(
            Pass(
                "monitor",
                every=lambda options: options.cloud.node_monitor_period,
                run=NodeLifecycleReconciler.monitor,
            ),
        ),
        reads=(LEASES,),
        build=_node_lifecycle,
        children={KIND: _zone_queue},
    ),
)
