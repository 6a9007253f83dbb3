"""The controllers of nodes that need a cloud: names, clients and event sources as in cloud-controller-manager.

kube-controller-manager knows their names and skips them; here they run where --cloud-provider names a cloud.

Source: kubernetes v1.36 cmd/kube-controller-manager/names/controller_names.go,
staging/src/k8s.io/cloud-provider/{names,app/core.go}, controllers/route/metrics.go.
"""

from __future__ import annotations

from actors.controllers.cloud.cloud_node_lifecycle import CloudNodeLifecycleReconciler
from actors.controllers.cloud.node_route import PASS, NodeRouteReconciler
from actors.options import Options
from actors.options.node_ranges import cluster_ranges
from actors.reconciliation.specs import ControllerSpec, Surroundings
from protocols.resources import NODES
from runtime.cloud.loading import has_provider
from runtime.metrics.registry import Family

ROUTE_SYNCS = Family(
    name="route_controller_route_sync_total", kind="counter", help="Passes over the routes of the cloud."
)


def _has_cloud(options: Options) -> bool:
    return has_provider(options.cloud.cloud_provider)


def _has_routes(options: Options) -> bool:
    """Without --cluster-cidr there is nothing to route; upstream does not start then."""
    return _has_cloud(options) and options.cloud.configure_cloud_routes and bool(options.cloud.cluster_cidr.strip())


def _cloud_node_lifecycle(surroundings: Surroundings) -> CloudNodeLifecycleReconciler:
    return CloudNodeLifecycleReconciler(
        tables=surroundings.tables,
        clock=surroundings.clock,
        log=surroundings.log,
        period=surroundings.options.cloud.node_monitor_period,
    )


def _node_route(surroundings: Surroundings) -> NodeRouteReconciler:
    cloud = surroundings.options.cloud
    return NodeRouteReconciler(
        tables=surroundings.tables,
        clock=surroundings.clock,
        log=surroundings.log,
        cluster=cloud.cluster_name,
        clusters=cluster_ranges(cloud.cluster_cidr),
        period=cloud.route_reconciliation_period,
        synced=surroundings.metrics.counter(ROUTE_SYNCS).inc,
    )


CLOUD_SERVICES: tuple[ControllerSpec, ...] = (
    ControllerSpec(
        name="cloud-node-lifecycle-controller",
        aliases=("cloud-node-lifecycle",),
        client="node-controller",
        watches=tuple(CloudNodeLifecycleReconciler.watches),
        build=_cloud_node_lifecycle,
        concurrency=lambda _options: 64,
        wanted=_has_cloud,
    ),
    ControllerSpec(
        name="node-route-controller",
        aliases=("route",),
        client="route-controller",
        component="route_controller",
        queue="Routes",
        watches=(),
        reads=(NODES,),
        first_keys=(PASS,),
        build=_node_route,
        concurrency=lambda _options: 1,
        wanted=_has_routes,
    ),
)
