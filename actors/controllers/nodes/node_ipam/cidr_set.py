"""Allocator of the blocks that a cluster CIDR is divided into; each node is given one block for its pods.

Source: kubernetes v1.36 pkg/controller/nodeipam/ipam/cidrset/cidr_set.go. Difference: reserved blocks are never freed.
"""

from __future__ import annotations

import ipaddress

from msgspec import Struct

from kcm.actors.controllers.shared.cluster_ranges import Network


class RangeExhaustedError(Exception):
    """Raised if no block of a cluster CIDR is free."""

    def __init__(self) -> None:
        super().__init__("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range")


class AllocatedBlock(Struct, frozen=True):
    """Block of a cluster CIDR that `CidrSet.allocate` has allocated."""

    network: Network
    skipped: int  # number of allocated blocks that the search passed before it found this one


class CidrSet:
    """Bit map of the free and allocated blocks of one cluster CIDR. All blocks have the same size.

    It does not record which node has which block; NodeCidrs does.
    """

    def __init__(self, cluster: Network, *, mask: int) -> None:
        """Create the set, with all blocks free.

        mask: prefix length of each block, at least that of the cluster CIDR.
        """
        self.cluster, self.mask = cluster, mask
        self.size = 1 << (mask - cluster.prefixlen)
        self.used = 0
        self._host_bits = cluster.max_prefixlen - mask
        self._base = int(cluster.network_address)
        self._taken = self._reserved = 0  # bit maps with one bit per block
        # Index at which the search for a free block begins. A freed block is reused only after all others.
        self._next = 0

    def block(self, index: int) -> Network:
        address = self._base | index << self._host_bits
        return type(self.cluster)((address, self.mask))

    def span(self, network: Network) -> range:
        """Return the indexes of the blocks that overlap a network. Raises ValueError if no block overlaps it."""
        if network.version != self.cluster.version or not network.overlaps(self.cluster):
            raise ValueError(f"cidr {network} is out the range of cluster cidr {self.cluster}")
        if network.prefixlen <= self.cluster.prefixlen:
            return range(self.size)
        first = (int(network.network_address) ^ self._base) >> self._host_bits
        last = (int(network.broadcast_address) ^ self._base) >> self._host_bits
        return range(first, last + 1)

    def allocate(self) -> AllocatedBlock:
        """Allocate the next free block, round robin. Raises RangeExhaustedError if no block is free."""
        if self.used == self.size:
            raise RangeExhaustedError
        free = ~self._taken & (1 << self.size) - 1
        index = _lowest(free >> self._next) + self._next if free >> self._next else _lowest(free)
        skipped = (index - self._next) % self.size
        self._next = (index + 1) % self.size
        self._take(1 << index)
        return AllocatedBlock(self.block(index), skipped)

    def occupy(self, network: Network) -> int:
        """Allocate all blocks that overlap a network. Returns how many of them were free.

        Raises ValueError if no block overlaps the network.
        """
        return self._take(_bits(self.span(network)))

    def reserve(self, network: Network) -> int:
        """Allocate all blocks that overlap a network permanently: `release` does not free them.

        Returns how many of them were free. Raises ValueError if no block overlaps the network.
        """
        bits = _bits(self.span(network))
        self._reserved |= bits
        return self._take(bits)

    def release(self, network: Network) -> int:
        """Free all blocks that overlap a network, except reserved blocks. Returns how many blocks were freed.

        Raises ValueError if no block overlaps the network.
        """
        bits = _bits(self.span(network)) & self._taken & ~self._reserved
        self._taken &= ~bits
        self.used -= bits.bit_count()
        return bits.bit_count()

    def _take(self, bits: int) -> int:
        new = bits & ~self._taken
        self._taken |= new
        self.used += new.bit_count()
        return new.bit_count()


def parse_network(text: str) -> Network:
    """Parse a CIDR; host bits are set to 0. Raises ValueError if it is malformed."""
    return ipaddress.ip_network(text, strict=False)


def _bits(span: range) -> int:
    return ((1 << len(span)) - 1) << span.start


def _lowest(bits: int) -> int:
    """Return the index of the lowest bit that is set in a bit map that is not 0."""
    return (bits & -bits).bit_length() - 1
