"""ServiceCIDRs and IPAddresses: which addresses a ServiceCIDR contains, and the labels of allocated addresses.

Source: kubernetes v1.36 pkg/api/servicecidr/servicecidr.go, pkg/registry/core/service/ipallocator/cidrallocator.go
(isReady), k8s.io/api/networking/v1 well_known_labels.go.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.bounded_cache import bounded_cache
from kcm.protocols.conditions import find_condition
from kcm.protocols.field_types import TEXT, check
from kcm.protocols.objects import is_deleting, labels_of

_FIELDS = {"spec": {"cidrs": [TEXT]}}
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

DEFAULT_SERVICE_CIDR = "kubernetes"
IPV4, IPV6 = "IPv4", "IPv6"
# Labels of an IPAddress, and the value of MANAGED_BY for the addresses that the API server allocates to Services.
IP_FAMILY, MANAGED_BY = "ipaddress.kubernetes.io/ip-family", "ipaddress.kubernetes.io/managed-by"
ALLOCATOR = "ipallocator.k8s.io"
READY = "Ready"


@bounded_cache(1024, longest=64)
def parse_network(cidr: str) -> Network | None:
    """Return the network of a CIDR with its host bits cleared; None if the CIDR is invalid."""
    try:
        return ipaddress.ip_network(cidr, strict=False) if "/" in cidr else None
    except ValueError:
        return None


@bounded_cache(4096, longest=64)
def parse_address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def family_of(value: Address | Network) -> str:
    """Return the IP family of an address or network, as in the fields and labels of the API."""
    return IPV4 if value.version == 4 else IPV6


def networks_of(service_cidr: Mapping[str, Any]) -> Iterator[Network]:
    """Yield the networks of a ServiceCIDR. Invalid CIDRs are skipped. Raises ValueError for a field of another type."""
    check(service_cidr, _FIELDS)
    for cidr in (service_cidr.get("spec") or {}).get("cidrs") or ():
        network = parse_network(cidr)
        if network is not None:
            yield network


def contains_address(network: Network, address: Address) -> bool:
    """Report whether Services can have the address: it is in the network, and not the network or broadcast address.

    The last address of an IPv6 network is not a broadcast address.
    """
    if address.version != network.version or address == network.network_address:
        return False
    if network.version == 4 and address == network.broadcast_address:
        return False
    return address in network


def contains_network(network: Network, other: Network) -> bool:
    """Report whether the other network is equal to this one or part of it."""
    return network.version == other.version and network.prefixlen <= other.prefixlen and network.overlaps(other)


def is_ready(service_cidr: Mapping[str, Any]) -> bool:
    """Report whether addresses can be allocated from a ServiceCIDR: it is not being deleted, and not unready.

    Without the condition Ready it counts as ready, so that a cluster without a controller manager can allocate.
    """
    ready = find_condition((service_cidr.get("status") or {}).get("conditions"), READY)
    return not is_deleting(service_cidr) and (ready is None or ready.get("status") == "True")


def is_allocated(ip_address: Mapping[str, Any]) -> bool:
    """Report whether the API server manages the IPAddress, as the cluster IP of a Service."""
    return labels_of(ip_address).get(MANAGED_BY) == ALLOCATOR
