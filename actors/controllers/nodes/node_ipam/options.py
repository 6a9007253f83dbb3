"""Flags of node-ipam-controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag


class NodeIpamOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "NodeIPAMController"

    service_cluster_ip_range: str = flag(
        "",
        "CIDR range of Services, which is never allocated to nodes. Two ranges for dual-stack.",
        config="ServiceCIDR",
    )
    mask_size: int = flag(
        0,
        "Mask size of node CIDRs. 0 means 24 for IPv4 and 64 for IPv6.",
        name="node-cidr-mask-size",
        config="NodeCIDRMaskSize",
    )
    mask_size_ipv4: int = flag(
        0,
        "Mask size of IPv4 node CIDRs in a dual-stack cluster. 0 means 24.",
        name="node-cidr-mask-size-ipv4",
        config="NodeCIDRMaskSizeIPv4",
    )
    mask_size_ipv6: int = flag(
        0,
        "Mask size of IPv6 node CIDRs in a dual-stack cluster. 0 means 64.",
        name="node-cidr-mask-size-ipv6",
        config="NodeCIDRMaskSizeIPv6",
    )
