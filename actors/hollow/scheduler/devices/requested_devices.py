"""Claims of a pod in one scheduling attempt, and the device requests for its extended resources."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from kcm.actors.hollow.scheduler.devices.allocator import Allocator
from kcm.actors.hollow.scheduler.devices.extended_resources import ExtendedRequests, extended_requests
from kcm.actors.hollow.scheduler.devices.reservations import Reservation
from kcm.actors.hollow.scheduler.node_fit import NodeView
from kcm.protocols.node_affinity import Term
from kcm.protocols.objects import Object


class RequestedDevices(Struct, eq=False):
    """Claims of a pod in one scheduling attempt.

    claims: all claims.
    of_group: entries of status.reservedFor for the pod's PodGroup, by the uid of each claim that belongs to the group.
    unallocated: claims to allocate.
    reserved: claims whose allocation is being written, by an earlier attempt for this pod.
    reach: allocated claims, with the terms of their node selectors; None for all nodes.
    allocations: by node, an AllocationResult for each unallocated claim.
    unusable: allocated claims that cannot be used on some node.
    extended: extended resources of the pod that a DeviceClass provides.
    classes: names of the DeviceClasses by extended resource.
    own: the claim for extended resources that an earlier attempt has created.
    stale: whether `own` cannot be used.
    extended_requests: device requests by the extended resources that devices provide on a node.
    """

    claims: list[Object] = field(default_factory=list)
    of_group: dict[str, Object] = field(default_factory=dict)
    unallocated: list[Object] = field(default_factory=list)
    reserved: list[tuple[Object, Reservation]] = field(default_factory=list)
    reach: list[tuple[Object, tuple[Term, ...] | None]] = field(default_factory=list)
    allocator: Allocator | None = None
    allocations: dict[str, list[Object]] = field(default_factory=dict)
    unusable: list[Object] = field(default_factory=list)
    extended: frozenset[str] = frozenset()
    classes: Mapping[str, str] = field(default_factory=dict)
    own: Object | None = None
    stale: bool = False
    extended_requests: dict[frozenset[str], ExtendedRequests] = field(default_factory=dict)

    def delegates(self, resource: str, node: NodeView) -> bool:
        """Report whether devices, and not the node itself, provide an extended resource. Source: fitsRequest."""
        return resource in self.extended and not node.allocatable.get(resource)

    def delegated(self, node: NodeView) -> frozenset[str]:
        return frozenset(resource for resource in self.extended if self.delegates(resource, node))

    def extended_on(self, node: NodeView, pod: Object) -> ExtendedRequests:
        """Return the device requests for the extended resources of the pod that devices provide on this node."""
        names = self.delegated(node)
        known = self.extended_requests.get(names)
        if known is None:
            known = extended_requests(pod, names, lambda name: self.classes.get(name, ""))
            self.extended_requests[names] = known
        return known


NO_DEVICES = RequestedDevices()
