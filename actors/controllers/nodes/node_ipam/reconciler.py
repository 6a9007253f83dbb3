"""Gives each node without a range one of pod addresses, out of each of the cluster's ranges.

In: nodes. Out: one patch of spec.podCIDR and spec.podCIDRs, events on the node. The ranges that nodes hold are counted
before any is given: from a live list, as a late table may not show what an earlier incarnation has given. All nodes
wait for that pass: a list that fails is not tried again for each of them.

Source: kubernetes v1.36 pkg/controller/nodeipam/ipam/range_allocator.go. Differences:
- A node that holds a range outside of the cluster's does not keep others from being served.
- A block that was chosen for a node stays with its name until the node is gone: a patch without an answer is retried
  with the same block, and no block is lost to a failed try.
- What is reserved for services stays so, and a block that two nodes hold is free only when both are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcm.actors.controllers.nodes.node_ipam.cidr_set import CidrSet, parse_network
from kcm.actors.controllers.nodes.node_ipam.holdings import ClusterCidrExhaustedError, Holding, Holdings
from kcm.actors.controllers.nodes.node_ipam.ranges import NodeRanges
from kcm.actors.controllers.shared.cluster_ranges import pod_cidrs
from kcm.actors.reconciliation import (
    Enqueue,
    Reconciliation,
    Retry,
    Step,
    list_live,
    must_object,
    patch,
    record,
)
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import CommandError, Done, NotFound
from kcm.protocols.objects import Key, Object, is_deleting, name_of
from kcm.protocols.resources import NODES
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NODE_QUEUE = "cidrallocator_node"
PATCH_TRIES = 3
LIST_AGAIN = 10.0  # seconds. Source: nodePollInterval


class NodeIpamReconciler:
    """Key: a node's name. What nodes hold is counted once, before any range is given."""

    def __init__(self, *, tables: Tables, log: FilteringBoundLogger, metrics: Metrics, ranges: NodeRanges) -> None:
        self._nodes, self._log = tables[NODES], log
        self._ranges = ranges
        sets = [CidrSet(cluster, mask=mask) for cluster, mask in ranges.clusters]
        self._holdings = Holdings(sets, services=ranges.services, metrics=metrics)
        self._counted = False
        self._waiting: set[Key] = set()  # nodes that came before what is held was counted
        self._assigning: set[Key] = set()  # nodes whose patch is on its way

    def reconcile(self, key: Key) -> Reconciliation:
        if not self._counted:
            self._waiting.add(key)
            return None
        entry = self._nodes.entry(key)
        if entry is None:
            self._release(key)
            return None
        node = self._nodes.object_of(entry)
        if pod_cidrs(node):
            self._hold(node)
        elif not is_deleting(node):
            holding = yield from self._allot(node)
            self._assigning.add(key)
            try:
                yield from self._assign(node, holding)
            finally:
                self._assigning.discard(key)
        return None

    def count_holdings(self) -> Reconciliation:
        """The pass over what nodes hold already."""
        try:
            found = yield from must_object(list_live(NODES))
        except CommandError as err:
            raise Retry(f"nodes cannot get ranges yet: {err}", after=LIST_AGAIN) from err
        for text in self._ranges.unreadable:
            self._log.warning("service range not understood, it is not kept free", cidr=text)
        for node in found.get("items") or ():
            try:
                self._hold(node)
            except ValueError as err:
                self._log.warning("node holds a strange range", node=name_of(node), error=str(err))
        self._counted = True
        for key in sorted(self._waiting):
            yield Enqueue(NODE_QUEUE, key)
        self._waiting.clear()
        return None

    def _hold(self, node: Object) -> None:
        """Raises ValueError if the node holds a range outside of the cluster's, or no valid range."""
        name, texts = name_of(node), pod_cidrs(node)
        if not texts:
            return
        for network in self._holdings.hold(name, tuple(map(parse_network, texts))):
            self._log.warning("a node's range is not its own alone", node=name, cidr=str(network))

    def _release(self, node: Key) -> None:
        networks = self._holdings.release(node)
        if networks:
            self._log.info("range released", node=node, cidrs=[str(network) for network in networks])

    def _allot(self, node: Object) -> Step[Holding]:
        held = self._holdings.of(name_of(node))
        if held is not None:
            return held
        for doubt in self._nodes.unreadable():
            if self._holdings.of(doubt.key) is None:
                raise UnreadableError(NODES, doubt)  # it may hold any range
        try:
            try:
                return self._holdings.allot(name_of(node))
            except ClusterCidrExhaustedError:
                self._release_what_is_gone()
                return self._holdings.allot(name_of(node))
        except ClusterCidrExhaustedError:
            yield _status_event(node, "CIDRNotAvailable")
            raise

    def _release_what_is_gone(self) -> None:
        """Release nodes that the live list showed and that were deleted before the table showed them."""
        for name in self._holdings.holders():
            is_there = self._nodes.entry(name) is not None or self._nodes.is_unreadable(name)
            if name not in self._assigning and not is_there:
                self._release(name)

    def _assign(self, node: Object, holding: Holding) -> Step[None]:
        name, texts = name_of(node), [str(network) for network in holding]
        command = patch(NODES, name, {"spec": {"podCIDR": texts[0], "podCIDRs": texts}})
        for _ in range(PATCH_TRIES):
            outcome = yield command
            match outcome:
                case Done():
                    self._log.info("range assigned", node=name, cidrs=texts)
                    return
                case NotFound():
                    return  # its event releases the range
        yield _status_event(node, "CIDRAssignmentFailed")
        raise CommandError(command, outcome)


def _status_event(node: Object, reason: str) -> Record:
    return record(NODES, node, "Normal", reason, f"Node {name_of(node)} status is now: {reason}")
