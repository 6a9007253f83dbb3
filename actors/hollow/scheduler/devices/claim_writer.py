"""Writes of the ResourceClaims of a pod: allocation and reservation before its binding, and their withdrawal.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (Reserve, PreBind,
Unreserve and PostFilter).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kcm.actors.hollow.scheduler.devices.claim_facts import claim_references, readiness, reserved_status
from kcm.actors.hollow.scheduler.devices.extended_resources import is_extended_claim, new_claim
from kcm.actors.hollow.scheduler.devices.requested_devices import RequestedDevices
from kcm.actors.hollow.scheduler.devices.reservations import Reservation, Reservations
from kcm.actors.hollow.scheduler.node_fit import NodeView
from kcm.actors.reconciliation import Step, create, delete, get_live, merge_status, must, patch, record, step, update
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Patch, PatchType, Update
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, Done, NotFound, Outcome, Unknown
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
from kcm.protocols.resource_claims import (
    DELETE_PROTECTION,
    allocation_of,
    claim_entries,
    claim_name,
    consumer_of,
    group_owner_problem,
    is_reserved_for,
    pod_group_name,
)
from kcm.protocols.resources import PODS, RESOURCE_CLAIMS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister

NO_CLAIMS = "no new claims to deallocate"
WRITES = 8  # attempts to write a claim: the finalizer, the status, and repetitions


class ClaimWriter:
    """Writes of claims, and reservations of the devices of those that are being written."""

    def __init__(
        self, claims: Lister, clock: Clock, reservations: Reservations, *, groups: Lister | None = None
    ) -> None:
        """Initialise the writer. groups: PodGroups to which claims can belong; None if they cannot."""
        self._claims = claims
        self._groups = groups
        self._clock = clock
        self._reservations = reservations

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
                consumer = requested.of_group.get(uid_of(claim)) or consumer_of(pod)
                made = yield from self._bind(claim, pod, consumer, allocations.get(uid_of(claim)))
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
        wanted = requested.extended_on(node, pod).requests
        claim = new_claim(pod, wanted, taken=lambda key: self._claims.entry(key) is not None)
        outcome = yield from must(create(RESOURCE_CLAIMS, claim), but=(AlreadyExists,))
        return decode_object(outcome.body) if isinstance(outcome, Done) else None

    def _report_extended(self, requested: RequestedDevices, pod: Object, node: NodeView, claim: Object) -> Step[None]:
        """Write the claim for the extended resources, which is the last one, to the pod's status."""
        mappings = requested.extended_on(node, pod).mappings
        status = {"resourceClaimName": name_of(claim), "requestMappings": list(mappings)}
        known = (pod.get("status") or {}).get("extendedResourceClaimStatus")
        if mappings and is_extended_claim(claim) and known != status:
            yield from must(merge_status(PODS, pod, {"extendedResourceClaimStatus": status}), but=(NotFound,))

    def _delete_extended(self, claim: Object) -> Step[None]:
        """Delete a claim for extended resources, and its finalizer first."""
        if DELETE_PROTECTION in finalizers_of(claim):
            others = [finalizer for finalizer in finalizers_of(claim) if finalizer != DELETE_PROTECTION]
            body = {"metadata": {"uid": uid_of(claim), "finalizers": others or None}}
            yield from must(patch(RESOURCE_CLAIMS, key_of(claim), body), but=(NotFound, Conflict))
        deletion = delete(RESOURCE_CLAIMS, claim, depends_on=((RESOURCE_CLAIMS, key_of(claim)),))
        yield from must(deletion, but=(NotFound, Conflict))

    def _bind(self, claim: Object, pod: Object, consumer: Object, allocation: Object | None) -> Step[Object | None]:
        """Write the allocation, if any, and the reservation. Return None if the claim cannot be used.

        consumer: entry of status.reservedFor, for the pod or its PodGroup.
        """
        uid, accept_group = uid_of(claim), self._groups is not None
        outcome: Outcome | None = None
        for _attempt in range(WRITES):
            if is_reserved_for(pod, claim, accept_group=accept_group):
                self._reservations.remove(uid)
                return claim
            # If both are set, another scheduler was faster.
            if is_deleting(claim) or (allocation is None) == (allocation_of(claim) is None):
                return None
            command = self._next_write(claim, consumer, allocation)
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

    def _next_write(self, claim: Object, consumer: Object, allocation: Object | None) -> Update:
        if allocation is not None and DELETE_PROTECTION not in finalizers_of(claim):
            meta = {**metadata(claim), "finalizers": [*finalizers_of(claim), DELETE_PROTECTION]}
            return update(RESOURCE_CLAIMS, {**claim, "metadata": meta})
        status = reserved_status(claim.get("status") or {}, consumer, allocation, now=self._clock.now())
        return update(RESOURCE_CLAIMS, {**claim, "status": status}, subresource="status")

    @step
    def unreserve(self, claims: Iterable[Object], pod: Object) -> Step[None]:
        """Remove the pod from the claims that are reserved for it, because it is not bound."""
        for claim in claims:
            if is_reserved_for(pod, claim, accept_group=False):
                yield from must(_without_consumer(claim, pod), but=(NotFound, Conflict))

    @step
    def unreserve_all(self, pod: Object) -> Step[None]:
        """Remove the pod from all of its claims, and delete the claim for its extended resources."""
        keys = [make_key(namespace_of(pod), name) for name, _, _ in claim_references(pod) if name]
        yield from self.unreserve([claim for key in keys if (claim := self._claims.get(key)) is not None], pod)
        for claim in self._claims.owned_by(uid_of(pod)):
            if is_extended_claim(claim):
                yield from self._delete_extended(claim)

    @step
    def after_failure(
        self, requested: RequestedDevices, pod: Object, *, is_group_scheduled: Callable[[], bool]
    ) -> Step[str]:
        """Deallocate or release an idle claim that cannot be used on some node. Return the message about it.

        is_group_scheduled: reports whether a pod of the pod's PodGroup has a node.

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
        group = self._groups.get(make_key(namespace_of(pod), pod_group_name(pod))) if self._groups else None
        if group is not None and not is_group_scheduled() and (yield from self._release_for_group(group, pod)):
            return "ResourceClaim unreserved for PodGroup"
        return "still not schedulable"

    def _release_for_group(self, group: Object, pod: Object) -> Step[bool]:
        """Remove the PodGroup from one of its claims, so that other devices can be allocated. Return whether it did.

        Source: unreservePodGroupClaims.
        """
        for entry in claim_entries(group):
            found = claim_name(group, entry)
            claim = self._claims.get(make_key(namespace_of(group), found.name)) if found and found.name else None
            if claim is None or (found is not None and found.template and group_owner_problem(group, claim)):
                continue
            if allocation_of(claim) is not None and is_reserved_for(pod, claim, accept_group=True):
                outcome = yield from must(_without_consumer(claim, group), but=(NotFound, Conflict))
                if isinstance(outcome, Done):
                    return True
        return False


def _without_consumer(claim: Object, user: Object) -> Patch:
    """Return the removal of a pod or PodGroup from status.reservedFor of a claim."""
    body = {
        "metadata": {"uid": uid_of(claim)},
        "status": {"reservedFor": [{"$patch": "delete", "uid": uid_of(user)}]},
    }
    return patch(RESOURCE_CLAIMS, key_of(claim), body, patch_type=PatchType.STRATEGIC, subresource="status")
