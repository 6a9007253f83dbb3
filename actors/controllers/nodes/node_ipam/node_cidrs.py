"""Record of the pod CIDRs of each node.

It is filled from the existing nodes. A new allocation is recorded before the node is patched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kcm.actors.controllers.nodes.node_ipam.cidr_set import CidrSet, RangeExhaustedError
from kcm.actors.controllers.shared.cluster_ranges import Network
from kcm.protocols.objects import Key
from kcm.runtime.metrics.registry import Family, Metrics

_LABELS = ("clusterCIDR",)
ALLOCATIONS = Family(
    name="node_ipam_controller_cidrset_cidrs_allocations_total",
    kind="counter",
    help="Counter measuring total number of CIDR allocations.",
    labels=_LABELS,
)
RELEASES = Family(
    name="node_ipam_controller_cidrset_cidrs_releases_total",
    kind="counter",
    help="Counter measuring total number of CIDR releases.",
    labels=_LABELS,
)
MAX_CIDRS = Family(
    name="node_ipam_controller_cirdset_max_cidrs",  # upstream's spelling
    kind="gauge",
    help="Maximum number of CIDRs that can be allocated.",
    labels=_LABELS,
)
USAGE = Family(
    name="node_ipam_controller_cidrset_usage_cidrs",
    kind="gauge",
    help="Gauge measuring percentage of allocated CIDRs.",
    labels=_LABELS,
)
TRIES = Family(
    name="node_ipam_controller_cidrset_allocation_tries_per_request",
    kind="histogram",
    help="Number of endpoints added on each Service sync",  # as upstream, although it counts allocation tries
    labels=_LABELS,
    buckets=(1.0, 5.0, 25.0, 125.0, 625.0),
)


Cidrs = tuple[Network, ...]  # the CIDRs of one node: the i-th is part of the i-th cluster CIDR


class _MeteredSet:
    """CidrSet with the metrics of its cluster CIDR."""

    def __init__(self, blocks: CidrSet, metrics: Metrics) -> None:
        label = str(blocks.cluster)
        self.blocks = blocks
        self.allocations, self.releases = metrics.counter(ALLOCATIONS, label), metrics.counter(RELEASES, label)
        self.tries = metrics.histogram(TRIES, label)
        metrics.gauge(MAX_CIDRS, label).set(blocks.size)
        metrics.gauge(USAGE, label).read_from(lambda: blocks.used / blocks.size)


class NodeCidrs:
    """Record of the pod CIDRs of each node. A block that two nodes share is freed only when both are deleted."""

    def __init__(self, sets: Sequence[CidrSet], *, services: Iterable[Network], metrics: Metrics) -> None:
        """Create the record of pod CIDRs, without nodes.

        sets: one for each cluster CIDR, in the order of --cluster-cidr.
        services: CIDRs of Services, whose blocks are never allocated to nodes.
        """
        self._sets = [_MeteredSet(blocks, metrics) for blocks in sets]
        self._cidrs: dict[Key, Cidrs] = {}
        self._node_counts: Counter[tuple[int, Network]] = Counter()
        for service in services:
            for cidr_set in self._sets:
                cluster = cidr_set.blocks.cluster
                if service.version == cluster.version and service.overlaps(cluster):
                    cidr_set.allocations.inc(cidr_set.blocks.reserve(service))

    def cidrs_of(self, node: Key) -> Cidrs | None:
        return self._cidrs.get(node)

    def nodes(self) -> list[Key]:
        return list(self._cidrs)

    def occupy(self, node: Key, cidrs: Cidrs) -> list[Network]:
        """Record the CIDRs of a node, instead of those recorded before.

        Returns those of its CIDRs that overlap another node's CIDRs. Raises ValueError, and changes nothing, if a CIDR
        is not part of the cluster CIDRs.
        """
        if self._cidrs.get(node) == cidrs:
            return []
        if len(cidrs) > len(self._sets):
            raise ValueError(f"node {node} has {len(cidrs)} CIDRs, more than the {len(self._sets)} of --cluster-cidr")
        spans = [cidr_set.blocks.span(network) for cidr_set, network in zip(self._sets, cidrs, strict=False)]
        self.release(node)
        self._cidrs[node] = cidrs
        taken = []
        for index, network in enumerate(cidrs):
            cidr_set = self._sets[index]
            new = cidr_set.blocks.occupy(network)
            cidr_set.allocations.inc(new)
            self._node_counts[index, network] += 1
            if new < len(spans[index]):
                taken.append(network)
        return taken

    def allocate(self, node: Key) -> Cidrs:
        """Allocate a free block of each cluster CIDR to a node, and return the blocks.

        Raises ClusterCidrExhaustedError, and allocates nothing, if a cluster CIDR has no free block.
        """
        found: list[Network] = []
        try:
            for index, cidr_set in enumerate(self._sets):
                allocation = cidr_set.blocks.allocate()
                found.append(allocation.network)
                self._node_counts[index, allocation.network] += 1
                cidr_set.allocations.inc()
                cidr_set.tries.observe(allocation.skipped)
        except RangeExhaustedError as err:
            self._free(found)
            raise ClusterCidrExhaustedError(len(found), err) from err
        self._cidrs[node] = tuple(found)
        return self._cidrs[node]

    def release(self, node: Key) -> Cidrs:
        """Free the CIDRs of a node, and return them; empty if the node has no recorded CIDRs."""
        cidrs = self._cidrs.pop(node, ())
        self._free(cidrs)
        return cidrs

    def _free(self, networks: Sequence[Network]) -> None:
        for index, network in enumerate(networks):
            self._node_counts[index, network] -= 1
            if self._node_counts[index, network] == 0:
                del self._node_counts[index, network]
                cidr_set = self._sets[index]
                cidr_set.releases.inc(cidr_set.blocks.release(network))


class ClusterCidrExhaustedError(Exception):
    """Raised if a cluster CIDR has no free block. index: position of the cluster CIDR in --cluster-cidr."""

    def __init__(self, index: int, why: RangeExhaustedError) -> None:
        super().__init__(f"failed to allocate cidr from cluster cidr at idx:{index}: {why}")
