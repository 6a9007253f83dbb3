"""What is checked between the flags of node-ipam."""

from __future__ import annotations

from collections.abc import Iterator

from actors.controllers.nodes.node_ipam.options import NodeIpamOptions
from actors.controllers.nodes.node_ipam.ranges import node_ranges
from actors.options import Options
from actors.options.controller_names import is_enabled

NAME = "node-ipam-controller"


def service_range_entries(options: Options) -> Iterator[str]:
    if len([one for one in options[NodeIpamOptions].service_cluster_ip_range.split(",") if one]) > 2:
        yield "--service-cluster-ip-range can not contain more than two entries"


def ranges_fit(options: Options) -> Iterator[str]:
    """Upstream finds these faults when it builds the controller, which ends it as well."""
    if options.cloud.allocate_node_cidrs and is_enabled(NAME, options.generic.controllers, on_by_default=True):
        try:
            node_ranges(options.cloud, options[NodeIpamOptions])
        except ValueError as err:
            yield str(err)
