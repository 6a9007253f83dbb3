"""ControllerSpec of node-lifecycle-controller."""

from __future__ import annotations

from kcm.actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics, zone_meter
from kcm.actors.controllers.nodes.node_lifecycle.options import NodeLifecycleOptions, lifecycle_settings
from kcm.actors.controllers.nodes.node_lifecycle.reconciler import (
    BOUND_OR_DELETING,
    NAME,
    NODE_QUEUE,
    POD_QUEUE,
    ZONE_QUEUE,
    NodeLifecycleReconciler,
    pod_to_sync,
)
from kcm.actors.controllers.nodes.node_lifecycle.zone_eviction_queue import KIND, ZoneEvictionQueue, zone_queue_name
from kcm.actors.reconciliation import Watch, itself
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.reconciliation.derived import PODS_BY_NODE
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass, Queue
from kcm.protocols.resources import LEASES, NODES, PODS
from kcm.runtime.system.actor import ActorSpec


def _build(context: ControllerContext) -> NodeLifecycleReconciler:
    return NodeLifecycleReconciler(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        metrics=NodeLifecycleMetrics(context.metrics),
        settings=lifecycle_settings(context.options),
        vitals=context.vitals,
    )


def _zone_queue(zone: str, context: ControllerContext) -> ActorSpec:
    return ActorSpec(
        name=zone_queue_name(zone),
        build=lambda actor: ZoneEvictionQueue(
            actor,
            zone=zone,
            owner=controller_name(NAME),
            meter=zone_meter(context.metrics, zone),
            vitals=context.vitals,
        ),
        never_blocks=True,
    )


SPEC = ControllerSpec(
    name=NAME,
    aliases=("nodelifecycle", "node"),
    never_blocks=True,
    client="node-controller",
    component="node-controller",
    queues=(
        Queue(
            NODE_QUEUE,
            watches=(Watch(NODES, to=itself),),
            reconcile=NodeLifecycleReconciler.reconcile_node,
            concurrency=16,
            terminal=(),
        ),
        Queue(
            POD_QUEUE,
            watches=(Watch(PODS, to=pod_to_sync, interest=BOUND_OR_DELETING),),
            reconcile=NodeLifecycleReconciler.reconcile_pod,
            concurrency=4,
            terminal=(),
        ),
        Queue(ZONE_QUEUE, reconcile=NodeLifecycleReconciler.reconcile_zone, terminal=()),
    ),
    passes=(
        Pass(
            "monitor",
            every=lambda options: options.cloud.node_monitor_period,
            run=NodeLifecycleReconciler.monitor,
        ),
    ),
    reads=(LEASES,),
    indexes=(PODS_BY_NODE,),
    build=_build,
    options=NodeLifecycleOptions,
    children={KIND: _zone_queue},
)
