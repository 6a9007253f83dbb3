"""Parsing of the CIDR ranges for pod addresses: of the cluster (--cluster-cidr), and of a node (spec.podCIDRs).

Error texts and the order of the checks are from kubernetes v1.36 cmd/kube-controller-manager/app/core.go
(startNodeIpamController).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from kcm.protocols.objects import Object

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def cluster_ranges(text: str) -> list[Network]:
    """Parse the value of --cluster-cidr: one CIDR, or two of different address families, separated by a comma.

    Raises ValueError with kube-controller-manager's text.
    """
    if not text.strip():
        raise ValueError("Controller: Must specify --cluster-cidr if --allocate-node-cidrs is set")
    clusters: list[Network] = []
    for number, part in enumerate(text.split(",")):
        try:
            clusters.append(ipaddress.ip_network(part.strip(), strict=False))
        except ValueError:
            # Upstream prints the range that it could not parse, which is nil.
            raise ValueError(f"invalid CIDR[{number}]: <nil> (invalid CIDR address: {part.strip()})") from None
    if len(clusters) > 2:
        raise ValueError(f"length of clusterCIDRs is:{len(clusters)} more than max allowed of 2")
    if len(clusters) == 2 and not of_both_families(clusters):
        # Upstream's text lacks its last parenthesis too.
        raise ValueError(
            f"len of ClusterCIDRs=={len(clusters)} and they are not configured as dual stack "
            "(at least one from each IPFamily"
        )
    return clusters


def of_both_families(networks: Collection[Network]) -> bool:
    return {network.version for network in networks} == {4, 6}


def pod_cidrs(node: Object) -> list[str]:
    """Return the CIDRs of a node's pods: spec.podCIDRs, or spec.podCIDR if an old client set only that field."""
    spec = node.get("spec") or {}
    cidrs = spec.get("podCIDRs")
    return list(cidrs) if cidrs else [spec["podCIDR"]] if spec.get("podCIDR") else []
