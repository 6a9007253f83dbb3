"""Allocation of cluster IPs from the ServiceCIDRs that are ready.

An address is allocated if an IPAddress of any client has its name, or if a Service has it. Dynamic addresses
come from the upper part of a range first; its lower part is for addresses that clients request.

Upstream chooses ranges and free addresses at random. Here the default ServiceCIDR comes first, and the uid of the
Service determines the address, so that a simulation with the same seed has the same result.
bootstrap/service_addresses.py writes the IPAddresses.

Source: kubernetes pkg/registry/core/service/ipallocator/{cidrallocator,ipallocator,bitmap}.go (v1.36). Differences:
- The address of a Service stays allocated when a user deletes its IPAddress; upstream can allocate it again until its
  repair loop has noticed.
- While the default ServiceCIDR does not exist, the ranges of --service-cluster-ip-range take its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_network

from msgspec import Struct

from kcm.protocols.objects import name_of
from kcm.protocols.service_cidrs import (
    DEFAULT_SERVICE_CIDR,
    Network,
    contains_address,
    family_of,
    is_ready,
    networks_of,
    parse_address,
)
from kcm.runtime.apiserver.registry.strategy import Allocating

SERVICE_CIDRS, IP_ADDRESSES = "servicecidrs.networking.k8s.io", "ipaddresses.networking.k8s.io"
SHORTEST_IPV6_PREFIX = 64
_MINIMUM_ADDRESSES = 16
# Number of addresses for requests: a sixteenth of the range, between these bounds; 0 for the smallest ranges.
_LEAST_RESERVED, _MOST_RESERVED, _RESERVED_PART = 16, 256, 16

ALLOCATED = "provided IP is already allocated"
MISMATCH = "the provided network does not match the current range"
FULL = "range is full"


class AddressRange(Struct, frozen=True):
    """Part of a network, from `first` on. Both are integers, as a range of IPv6 may have 2**64 addresses."""

    first: int
    size: int


def address_ranges(network: Network) -> tuple[AddressRange, AddressRange]:
    """Return the parts of a network for dynamic addresses and for requested ones, without the network address.

    The broadcast address of an IPv4 network is not part of them either. Source: NewIPAllocator, calculateRangeOffset.
    """
    first = int(network.network_address) + 1
    size = max(network.num_addresses - (2 if network.version == 4 else 1), 0)
    reserved = reserved_addresses(network)
    return AddressRange(first + reserved, size - reserved), AddressRange(first, reserved)


def reserved_addresses(network: Network) -> int:
    """Return the number of addresses at the start of a network that are preferred for requests."""
    total = network.num_addresses
    if total <= _LEAST_RESERVED:
        return 0
    return min(max(total // _RESERVED_PART, _LEAST_RESERVED), _MOST_RESERVED)


def ready_networks(among: Allocating, ranges: Mapping[str, Network], family: str) -> list[Network]:
    """Return the networks from which addresses of a family can be allocated, those of the default ServiceCIDR first.

    ranges: service CIDRs of the command line by family
    """
    service_cidrs = sorted(among.objects(SERVICE_CIDRS), key=lambda found: name_of(found) != DEFAULT_SERVICE_CIDR)
    networks = dict.fromkeys(network for found in service_cidrs if is_ready(found) for network in networks_of(found))
    if family in ranges and not (service_cidrs and name_of(service_cidrs[0]) == DEFAULT_SERVICE_CIDR):
        networks = {ranges[family]: None, **networks}
    return [
        network
        for network in networks
        if family_of(network) == family and (network.version == 4 or network.prefixlen >= SHORTEST_IPV6_PREFIX)
    ]


class ClusterIps:
    """Allocator of cluster IPs for one Service.

    ranges: service CIDRs of the command line by family
    used: canonical addresses that stored Services have
    seed: determines which free address is allocated
    """

    def __init__(self, among: Allocating, *, ranges: Mapping[str, Network], used: set[str], seed: int) -> None:
        self._among, self._ranges, self._used, self._seed = among, ranges, used, seed

    def _is_free(self, address: str) -> bool:
        return address not in self._used and not self._among.has(IP_ADDRESSES, address)

    def allocate(self, family: str) -> str | None:
        """Allocate any free address of a family. Return None if no ServiceCIDR that is ready has one."""
        for network in ready_networks(self._among, self._ranges, family):
            for address in self._candidates(network):
                if self._is_free(address):
                    self._used.add(address)
                    return address
        return None

    def _candidates(self, network: Network) -> Iterator[str]:
        base, start = network.network_address, int(network.network_address)
        for part in address_ranges(network):
            for i in range(part.size):
                yield str(base + (part.first - start + (self._seed + i) % part.size))

    def take(self, text: str, family: str) -> str:
        """Allocate the requested address. Return the reason if that is impossible, otherwise ""."""
        address = parse_address(text)
        networks = ready_networks(self._among, self._ranges, family)
        if address is None or not any(contains_address(network, address) for network in networks):
            return MISMATCH
        if not self._is_free(str(address)):
            return ALLOCATED
        self._used.add(str(address))
        return ""


def read_service_ranges(cidrs: Iterable[str]) -> dict[str, Network]:
    """Parse service CIDRs into a mapping by IP family, the default family first.

    Raises ValueError for an invalid CIDR, one with fewer than 16 addresses, two CIDRs of one family, and no CIDR.
    """
    networks = [ip_network(cidr.strip()) for cidr in cidrs]
    found: dict[str, Network] = {family_of(network): network for network in networks}
    if not found or len(found) < len(networks):
        raise ValueError("expected one service CIDR, or one of each IP family")
    for network in networks:
        if network.num_addresses < _MINIMUM_ADDRESSES:
            raise ValueError(f"{network} has fewer than {_MINIMUM_ADDRESSES} addresses")
    return found


def canonical_address(text: str) -> str:
    """Return the canonical form of an IP address, as one IPv6 address can be written in several ways."""
    address = parse_address(text) if ":" in text else None
    return text if address is None else str(address)
