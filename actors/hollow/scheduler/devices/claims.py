"""ResourceClaims of a pod: gates of scheduling, and allocation for the choice of its node.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go. Differences: nodes are
not scored by the alternatives of a request, but those with the best alternatives are preferred over all others;
status.nominatedNodeName is not written before the claims; the claim for extended resources of an earlier attempt is
used if it is allocated and reserved for the pod, and only otherwise deleted; the pods of a PodGroup are scheduled one
by one, so a pod waits until a claim that it shares with its group has been written for another pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from kcm.actors.controllers.devices.resource_claim.watches import PodGroupMissingError, group_of
from kcm.actors.hollow.scheduler.devices.allocator import Allocator
from kcm.actors.hollow.scheduler.devices.capacity import Consumed
from kcm.actors.hollow.scheduler.devices.claim_facts import (
    CLAIMS_BY_DEVICE,
    DEDICATED,
    SHARED,
    claim_references,
    devices_of,
    readiness,
    score,
)
from kcm.actors.hollow.scheduler.devices.claim_writer import ClaimWriter
from kcm.actors.hollow.scheduler.devices.extended_resources import (
    classes_by_resource,
    extended_names,
    is_extended_claim,
    new_claim,
)
from kcm.actors.hollow.scheduler.devices.inventory import DeviceId, Slices
from kcm.actors.hollow.scheduler.devices.requested_devices import RequestedDevices
from kcm.actors.hollow.scheduler.devices.requests import AllocationError, NodeAllocationError
from kcm.actors.hollow.scheduler.devices.reservations import Reservations
from kcm.actors.hollow.scheduler.node_fit import NodeView
from kcm.actors.hollow.scheduler.volumes import UnresolvableError
from kcm.protocols.node_affinity import Term, terms_of
from kcm.protocols.objects import Object, is_deleting, key_of, make_key, namespace_of, uid_of
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.resource_claims import (
    allocation_of,
    binds_to_group,
    consumer_of,
    has_prioritized_list,
    is_reserved_for,
    owner_problem,
)
from kcm.protocols.resources import DEVICE_CLASSES, POD_GROUPS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.tables import Tables

NOT_ALLOCATED = "cannot allocate all claims"
STALE_CLAIM = "cannot schedule extended resource claim"
NOT_ON_NODE = "resourceclaim not available on the node"


class PodDevices:
    """Claims of pods, and the devices that are being allocated to them."""

    def __init__(self, tables: Tables, clock: Clock, *, rules: Resource | None = None, groups: bool = False) -> None:
        """Initialise for the tables.

        rules: the resource of DeviceTaintRules; None to ignore them.
        groups: whether claims can belong to PodGroups (feature gate DRAWorkloadResourceClaims).
        """
        self._claims: Lister = tables[RESOURCE_CLAIMS]
        self._classes: Lister = tables[DEVICE_CLASSES]
        self._parsed = Slices(tables[RESOURCE_SLICES], None if rules is None else tables[rules])
        self._clock = clock
        self._reservations = Reservations()
        self._groups: Lister | None = tables[POD_GROUPS] if groups else None
        self.writer = ClaimWriter(self._claims, clock, self._reservations, groups=self._groups)
        self._by_resource: Mapping[str, str] = {}  # names of DeviceClasses
        self._classes_version = -1  # of the table, for _by_resource

    @property
    def version(self) -> int:
        """Return a number that rises with every change that may affect allocations."""
        self._reservations.release(self._claims, now=self._clock.monotonic())
        versions = self._claims.version + self._parsed.version + self._classes.version
        return versions + self._reservations.releases

    def is_gated(self, pod: Object) -> bool:
        """Report whether the pod is not scheduled, silently, until its claims exist.

        Source: PreEnqueue of the plugin.
        """
        for reference in claim_references(pod):
            if reference.name is None:
                return True
            claim = self._claims.get(make_key(namespace_of(pod), reference.name))
            if claim is None or is_deleting(claim):
                return True
            if reference.is_own and owner_problem(pod, claim, accept_group=self._groups is not None):
                return True
        return False

    def requested(self, pod: Object) -> RequestedDevices:
        """Return the claims of a pod that is not gated. Raises UnresolvableError."""
        self._reservations.release(self._claims, now=self._clock.monotonic())
        found = RequestedDevices()
        try:
            group = group_of(pod, self._groups)
        except PodGroupMissingError as err:
            raise UnresolvableError(err.cause) from err
        for name, _, entry in claim_references(pod):
            claim = self._claims.get(make_key(namespace_of(pod), name or ""))
            if claim is None:
                raise UnresolvableError(f'resourceclaim.resource.k8s.io "{name}" not found')
            found.claims.append(claim)
            if group is not None and binds_to_group(entry, group):
                found.of_group[uid_of(claim)] = consumer_of(group, is_group=True)
            allocation = allocation_of(claim)
            if allocation is not None:
                selector = allocation.get("nodeSelector")
                found.reach.append((claim, None if selector is None else terms_of(selector)))
                continue
            reservation = self._reservations.get(uid_of(claim))
            if reservation is None:
                self._check_classes(claim)
                found.unallocated.append(claim)
            elif reservation.pod == uid_of(pod):
                found.reserved.append((claim, reservation))
            else:
                raise UnresolvableError(f"resource claim {key_of(claim)} is in the process of being allocated")
        self._add_extended(found, pod)
        if found.unallocated or (found.extended and found.own is None):
            found.allocator = Allocator(self._parsed.inventory(), self, self._classes.get)
        return found

    def _add_extended(self, found: RequestedDevices, pod: Object) -> None:
        """Add the extended resources of a pod that devices provide. Source: preFilterExtendedResources."""
        found.classes = self._classes_by_resource()
        found.extended = frozenset(name for name in extended_names(pod) if name in found.classes)
        if not found.extended:
            return
        own = next((claim for claim in self._claims.owned_by(uid_of(pod)) if is_extended_claim(claim)), None)
        allocation = None if own is None else allocation_of(own)
        found.own = own
        if own is not None and allocation is not None and is_reserved_for(pod, own, accept_group=False):
            selector = allocation.get("nodeSelector")
            found.claims.append(own)
            found.reach.append((own, None if selector is None else terms_of(selector)))
        else:
            found.stale = own is not None

    def _classes_by_resource(self) -> Mapping[str, str]:
        version = self._classes.version
        if version != self._classes_version:
            self._by_resource, self._classes_version = classes_by_resource(self._classes.objects()), version
        return self._by_resource

    def _check_classes(self, claim: Object) -> None:
        for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
            name = request.get("name") or ""
            alternatives = request.get("firstAvailable") or ()
            demands = [(f"{name}/{alternative.get('name') or ''}", alternative) for alternative in alternatives]
            if not alternatives:
                if request.get("exactly") is None:
                    raise UnresolvableError(f"resource claim {key_of(claim)}, request {name}: unknown request type")
                demands = [(name, request["exactly"])]
            for full_name, demand in demands:
                class_name = demand.get("deviceClassName") or ""
                if not class_name:
                    raise AllocationError(f"request {full_name}: unsupported request type")
                if self._classes.entry(class_name) is None:
                    raise UnresolvableError(f"request {full_name}: device class {class_name} does not exist")

    def misfits(self, requested: RequestedDevices, pod: Object, node: NodeView) -> tuple[str, ...]:
        """Return the reasons why the claims do not allow the node; empty if they do. Raises AllocationError."""
        if requested.stale:
            return (STALE_CLAIM,)
        claims = requested.unallocated
        if requested.own is None and (wanted := requested.extended_on(node, pod).requests):
            claims = [*claims, new_claim(pod, wanted, taken=lambda _: False)]
        unusable = [claim for claim, terms in requested.reach if not self._can_use(claim, terms, node)]
        if requested.allocator is not None and claims and node.name not in requested.allocations:
            try:
                allocations = requested.allocator.allocate(node, claims)
            except NodeAllocationError as err:
                return (str(err),)
            if allocations is None:
                return (NOT_ALLOCATED,)
            requested.allocations[node.name] = allocations
        if unusable:
            requested.unusable.extend(claim for claim in unusable if claim not in requested.unusable)
            return (NOT_ON_NODE,)
        if any(reservation.node != node.name for _, reservation in requested.reserved):
            return (NOT_ALLOCATED,)
        return ()

    def _can_use(self, claim: Object, terms: tuple[Term, ...] | None, node: NodeView) -> bool:
        if terms is not None and not any(term.matches(node.name, node.labels) for term in terms):
            return False
        return not readiness(claim, now=self._clock.now()).failed

    def preferred(self, requested: RequestedDevices, nodes: Sequence[NodeView]) -> Sequence[NodeView]:
        """Return the nodes on which the best alternatives of requests are allocated."""
        if len(nodes) < 2 or not any(has_prioritized_list(claim["spec"]) for claim in requested.unallocated):
            return nodes
        scores = [score(requested.unallocated, requested.allocations.get(node.name) or ()) for node in nodes]
        best = max(scores)
        return [node for node, node_score in zip(nodes, scores, strict=True) if node_score == best]

    # Devices that are allocated, or about to be.

    def is_dedicated(self, device: DeviceId) -> bool:
        return self._has(DEDICATED, device) or self._reservations.has_dedicated(device)

    def is_used(self, device: DeviceId) -> bool:
        return self._has(DEDICATED, device) or self._has(SHARED, device) or any(self._reservations.results(device))

    def consumed(self, device: DeviceId) -> Consumed | None:
        results = [
            result
            for entry in self._claims.indexed_entries(CLAIMS_BY_DEVICE.name, f"{SHARED}{device}")
            for allocated, result in devices_of(allocation_of(self._claims.object_of(entry)) or {})
            if allocated == device
        ]
        total: dict[str, Decimal] | None = None
        for result in (*results, *self._reservations.results(device)):
            if result.get("shareID") and result.get("consumedCapacity") is not None:
                total = {} if total is None else total
                for name, amount in result["consumedCapacity"].items():
                    total[name] = total.get(name, Decimal(0)) + parse_quantity(amount)
        return total

    def _has(self, how: str, device: DeviceId) -> bool:
        return bool(self._claims.indexed_entries(CLAIMS_BY_DEVICE.name, f"{how}{device}"))
