"""Which node holds which blocks: rebuilt from the nodes, and ahead of them by the patches under way."""

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
    help="Ranges taken.",
    labels=_LABELS,
)
RELEASES = Family(
    name="node_ipam_controller_cidrset_cidrs_releases_total", kind="counter", help="Ranges released.", labels=_LABELS
)
MOST = Family(
    name="node_ipam_controller_cirdset_max_cidrs",  # upstream's spelling
    kind="gauge",
    help="Ranges that there are.",
    labels=_LABELS,
)
USAGE = Family(
    name="node_ipam_controller_cidrset_usage_cidrs", kind="gauge", help="Part of them that is taken.", labels=_LABELS
)
TRIES = Family(
    name="node_ipam_controller_cidrset_allocation_tries_per_request",
    kind="histogram",
    help="Taken ranges that were passed over to find a free one.",
    labels=_LABELS,
    buckets=(1.0, 5.0, 25.0, 125.0, 625.0),
)


Holding = tuple[Network, ...]  # the i-th is part of the i-th cluster range


class _Range:
    """A set with its metrics."""

    def __init__(self, blocks: CidrSet, metrics: Metrics) -> None:
        label = str(blocks.cluster)
        self.blocks = blocks
        self.allocations, self.releases = metrics.counter(ALLOCATIONS, label), metrics.counter(RELEASES, label)
        self.tries = metrics.histogram(TRIES, label)
        metrics.gauge(MOST, label).set(blocks.size)
        metrics.gauge(USAGE, label).read_from(lambda: blocks.used / blocks.size)


class Holdings:
    """The blocks of each node. A block that two nodes hold is free only when both are gone."""

    def __init__(self, sets: Sequence[CidrSet], *, services: Iterable[Network], metrics: Metrics) -> None:
        """services: ranges that no node may get."""
        self._ranges = [_Range(blocks, metrics) for blocks in sets]
        self._holdings: dict[Key, Holding] = {}
        self._holders: Counter[tuple[int, Network]] = Counter()
        for service in services:
            for one in self._ranges:
                cluster = one.blocks.cluster
                if service.version == cluster.version and service.overlaps(cluster):
                    one.allocations.inc(one.blocks.reserve(service))

    def of(self, node: Key) -> Holding | None:
        return self._holdings.get(node)

    def holders(self) -> list[Key]:
        return list(self._holdings)

    def hold(self, node: Key, holding: Holding) -> list[Network]:
        """The node holds exactly these. Returns those that another node holds too, at least in part.

        Raises ValueError, and changes nothing, if one of them is not part of the cluster's ranges.
        """
        if self._holdings.get(node) == holding:
            return []
        if len(holding) > len(self._ranges):
            raise ValueError(f"node {node} has {len(holding)} ranges, the cluster {len(self._ranges)}")
        spans = [one.blocks.span(network) for one, network in zip(self._ranges, holding, strict=False)]
        self.release(node)
        self._holdings[node] = holding
        taken = []
        for index, network in enumerate(holding):
            one = self._ranges[index]
            new = one.blocks.occupy(network)
            one.allocations.inc(new)
            self._holders[index, network] += 1
            if new < len(spans[index]):
                taken.append(network)
        return taken

    def allot(self, node: Key) -> Holding:
        """A free block of each cluster range. Raises RangeExhaustedError, and takes none, if one has none left."""
        found: list[Network] = []
        try:
            for index, one in enumerate(self._ranges):
                allocation = one.blocks.allocate()
                found.append(allocation.network)
                self._holders[index, allocation.network] += 1
                one.allocations.inc()
                one.tries.observe(allocation.skipped)
        except RangeExhaustedError as err:
            self._give_back(found)
            raise ClusterCidrExhaustedError(len(found), err) from err
        self._holdings[node] = tuple(found)
        return self._holdings[node]

    def release(self, node: Key) -> Holding:
        """Free what the node holds; returns that."""
        holding = self._holdings.pop(node, ())
        self._give_back(holding)
        return holding

    def _give_back(self, networks: Sequence[Network]) -> None:
        for index, network in enumerate(networks):
            self._holders[index, network] -= 1
            if self._holders[index, network] == 0:
                del self._holders[index, network]
                one = self._ranges[index]
                one.releases.inc(one.blocks.release(network))


class ClusterCidrExhaustedError(Exception):
    """The cluster range of this index has no free block left."""

    def __init__(self, index: int, why: RangeExhaustedError) -> None:
        super().__init__(f"failed to allocate cidr from cluster cidr at idx:{index}: {why}")
