"""ControllerSpec of node-ipam-controller, with the checks of its flags."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kcm.actors.controllers.nodes.node_ipam.cluster_cidrs import cluster_cidrs
from kcm.actors.controllers.nodes.node_ipam.options import NodeIpamOptions
from kcm.actors.controllers.nodes.node_ipam.reconciler import NODE_QUEUE, NodeIpamReconciler
from kcm.actors.options import Options
from kcm.actors.options.known_controllers import is_enabled
from kcm.actors.reconciliation import Watch, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass, Queue
from kcm.protocols.resources import NODES

NAME = "node-ipam-controller"


def check_service_ranges(options: Options) -> Iterator[str]:
    if len([cidr for cidr in options[NodeIpamOptions].service_cluster_ip_range.split(",") if cidr]) > 2:
        yield "--service-cluster-ip-range can not contain more than two entries"


def check_cidr_flags(options: Options) -> Iterator[str]:
    """Yield an error message if the CIDR flags are invalid or contradict each other.

    Only checked if the controller is enabled. Upstream exits with the same message when it builds the controller.
    """
    if options.cloud.allocate_node_cidrs and is_enabled(NAME, options.generic.controllers, on_by_default=True):
        try:
            cluster_cidrs(options.cloud, options[NodeIpamOptions])
        except ValueError as err:
            yield str(err)


def _build(context: ControllerContext) -> NodeIpamReconciler:
    options = context.options
    return NodeIpamReconciler(
        tables=context.tables,
        log=context.log,
        metrics=context.metrics,
        ranges=cluster_cidrs(options.cloud, options[NodeIpamOptions]),
    )


SPEC = ControllerSpec(
    name=NAME,
    aliases=("nodeipam",),
    never_blocks=True,
    client="node-controller",
    component="cidrAllocator",
    queues=(Queue(NODE_QUEUE, watches=(Watch(NODES, to=itself),), concurrency=30, terminal=()),),
    passes=(Pass("occupy", every=math.inf, run=NodeIpamReconciler.occupy_cidrs),),
    build=_build,
    enabled_if=lambda options: options.cloud.allocate_node_cidrs,
    needs="--allocate-node-cidrs",
    options=NodeIpamOptions,
    checks=(check_service_ranges, check_cidr_flags),
)
