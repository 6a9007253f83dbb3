"""ResourceClaims of a pod: allocation for the choice of its node, and the writes that precede the binding.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go. Differences: nodes are
not scored by the alternatives of a request, but those with the best alternatives are preferred over all others;
status.nominatedNodeName is not written before the claims. Not supported: extended resources of DeviceClasses, claims of
pod groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from kcm.actors.hollow.scheduler.devices.inventory import DeviceId, Slices
from kcm.actors.hollow.scheduler.devices.requests import AllocationError, NodeAllocationError
from kcm.actors.hollow.scheduler.devices.reservations import Reservation, Reservations
from kcm.actors.hollow.scheduler.node_fit import NodeView
from kcm.actors.hollow.scheduler.volumes import UnresolvableError
from kcm.actors.reconciliation import Step, get_live, must, patch, record, step, update
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import PatchType, Update
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Outcome, Unknown
from kcm.protocols.node_affinity import Term, terms_of
from kcm.protocols.objects import (
    Object,
    decode_object,
    finalizers_of,
    is_deleting,
    key_of,
    make_key,
    metadata,
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
    """

    claims: list[Object] = field(default_factory=list)
    unallocated: list[Object] = field(default_factory=list)
    reserved: list[tuple[Object, Reservation]] = field(default_factory=list)
    reach: list[tuple[Object, tuple[Term, ...] | None]] = field(default_factory=list)
    allocator: Allocator | None = None
    allocations: dict[str, list[Object]] = field(default_factory=dict)
    unusable: list[Object] = field(default_factory=list)


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
        if found.unallocated:
            found.allocator = Allocator(self._parsed.inventory(), self, self._classes.get)
        return found

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

    def misfits(self, requested: RequestedDevices, node: NodeView) -> tuple[str, ...]:
        """Return the reasons why the claims do not allow the node; empty if they do. Raises AllocationError."""
        unusable = [claim for claim, terms in requested.reach if not self._can_use(claim, terms, node)]
        if requested.allocator is not None and node.name not in requested.allocations:
            try:
                allocations = requested.allocator.allocate(node, requested.unallocated)
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
        # All devices are reserved before the first write, so that no other pod gets them.
        for claim in (*requested.unallocated, *(claim for claim, _ in requested.reserved)):
            uid = uid_of(claim)
            self._reservations.put(uid, Reservation(key_of(claim), uid_of(pod), node.name, allocations[uid]))
        written: list[Object] = []
        try:
            for claim in requested.claims:
                made = yield from self._bind(claim, pod, allocations.get(uid_of(claim)))
                if made is None:
                    break
                written.append(made)
        finally:  # after an error or an interruption: the server may have applied the last write
            for uid in allocations:
                self._reservations.suspend(uid, now=self._clock.monotonic())
        if len(written) < len(requested.claims):
            for uid in allocations:  # nothing was written for them
                self._reservations.remove(uid)
            yield from self.unreserve(written, pod)
            return False
        if all(readiness(claim, now=self._clock.now()).ready for claim in written):
            return True
        if written != requested.claims:
            message = f"waiting for binding conditions for device on node {node.name}"
            yield record(PODS, pod, "Normal", "BindingConditionsPending", message)
        return False

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
        """Remove the pod from all of its claims."""
        keys = [make_key(namespace_of(pod), name) for name, _ in claim_references(pod) if name]
        yield from self.unreserve([claim for key in keys if (claim := self._claims.get(key)) is not None], pod)

    @step
    def after_failure(self, requested: RequestedDevices, pod: Object) -> Step[str]:
        """Deallocate an idle claim that cannot be used on some node. Return the message about it.

        Source: PostFilter of the plugin.
        """
        if not requested.claims:
            return NO_CLAIMS
        for claim in requested.unusable:
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
        return "still not schedulable"
