"""ControllerSpec of node-route-controller.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/app/core.go, controllers/route/metrics.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from kcm.actors.controllers.cloud.node_route.reconciler import NodeRouteReconciler
from kcm.actors.controllers.shared.cluster_ranges import cluster_ranges
from kcm.actors.options import Options
from kcm.actors.reconciliation import Change, Watch
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass, Queue
from kcm.protocols.objects import Object, uid_of
from kcm.protocols.resources import NODES
from kcm.runtime.cloud.providers import has_provider
from kcm.runtime.metrics.registry import Family
from kcm.runtime.tables.tables import Tables

GATE = "CloudControllerManagerWatchBasedRoutesReconciliation"
QUEUE, ALL_ROUTES = "Routes", "routes"
ROUTE_SYNCS = Family(
    name="route_controller_route_sync_total",
    kind="counter",
    help="A metric counting the amount of times routes have been synced with the cloud provider.",
)


def _has_routes(options: Options) -> bool:
    """Report whether the flags enable node-route-controller. As upstream, it is disabled without --cluster-cidr."""
    cloud = options.cloud
    return has_provider(cloud.cloud_provider) and cloud.configure_cloud_routes and bool(cloud.cluster_cidr.strip())


def check_cluster_ranges(options: Options) -> Iterator[str]:
    if _has_routes(options):
        try:
            cluster_ranges(options.cloud.cluster_cidr)
        except ValueError as err:
            yield str(err)


def routes_to_sync(change: Change, _tables: Tables) -> tuple[str, ...]:
    """Enqueue a pass over all routes if a node was added or deleted, or its podCIDRs or addresses have changed."""
    if change.old is None or change.deleted or _route_inputs(change.old) != _route_inputs(change.new):
        return (ALL_ROUTES,)
    return ()


def _route_inputs(node: Object) -> tuple[str, Any, Any]:
    return uid_of(node), (node.get("spec") or {}).get("podCIDRs"), (node.get("status") or {}).get("addresses")


def _with_gate(spec: ControllerSpec, options: Options) -> ControllerSpec:
    """Return the ControllerSpec for these options.

    With the feature gate CloudControllerManagerWatchBasedRoutesReconciliation, a watch of nodes replaces the periodic
    pass.
    """
    if not options.feature_gates[GATE]:
        return spec
    queue: Queue[NodeRouteReconciler, str] = Queue(
        QUEUE, watches=(Watch(NODES, to=routes_to_sync),), concurrency=1, terminal=()
    )
    return replace(spec, passes=(), queues=(queue,))


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
            queue=QUEUE,
        ),
    ),
    reads=(NODES,),
    build=_build,
    adapted=_with_gate,
    enabled_if=_has_routes,
    needs="--cluster-cidr, --configure-cloud-routes and --cloud-provider, other than 'external'",
    checks=(check_cluster_ranges,),
)
