"""Flags of node-ipam."""

from __future__ import annotations

from actors.options import ControllerOptions
from protocols.late_methods import dataclass
from runtime.flags.declaration import flag


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIpamOptions(ControllerOptions):
    configz_block = "NodeIPAMController"

    service_cluster_ip_range: str = flag(
        "", "Range of service addresses, never given to nodes; two for dual-stack.", config="ServiceCIDR"
    )
    mask_size: int = flag(
        0, "Size of a node's range; 0: 24, or 64 for IPv6.", name="node-cidr-mask-size", config="NodeCIDRMaskSize"
    )
    mask_size_ipv4: int = flag(
        0, "The same for IPv4 with dual-stack.", name="node-cidr-mask-size-ipv4", config="NodeCIDRMaskSizeIPv4"
    )
    mask_size_ipv6: int = flag(
        0, "The same for IPv6 with dual-stack.", name="node-cidr-mask-size-ipv6", config="NodeCIDRMaskSizeIPv6"
    )
