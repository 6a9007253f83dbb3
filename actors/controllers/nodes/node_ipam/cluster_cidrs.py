"""Parse the flags with the cluster CIDRs, from which the pod CIDRs of nodes are allocated.

Source of the error texts and of the order of the checks: kubernetes v1.36
cmd/kube-controller-manager/app/core.go (startNodeIpamController,
setNodeCIDRMaskSizes), pkg/controller/nodeipam/node_ipam_controller.go, ipam/cidrset/cidr_set.go.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from msgspec import Struct

from kcm.actors.controllers.nodes.node_ipam.options import NodeIpamOptions
from kcm.actors.controllers.shared.cluster_ranges import Network, cluster_ranges, of_both_families
from kcm.actors.options.general import Cloud

DEFAULT_MASKS = {4: 24, 6: 64}  # by IP version
LARGEST_IPV6_SET = 16  # an IPv6 cluster CIDR may have at most 2**16 blocks


class ClusterCidrs(Struct, frozen=True, kw_only=True):
    """Parsed values of --cluster-cidr and --service-cluster-ip-range, with the size of the blocks for nodes."""

    clusters: tuple[tuple[Network, int], ...]  # in the order of the flag, each with the prefix length of its blocks
    services: tuple[Network, ...]  # never allocated to nodes
    unreadable: tuple[str, ...] = ()  # invalid service CIDRs, which are ignored


def cluster_cidrs(cloud: Cloud, ipam: NodeIpamOptions) -> ClusterCidrs:
    """Parse the flags for cluster CIDRs, service CIDRs and mask sizes.

    Raises ValueError, with upstream's text, if a cluster CIDR is invalid or flags contradict each other.
    """
    clusters = cluster_ranges(cloud.cluster_cidr)
    services, unreadable = _service_ranges(ipam.service_cluster_ip_range)
    masks = _masks(clusters, ipam)
    for cluster, mask in zip(clusters, masks, strict=True):
        if not cluster.prefixlen <= mask <= cluster.max_prefixlen:
            raise ValueError(
                "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to "
                "--node-cidr-mask-size configured for CIDR family"
            )
        if cluster.version == 6 and mask - cluster.prefixlen > LARGEST_IPV6_SET:
            raise ValueError("New CIDR set failed; the node CIDR size is too big")
    return ClusterCidrs(clusters=tuple(zip(clusters, masks, strict=True)), services=services, unreadable=unreadable)


def _service_ranges(text: str) -> tuple[tuple[Network, ...], tuple[str, ...]]:
    services: list[Network] = []
    unreadable = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        try:
            services.append(ipaddress.ip_network(part, strict=False))
        except ValueError:
            unreadable.append(part)
    if len(services) == 2 and not of_both_families(services):
        raise ValueError("serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)")
    return tuple(services), tuple(unreadable)


def _masks(clusters: Sequence[Network], ipam: NodeIpamOptions) -> list[int]:
    """Return the prefix length of a node's block for each cluster CIDR.

    Raises ValueError, with upstream's text, if the --node-cidr-mask-size flags contradict each other or the clusters.
    """
    by_version = {4: ipam.mask_size_ipv4, 6: ipam.mask_size_ipv6}
    version = clusters[0].version
    if len(clusters) > 1:
        if ipam.mask_size:
            raise ValueError("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")
    elif ipam.mask_size:
        if any(by_version.values()):
            raise ValueError(
                "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if "
                "--node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags"
            )
        return [ipam.mask_size]
    elif by_version[10 - version]:
        raise ValueError(
            f"usage of --node-cidr-mask-size-ipv{10 - version} is not allowed for a single-stack IPv{version} cluster"
        )
    return [by_version[cluster.version] or DEFAULT_MASKS[cluster.version] for cluster in clusters]
