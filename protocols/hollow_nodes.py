"""Labels of hollow nodes, and the addresses that these nodes and their pods have.

A pod of a hollow node runs in appearance only: no process listens on its address, and no connection is opened to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import Any

RUNTIME = "hollow://"  # prefix of status.nodeInfo.containerRuntimeVersion
# Annotation of a Service, Pod or Node: the address that serves webhooks whose pods are hollow.
WEBHOOK = "hollow.kcm.dev/webhook"
# Benchmarks (RFC 2544). Nodes only: some VPN and proxy clients answer for addresses of this range on their machine.
NODE_RANGE = IPv4Network("198.18.0.0/15")
# For the pods of nodes without a podCIDR: reserved (RFC 1112, class E). The only IPv4 range that routers do not forward
# by definition, where 100.64.0.0/10 is in use by carriers and VPNs.
POD_RANGE = IPv4Network("240.0.0.0/8")


def is_hollow(node: Mapping[str, Any]) -> bool:
    """Report whether a hollow kubelet has written the status of a Node."""
    runtime: str = ((node.get("status") or {}).get("nodeInfo") or {}).get("containerRuntimeVersion") or ""
    return runtime.startswith(RUNTIME)


def is_hollow_address(address: IPv4Address | IPv6Address) -> bool:
    """Report whether this is an address of a hollow node, or of a pod of a hollow node without a podCIDR."""
    return address in NODE_RANGE or address in POD_RANGE
