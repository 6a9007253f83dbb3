"""The controllers of nodes: names, clients and event sources as upstream has them.

Source: kubernetes v1.36 cmd/kube-controller-manager/names/controller_names.go, app/core.go.
"""

from __future__ import annotations

from actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics, zone_meter
from actors.controllers.nodes.node_lifecycle.reconciler import NAME as NODE_LIFECYCLE
from actors.controllers.nodes.node_lifecycle.reconciler import WATCHES, NodeLifecycleReconciler
from actors.controllers.nodes.node_lifecycle.settings import lifecycle_settings
from actors.controllers.nodes.zone_eviction_queue import KIND, ZoneEvictionQueue, zone_queue_name
from actors.reconciliation.actor_names import controller_name
from actors.reconciliation.specs import ControllerSpec, Surroundings
from protocols.resources import LEASES
from runtime.system.actor_system import ActorSpec


def _node_lifecycle(surroundings: Surroundings) -> NodeLifecycleReconciler:
    return NodeLifecycleReconciler(
        tables=surroundings.tables,
        clock=surroundings.clock,
        log=surroundings.log,
        metrics=NodeLifecycleMetrics(surroundings.metrics),
        settings=lifecycle_settings(surroundings.options),
    )


def _zone_queue(zone: str, surroundings: Surroundings) -> ActorSpec:
    return ActorSpec(
        name=zone_queue_name(zone),
        actor=ZoneEvictionQueue,
        arguments={
            "zone": zone,
            "owner": controller_name(NODE_LIFECYCLE),
            "meter": zone_meter(surroundings.metrics, zone),
        },
    )


NODES: tuple[ControllerSpec, ...] = (
    ControllerSpec(
        name=NODE_LIFECYCLE,
        aliases=("nodelifecycle",),
        client="node-controller",
        component="node-controller",
        queue="node_lifecycle_controller",
        watches=WATCHES,
        reads=(LEASES,),
        build=_node_lifecycle,
        concurrency=lambda _options: 16,
        children={KIND: _zone_queue},
    ),
)
