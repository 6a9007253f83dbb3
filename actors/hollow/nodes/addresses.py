"""Addresses of a node's pods: offsets into the node's ranges, one range for each IP family."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from msgspec import Struct, field

from kcm.protocols.objects import Key

Range = IPv4Network | IPv6Network


@lru_cache(maxsize=1024)
def pod_ranges(cidrs: tuple[str, ...]) -> tuple[Range, ...]:
    """Parse CIDRs. Raises ValueError for an invalid CIDR."""
    return tuple(ip_network(cidr, strict=False) for cidr in cidrs)


def addresses_at(ranges: Sequence[Range], offset: int) -> list[str]:
    return [str(network[offset]) for network in ranges]


def offset_of(ranges: Sequence[Range], address: str) -> int | None:
    """Return the offset of an address; None if it is invalid or outside of all ranges."""
    try:
        parsed: IPv4Address | IPv6Address = ip_address(address)
    except ValueError:
        return None
    for network in ranges:
        if parsed.version == network.version and parsed in network:
            return int(parsed) - int(network.network_address)
    return None


class _Taken(Struct):
    """Offsets in use on one node. last: the offset that was assigned most recently."""

    offsets: set[int] = field(default_factory=set)
    last: int = 0


class AddressBook:
    """Offsets that pods use. A released offset is reused last, as on a real node."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Taken] = {}
        self._held: dict[Key, tuple[str, str, int]] = {}  # pod → its uid, node and offset

    def knows(self, node: str) -> bool:
        return node in self._nodes

    def open(self, node: str, held: Iterable[tuple[Key, str, int]]) -> None:
        """Add a node. held: (pod, uid, offset) of the pods that already have an address."""
        taken = self._nodes[node] = _Taken()
        for pod, uid, offset in held:
            if offset not in taken.offsets:
                self._give(taken, pod, uid, node, offset)

    def assign(self, pod: Key, uid: str, node: str, *, size: int) -> int:
        """Return the pod's offset on an added node: its present offset, or a free one.

        size: number of addresses in the range.

        The first and the last address of a range are not used, and the second is the node's own address in the pod
        network. Raises ValueError if no offset is free.
        """
        known = self._held.get(pod)
        if known is not None and known[:2] == (uid, node):
            return known[2]
        taken = self._nodes[node]
        for offset in _in_turn(taken.last, size):
            if offset not in taken.offsets:
                self._give(taken, pod, uid, node, offset)
                return offset
        raise ValueError(f"no free address for pod {pod} on node {node}: all {max(0, size - 3)} are taken")

    def release(self, pod: Key) -> None:
        known = self._held.pop(pod, None)
        if known is not None:
            _, node, offset = known
            self._nodes[node].offsets.discard(offset)

    def _give(self, taken: _Taken, pod: Key, uid: str, node: str, offset: int) -> None:
        self.release(pod)  # of an earlier pod with this name, whose deletion was not observed
        taken.offsets.add(offset)
        taken.last = offset
        self._held[pod] = (uid, node, offset)


def _in_turn(last: int, size: int) -> Iterator[int]:
    """Yield all offsets of a range once, beginning after the last assigned offset."""
    first, end = 2, size - 1
    start = min(max(last + 1, first), end)
    yield from range(start, end)
    yield from range(first, start)
