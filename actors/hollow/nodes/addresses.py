"""Addresses of the pods of a node: offsets into the node's range, or into its ranges, one of each IP family."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Key

Range = IPv4Network | IPv6Network


@lru_cache(maxsize=1024)
def pod_ranges(cidrs: tuple[str, ...]) -> tuple[Range, ...]:
    """Parse CIDRs. Raises ValueError on an invalid one."""
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


@dataclass(slots=True)
class _Taken:
    """One node. last: the offset handed out most recently."""

    offsets: set[int] = field(default_factory=set)
    last: int = 0


class AddressBook:
    """Offsets that pods use. A released one is reused last, as on a real node."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Taken] = {}
        self._held: dict[Key, tuple[str, str, int]] = {}  # pod → its uid, node and offset

    def knows(self, node: str) -> bool:
        return node in self._nodes

    def open(self, node: str, held: Iterable[tuple[Key, str, int]]) -> None:
        """Begin with a node; held: (pod, uid, offset) of the pods that have an address already."""
        taken = self._nodes[node] = _Taken()
        for pod, uid, offset in held:
            if offset not in taken.offsets:
                self._give(taken, pod, uid, node, offset)

    def assign(self, pod: Key, uid: str, node: str, *, size: int) -> int:
        """The pod's offset on a node that was opened: the one it has, or a free one. size: addresses in the range.

        The first and the last address of a range stay free, and the second is the node's own end of the network.
        Raises ValueError if all are taken.
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
        self.release(pod)  # a namesake's, whose deletion was not seen
        taken.offsets.add(offset)
        taken.last = offset
        self._held[pod] = (uid, node, offset)


def _in_turn(last: int, size: int) -> Iterator[int]:
    """All offsets of a range once, beginning after the last."""
    first, end = 2, size - 1
    start = min(max(last + 1, first), end)
    yield from range(start, end)
    yield from range(first, start)
