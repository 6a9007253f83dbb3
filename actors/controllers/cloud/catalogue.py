"""The controllers of nodes that need a cloud: names, clients and event sources as in cloud-controller-manager.

kube-controller-manager knows their names and skips them; here they run where --cloud-provider names a cloud.

Source: kubernetes v1.36 cmd/kube-controller-manager/names/controller_names.go,
staging/src/k8s.io/cloud-provider/{names,app/core.go}, controllers/route/metrics.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.controllers.cloud.cloud_node_lifecycle import CloudNodeLifecycleReconciler
from actors.controllers.cloud.node_route import NodeRouteReconciler
from actors.controllers.shared.cluster_ranges import cluster_ranges
from actors.options import Options
from actors.reconciliation import Watch, itself
from actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass, Queue
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


def _ranges_can_be_read(options: Options) -> Iterator[str]:
    if _has_routes(options):
        try:
            cluster_ranges(options.cloud.cluster_cidr)
        except ValueError as err:
            yield str(err)


def _cloud_node_lifecycle(context: ControllerContext) -> CloudNodeLifecycleReconciler:
    return CloudNodeLifecycleReconciler(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        period=context.options.cloud.node_monitor_period,
    )


def _node_route(context: ControllerContext) -> NodeRouteReconciler:
    cloud = context.options.cloud
    return NodeRouteReconciler(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        cluster=cloud.cluster_name,
        clusters=cluster_ranges(cloud.cluster_cidr),
        period=cloud.route_reconciliation_period,
        synced=context.metrics.counter(ROUTE_SYNCS).inc,
    )


CLOUD_SERVICES: tuple[ControllerSpec, ...] = (
    ControllerSpec(
        name="cloud-node-lifecycle-controller",
        aliases=("cloud-node-lifecycle",),
        client="node-controller",
        queues=(Queue(watches=(Watch(NODES, to=itself),), concurrency=lambda _options: 64),),
        build=_cloud_node_lifecycle,
        enabled_if=_has_cloud,
    ),
    ControllerSpec(
        name="node-route-controller",
        aliases=("route",),
        checks=(_ranges_can_be_read,),
        client="route-controller",
        component="route_controller",
        passes=(
            Pass(
                "routes",
                every=lambda options: options.cloud.route_reconciliation_period,
                run=NodeRouteReconciler.reconcile_routes,
                queue="Routes",
            ),
        ),
        reads=(NODES,),
        build=_node_route,
        enabled_if=_has_routes,
    ),
)
