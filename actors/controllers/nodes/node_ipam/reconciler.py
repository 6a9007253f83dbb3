"""Reconciler of node-ipam-controller: allocates pod CIDRs to nodes, one from each cluster CIDR.

In: nodes. Out: one patch of spec.podCIDR and spec.podCIDRs, events on the node.

Before the first allocation, the nodes are listed from the API server, and the CIDRs in their specs are recorded as
allocated. The table of nodes would not do: it may lag, and miss allocations made before a restart. All nodes wait for
this list, so that a failed list is not retried for each node.

Source: kubernetes v1.36 pkg/controller/nodeipam/ipam/range_allocator.go. Differences:
- A node with a CIDR outside the cluster CIDRs does not prevent allocations for other nodes.
- A block that was chosen for a node is kept until the node is deleted: a patch with unknown outcome is retried with the
  same block, and no block is leaked by a failed attempt.
- Blocks reserved for Services are never freed, and a block that two nodes share is freed only when both are deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcm.actors.controllers.nodes.node_ipam.cidr_set import CidrSet, parse_network
from kcm.actors.controllers.nodes.node_ipam.cluster_cidrs import ClusterCidrs
from kcm.actors.controllers.nodes.node_ipam.node_cidrs import Cidrs, ClusterCidrExhaustedError, NodeCidrs
from kcm.actors.controllers.shared.cluster_ranges import pod_cidrs
from kcm.actors.reconciliation import (
    Because,
    Enqueue,
    Reconciliation,
    Retry,
    Step,
    list_live,
    must_object,
    patch,
    record,
)
from kcm.protocols.integers import counted
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import Key, Object, is_deleting, name_of
from kcm.protocols.resources import NODES
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NODE_QUEUE = "cidrallocator_node"
PATCH_TRIES = 3
LIST_RETRY = 10.0  # seconds after which a failed list of nodes is repeated. Source: nodePollInterval


class NodeIpamReconciler:
    """Reconciler of the pod CIDRs of nodes. Key: name of the node.

    It allocates nothing before `occupy_cidrs` has recorded the CIDRs of all existing nodes.
    """

    def __init__(self, *, tables: Tables, log: FilteringBoundLogger, metrics: Metrics, ranges: ClusterCidrs) -> None:
        self._nodes, self._log = tables[NODES], log
        self._ranges = ranges
        sets = [CidrSet(cluster, mask=mask) for cluster, mask in ranges.clusters]
        self._node_cidrs = NodeCidrs(sets, services=ranges.services, metrics=metrics)
        self._occupied = False
        self._waiting: set[Key] = set()  # nodes whose sync waits for occupy_cidrs
        self._assigning: set[Key] = set()  # nodes whose patch is in flight

    def reconcile(self, key: Key) -> Reconciliation:
        """Allocate CIDRs to a node that has none, or free the CIDRs of a deleted node. Source: syncNode."""
        if not self._occupied:
            self._waiting.add(key)
            yield Because("waits until the CIDRs of all existing nodes have been read from the server")
            return None
        entry = self._nodes.entry(key)
        if entry is None:
            self._release(key)
            return None
        node = self._nodes.object_of(entry)
        if pod_cidrs(node):
            self._occupy(node)
        elif not is_deleting(node):
            cidrs = yield from self._allocate(node)
            yield Because(f"has no pod CIDR: assigns {', '.join(map(str, cidrs))}")
            self._assigning.add(key)
            try:
                yield from self._assign(node, cidrs)
            finally:
                self._assigning.discard(key)
        return None

    def occupy_cidrs(self) -> Reconciliation:
        """Record the CIDRs of all existing nodes as allocated, from a live list, and enqueue the waiting nodes.

        Raises Retry if the nodes could not be listed.
        """
        try:
            found = yield from must_object(list_live(NODES))
        except CommandError as err:
            raise Retry(f"no CIDRs can be allocated, nodes could not be listed: {err}", after=LIST_RETRY) from err
        for text in self._ranges.unreadable:
            self._log.warning("invalid service CIDR, ignoring it", cidr=text)
        for node in found.get("items") or ():
            try:
                self._occupy(node)
            except ValueError as err:
                self._log.warning("invalid node CIDR", node=name_of(node), error=str(err))
        self._occupied = True
        yield Because(f"recorded the CIDRs of all existing nodes; {counted(len(self._waiting), 'node')} waited for it")
        for key in sorted(self._waiting):
            yield Enqueue(NODE_QUEUE, key)
        self._waiting.clear()
        return None

    def _occupy(self, node: Object) -> None:
        """Record the CIDRs in the node's spec as allocated.

        Raises ValueError if a CIDR is invalid, or is not part of the cluster CIDRs.
        """
        name, texts = name_of(node), pod_cidrs(node)
        if not texts:
            return
        for network in self._node_cidrs.occupy(name, tuple(map(parse_network, texts))):
            self._log.warning("node CIDR overlaps another node's", node=name, cidr=str(network))

    def _release(self, node: Key) -> None:
        networks = self._node_cidrs.release(node)
        if networks:
            self._log.info("released node CIDRs", node=node, cidrs=[str(network) for network in networks])

    def _allocate(self, node: Object) -> Step[Cidrs]:
        """Return the CIDRs for a node: those chosen before a failed patch, or newly allocated ones.

        Raises ClusterCidrExhaustedError, after an event, if a cluster CIDR has no free block. Raises UnreadableError if
        the CIDRs of another node are unknown.
        """
        known = self._node_cidrs.cidrs_of(name_of(node))
        if known is not None:
            return known
        for unreadable in self._nodes.unreadable():
            if self._node_cidrs.cidrs_of(unreadable.key) is None:
                raise UnreadableError(NODES, unreadable)  # its CIDRs are unknown, so any block might be one of them
        try:
            try:
                return self._node_cidrs.allocate(name_of(node))
            except ClusterCidrExhaustedError:
                self._release_deleted_nodes()
                return self._node_cidrs.allocate(name_of(node))
        except ClusterCidrExhaustedError:
            yield Because("no block of the cluster CIDRs is free")
            yield _status_event(node, "CIDRNotAvailable")
            raise

    def _release_deleted_nodes(self) -> None:
        """Free the CIDRs of nodes that do not exist any more.

        Usually they are freed when the watch reports the deletion of the node. But the watch does not report nodes that
        were in the first live list, and were deleted before the watch began.
        """
        for name in self._node_cidrs.nodes():
            exists = self._nodes.entry(name) is not None or self._nodes.is_unreadable(name)
            if name not in self._assigning and not exists:
                self._release(name)

    def _assign(self, node: Object, cidrs: Cidrs) -> Step[None]:
        """Patch the CIDRs into the node's spec. Raises CommandError, after an event, if three attempts have failed."""
        name, texts = name_of(node), [str(network) for network in cidrs]
        command = patch(NODES, name, {"spec": {"podCIDR": texts[0], "podCIDRs": texts}})
        for _ in range(PATCH_TRIES):
            outcome = yield command
            match outcome:
                case Done():
                    self._log.info("assigned node CIDRs", node=name, cidrs=texts)
                    return
                case NotFound():
                    return  # the event of its deletion releases the CIDRs
        yield _status_event(node, "CIDRAssignmentFailed")
        raise CommandError(command, outcome)


def _status_event(node: Object, reason: str) -> Record:
    return record(NODES, node, "Normal", reason, f"Node {name_of(node)} status is now: {reason}")
