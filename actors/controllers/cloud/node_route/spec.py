"""How node-route presents itself to the system.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/app/core.go, controllers/route/metrics.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.controllers.cloud.node_route.reconciler import NodeRouteReconciler
from actors.controllers.shared.cluster_ranges import cluster_ranges
from actors.options import Options
from actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass
from protocols.resources import NODES
from runtime.cloud.loading import has_provider
from runtime.metrics.registry import Family

ROUTE_SYNCS = Family(
    name="route_controller_route_sync_total", kind="counter", help="Passes over the routes of the cloud."
)


def _has_routes(options: Options) -> bool:
    """Without --cluster-cidr there is nothing to route; upstream does not start then."""
    cloud = options.cloud
    return has_provider(cloud.cloud_provider) and cloud.configure_cloud_routes and bool(cloud.cluster_cidr.strip())


def cluster_ranges_can_be_read(options: Options) -> Iterator[str]:
    if _has_routes(options):
        try:
            cluster_ranges(options.cloud.cluster_cidr)
        except ValueError as err:
            yield str(err)


def _build(context: ControllerContext) -> NodeRouteReconciler:
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


SPEC = ControllerSpec(
    name="node-route-controller",
    aliases=("route",),
    never_blocks=True,
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
    build=_build,
    enabled_if=_has_routes,
    needs="--cluster-cidr, --configure-cloud-routes and --cloud-provider, other than 'external'",
    checks=(cluster_ranges_can_be_read,),
)
