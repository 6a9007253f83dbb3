"""Names, zones, capacities and address ranges of the hollow nodes."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address

from msgspec import Struct

from kcm.protocols.hollow_nodes import NODE_RANGE, POD_RANGE

REGION = "hollow"
NODE_USER = "system:node:"  # prefix of the user names of nodes


class HollowNode(Struct, frozen=True, kw_only=True):
    """Hollow node.

    cpu, memory: capacity, as quantities.
    pods: maximum number of pods.
    pod_range: addresses of its pods if it has no podCIDR.
    """

    name: str
    zone: str
    address: str
    pod_range: str
    cpu: str
    memory: str
    pods: int

    @property
    def user(self) -> str:
        """Return the user name of its kubelet."""
        return f"{NODE_USER}{self.name}"


def zone_name(index: int) -> str:
    """Return the name of a zone: zone-a to zone-z, then zone-aa."""
    letters = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        letters = chr(ord("a") + letter) + letters
    return f"zone-{letters}"


def make_fleet(
    *, nodes: int, zones: int, cpu: str = "32", memory: str = "128Gi", pods: int = 110
) -> Mapping[str, HollowNode]:
    """Return the hollow nodes by name (from hollow-node-0), assigned to the zones round robin.

    Raises ValueError on invalid counts, or if there are not enough addresses.
    """
    if nodes < 0 or zones < 1 or pods < 1:
        raise ValueError(f"hollow nodes: nodes >= 0, zones >= 1, pods >= 1; got {nodes=} {zones=} {pods=}")
    # Twice as many addresses as pods: terminating pods keep theirs.
    bits = max(8, (2 * pods + 1).bit_length())
    if nodes > NODE_RANGE.num_addresses - 2 or nodes << bits > POD_RANGE.num_addresses:
        raise ValueError(f"there are not enough addresses for {nodes} hollow nodes of {pods} pods")
    fleet = {}
    for index in range(nodes):
        name = f"hollow-node-{index}"
        first = IPv4Address(int(POD_RANGE.network_address) + (index << bits))
        fleet[name] = HollowNode(
            name=name,
            zone=zone_name(index % zones),
            address=str(NODE_RANGE[index + 1]),
            pod_range=f"{first}/{32 - bits}",
            cpu=cpu,
            memory=memory,
            pods=pods,
        )
    return fleet
