"""ResourceClaims of a pod: allocation for the choice of its node, and the writes that precede the binding.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go. Differences: nodes are
not scored by the alternatives of a request, but those with the best alternatives are preferred over all others;
status.nominatedNodeName is not written before the claims; the claim for extended resources of an earlier attempt is
used if it is allocated and reserved for the pod, and only otherwise deleted. Not supported: claims of pod groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from msgspec import Struct, field

from kcm.actors.hollow.scheduler.devices.allocator import Allocator
from kcm.actors.hollow.scheduler.devices.capacity import Consumed
from kcm.actors.hollow.scheduler.devices.claim_facts import (
    CLAIMS_BY_DEVICE,
    DEDICATED,
    SHARED,
    claim_references,
    devices_of,
    readiness,
    reserved_status,
    score,
)
from kcm.actors.hollow.scheduler.devices.extended_resources import (
    ExtendedRequests,
    classes_by_resource,
    extended_names,
    extended_requests,
    is_extended_claim,
    new_claim,
)
from kcm.actors.hollow.scheduler.devices.inventory import DeviceId, Slices
from kcm.actors.hollow.scheduler.devices.requests import AllocationError, NodeAllocationError
from kcm.actors.hollow.scheduler.devices.reservations import Reservation, Reservations
from kcm.actors.hollow.scheduler.node_fit import NodeView
from kcm.actors.hollow.scheduler.volumes import UnresolvableError
from kcm.actors.reconciliation import (
    Step,
    create,
    delete,
    get_live,
    merge_status,
    must,
    patch,
    record,
    step,
    update,
)
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import PatchType, Update
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, Done, NotFound, Outcome, Unknown
from kcm.protocols.node_affinity import Term, terms_of
from kcm.protocols.objects import (
    Object,
    decode_object,
    finalizers_of,
    is_deleting,
    key_of,
    make_key,
    metadata,
    name_of,
    namespace_of,
    uid_of,
)
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.resource_claims import (
    DELETE_PROTECTION,
    allocation_of,
    has_prioritized_list,
    is_reserved_for,
    owner_problem,
)
from kcm.protocols.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.tables import Tables

NOT_ALLOCATED = "cannot allocate all claims"
NO_CLAIMS = "no new claims to deallocate"
STALE_CLAIM = "cannot schedule extended resource claim"
NOT_ON_NODE = "resourceclaim not available on the node"
WRITES = 8  # attempts to write a claim: the finalizer, the status, and repetitions


class RequestedDevices(Struct, eq=False):
    """Claims of a pod in one scheduling attempt.

    claims: all claims.
    unallocated: claims to allocate.
    reserved: claims whose allocation is being written, by an earlier attempt for this pod.
    reach: allocated claims, with the terms of their node selectors; None for all nodes.
    allocations: by node, an AllocationResult for each unallocated claim.
    unusable: allocated claims that cannot be used on some node.
    extended: extended resources of the pod that a DeviceClass provides.
    own: the claim for extended resources that an earlier attempt has created.
    stale: whether `own` cannot be used.
    extended_requests: device requests by the extended resources that devices provide on a node.
    """

    claims: list[Object] = field(default_factory=list)
    unallocated: list[Object] = field(default_factory=list)
    reserved: list[tuple[Object, Reservation]] = field(default_factory=list)
    reach: list[tuple[Object, tuple[Term, ...] | None]] = field(default_factory=list)
    allocator: Allocator | None = None
    allocations: dict[str, list[Object]] = field(default_factory=dict)
    unusable: list[Object] = field(default_factory=list)
    extended: frozenset[str] = frozenset()
    own: Object | None = None
    stale: bool = False
    extended_requests: dict[frozenset[str], ExtendedRequests] = field(default_factory=dict)

    def delegates(self, resource: str, node: NodeView) -> bool:
        """Report whether devices, and not the node itself, provide an extended resource. Source: fitsRequest."""
        return resource in self.extended and not node.allocatable.get(resource)

    def delegated(self, node: NodeView) -> frozenset[str]:
        return frozenset(resource for resource in self.extended if self.delegates(resource, node))


NO_DEVICES = RequestedDevices()


class PodDevices:
    """Claims of pods, and the devices that are being allocated to them."""

    def __init__(self, tables: Tables, clock: Clock, *, rules: Resource | None = None) -> None:
        """Initialise for the tables. rules: the resource of DeviceTaintRules; None to ignore them."""
        self._claims: Lister = tables[RESOURCE_CLAIMS]
        self._classes: Lister = tables[DEVICE_CLASSES]
        self._parsed = Slices(tables[RESOURCE_SLICES], None if rules is None else tables[rules])
        self._clock = clock
        self._reservations = Reservations()
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
            if reference.is_own and owner_problem(pod, claim, accept_group=False):
                return True
        return False

    def requested(self, pod: Object) -> RequestedDevices:
        """Return the claims of a pod that is not gated. Raises UnresolvableError."""
        self._reservations.release(self._claims, now=self._clock.monotonic())
        found = RequestedDevices()
        for name, _ in claim_references(pod):
            claim = self._claims.get(make_key(namespace_of(pod), name or ""))
            if claim is None:
                raise UnresolvableError(f'resourceclaim.resource.k8s.io "{name}" not found')
            found.claims.append(claim)
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
        classes = self._classes_by_resource()
        found.extended = frozenset(name for name in extended_names(pod) if name in classes)
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

    def _extended_requests(self, requested: RequestedDevices, pod: Object, node: NodeView) -> ExtendedRequests:
        """Return the device requests for the extended resources that devices provide on this node."""
        names = requested.delegated(node)
        known = requested.extended_requests.get(names)
        if known is None:
            classes = self._classes_by_resource()
            known = extended_requests(pod, names, lambda name: classes.get(name, ""))
            requested.extended_requests[names] = known
        return known

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
        if requested.own is None and (wanted := self._extended_requests(requested, pod, node).requests):
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

    # Writes before the binding.

    @step
    def prepare(self, requested: RequestedDevices, pod: Object, node: NodeView) -> Step[bool]:
        """Allocate and reserve the claims for the pod. Return whether it can be bound."""
        allocations = dict(
            zip(map(uid_of, requested.unallocated), requested.allocations.get(node.name) or (), strict=False)
        )
        allocations |= {uid_of(claim): reservation.allocation for claim, reservation in requested.reserved}
        extended = (requested.allocations.get(node.name) or ())[len(requested.unallocated) :]
        pending = f"extended resources of {uid_of(pod)}"  # in place of the uid of the claim that does not exist yet
        if extended:
            self._reservations.put(pending, Reservation("", uid_of(pod), node.name, extended[0]))
        # All devices are reserved before the first write, so that no other pod gets them.
        for claim in (*requested.unallocated, *(claim for claim, _ in requested.reserved)):
            uid = uid_of(claim)
            self._reservations.put(uid, Reservation(key_of(claim), uid_of(pod), node.name, allocations[uid]))
        written: list[Object] = []
        claims, is_complete = list(requested.claims), True
        try:
            if extended:
                created = yield from self._create_extended(requested, pod, node)
                if created is None:
                    is_complete = False
                else:
                    uid = uid_of(created)
                    allocations[uid] = extended[0]
                    self._reservations.put(uid, Reservation(key_of(created), uid_of(pod), node.name, extended[0]))
                    claims.append(created)
            for claim in claims if is_complete else ():
                made = yield from self._bind(claim, pod, allocations.get(uid_of(claim)))
                if made is None:
                    is_complete = False
                    break
                written.append(made)
        finally:  # after an error or an interruption: the server may have applied the last write
            for uid in (*allocations, pending):
                self._reservations.suspend(uid, now=self._clock.monotonic())
        self._reservations.remove(pending)
        if not is_complete:
            for uid in allocations:  # nothing was written for them
                self._reservations.remove(uid)
            yield from self.unreserve_all(pod)
            return False
        if requested.extended and written:
            yield from self._report_extended(requested, pod, node, written[-1])
        if all(readiness(claim, now=self._clock.now()).ready for claim in written):
            return True
        if written != claims:
            message = f"waiting for binding conditions for device on node {node.name}"
            yield record(PODS, pod, "Normal", "BindingConditionsPending", message)
        return False

    def _create_extended(self, requested: RequestedDevices, pod: Object, node: NodeView) -> Step[Object | None]:
        """Create the claim for the extended resources; None if another object has its name."""
        wanted = self._extended_requests(requested, pod, node).requests
        claim = new_claim(pod, wanted, taken=lambda key: self._claims.entry(key) is not None)
        outcome = yield from must(create(RESOURCE_CLAIMS, claim), but=(AlreadyExists,))
        return decode_object(outcome.body) if isinstance(outcome, Done) else None

    def _report_extended(self, requested: RequestedDevices, pod: Object, node: NodeView, claim: Object) -> Step[None]:
        """Write the claim for the extended resources, which is the last one, to the pod's status."""
        mappings = self._extended_requests(requested, pod, node).mappings
        status = {"resourceClaimName": name_of(claim), "requestMappings": list(mappings)}
        known = (pod.get("status") or {}).get("extendedResourceClaimStatus")
        if mappings and is_extended_claim(claim) and known != status:
            yield from must(merge_status(PODS, pod, {"extendedResourceClaimStatus": status}), but=(NotFound,))

    def _delete_extended(self, claim: Object) -> Step[None]:
        """Delete a claim for extended resources, and its finalizer first."""
        if DELETE_PROTECTION in finalizers_of(claim):
            others = [each for each in finalizers_of(claim) if each != DELETE_PROTECTION]
            body = {"metadata": {"uid": uid_of(claim), "finalizers": others or None}}
            yield from must(patch(RESOURCE_CLAIMS, key_of(claim), body), but=(NotFound, Conflict))
        deletion = delete(RESOURCE_CLAIMS, claim, depends_on=((RESOURCE_CLAIMS, key_of(claim)),))
        yield from must(deletion, but=(NotFound, Conflict))

    def _bind(self, claim: Object, pod: Object, allocation: Object | None) -> Step[Object | None]:
        """Write the allocation, if any, and the reservation for the pod. Return None if the claim cannot be used."""
        uid = uid_of(claim)
        outcome: Outcome | None = None
        for _attempt in range(WRITES):
            if is_reserved_for(pod, claim, accept_group=False):
                self._reservations.remove(uid)
                return claim
            # If both are set, another scheduler was faster.
            if is_deleting(claim) or (allocation is None) == (allocation_of(claim) is None):
                return None
            command = self._next_write(claim, pod, allocation)
            outcome = yield command
            if isinstance(outcome, Done):
                claim = decode_object(outcome.body)
                continue
            if isinstance(outcome, NotFound):
                return None
            if not isinstance(outcome, Conflict | Unknown):
                raise CommandError(command, outcome)
            live = yield from must(get_live(RESOURCE_CLAIMS, key_of(claim)), but=(NotFound,))
            claim = decode_object(live.body) if isinstance(live, Done) else {}
            if uid_of(claim) != uid:
                return None
        if outcome is None or isinstance(outcome, Done):
            return None
        raise CommandError(command, outcome)

    def _next_write(self, claim: Object, pod: Object, allocation: Object | None) -> Update:
        if allocation is not None and DELETE_PROTECTION not in finalizers_of(claim):
            meta = {**metadata(claim), "finalizers": [*finalizers_of(claim), DELETE_PROTECTION]}
            return update(RESOURCE_CLAIMS, {**claim, "metadata": meta})
        status = reserved_status(claim.get("status") or {}, pod, allocation, now=self._clock.now())
        return update(RESOURCE_CLAIMS, {**claim, "status": status}, subresource="status")

    @step
    def unreserve(self, claims: Iterable[Object], pod: Object) -> Step[None]:
        """Remove the pod from the claims that are reserved for it, because it is not bound."""
        for claim in claims:
            if is_reserved_for(pod, claim, accept_group=False):
                body = {
                    "metadata": {"uid": uid_of(claim)},
                    "status": {"reservedFor": [{"$patch": "delete", "uid": uid_of(pod)}]},
                }
                command = patch(
                    RESOURCE_CLAIMS, key_of(claim), body, patch_type=PatchType.STRATEGIC, subresource="status"
                )
                yield from must(command, but=(NotFound, Conflict))

    @step
    def unreserve_all(self, pod: Object) -> Step[None]:
        """Remove the pod from all of its claims, and delete the claim for its extended resources."""
        keys = [make_key(namespace_of(pod), name) for name, _ in claim_references(pod) if name]
        yield from self.unreserve([claim for key in keys if (claim := self._claims.get(key)) is not None], pod)
        for claim in self._claims.owned_by(uid_of(pod)):
            if is_extended_claim(claim):
                yield from self._delete_extended(claim)

    @step
    def after_failure(self, requested: RequestedDevices, pod: Object) -> Step[str]:
        """Deallocate an idle claim that cannot be used on some node. Return the message about it.

        Source: PostFilter of the plugin.
        """
        if not requested.claims and not requested.extended:
            return NO_CLAIMS
        for claim in requested.unusable:
            if claim is requested.own:
                break
            users = (claim.get("status") or {}).get("reservedFor") or ()
            if not users or (len(users) == 1 and users[0].get("uid") == uid_of(pod)):
                status = {
                    name: value
                    for name, value in claim["status"].items()
                    if name not in ("allocation", "reservedFor", "devices")
                }
                command = update(RESOURCE_CLAIMS, {**claim, "status": status}, subresource="status")
                yield from must(command, but=(NotFound, Conflict))
                return "deallocation of ResourceClaim completed"
        if requested.own is not None:
            yield from self._delete_extended(requested.own)
            return "deletion of ResourceClaim completed"
        return "still not schedulable"
