"""Invariants of ResourceClaims: they stay allocated and reserved for pods that may run, and exist once."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.controllers.devices.resource_claim.claims import is_done
from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, decoded, facts_of_pod, only
from kcm.protocols.objects import Object, annotations_of, controller_of, finalizers_of, is_deleting, key_of, uid_of
from kcm.protocols.resource_claims import (
    DELETE_PROTECTION,
    POD_CLAIM_NAME,
    allocation_of,
    consumers_of,
    is_pod,
    owning_pod,
)
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange

CLAIMS, PODS = "resourceclaims.resource.k8s.io", "pods"
CLIENT = "resource-claim-controller"


class ClaimsServeTheirPods:
    """Invariant: the controller takes no claim from a pod that exists and may run.

    It removes no reservation for such a pod, and deletes no claim that was generated for it. It deallocates no claim
    that has consumers, and removes the finalizer of no claim that is allocated.
    """

    name = "a claim is not taken from a pod that may run"
    observes = (only(Committed, PODS), only(Handled, CLIENT))

    def __init__(self) -> None:
        self._running: set[str] = set()  # uids of pods that may run

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    if change.storage == PODS:
                        self._pod_changed(change)
            case Handled(client=client, changes=changes) if client == CLIENT:
                for change in changes:
                    if change.storage == CLAIMS and change.previous:
                        for text in self._wrong(change):
                            fail(f"claim {change.key} {text}")

    def _pod_changed(self, change: StoreChange) -> None:
        pod = decoded(change.raw)
        if change.type == DELETED or is_done(facts_of_pod(change.raw)):
            self._running.discard(uid_of(pod))
        else:
            self._running.add(uid_of(pod))

    def _wrong(self, change: StoreChange) -> Iterator[str]:
        before, after = decoded(change.previous), decoded(change.raw)
        if not is_deleting(before) and (change.type == DELETED or is_deleting(after)):
            owner = owning_pod(before)
            if owner is None:
                yield "is deleted, but was not generated for a pod"
            elif owner[1] in self._running:
                yield f"is deleted, but its pod {owner[0]} may run"
        kept = {consumer["uid"] for consumer in consumers_of(after)}
        for consumer in consumers_of(before):
            if consumer["uid"] in kept:
                continue
            if not is_pod(consumer):
                yield f"loses the consumer {consumer}, which is not a pod"
            elif consumer["uid"] in self._running:
                yield f"loses the reservation for pod {consumer['name']}, which may run"
        if allocation_of(before) is not None and allocation_of(after) is None and kept:
            yield "is deallocated, but has consumers"
        finalizers = set(finalizers_of(before)) - set(finalizers_of(after))
        if DELETE_PROTECTION in finalizers and allocation_of(after) is not None:
            yield "loses its finalizer, but is allocated"


class OneClaimForEachEntry:
    """Invariant: the controller generates a claim only if the pod has none for the entry of spec.resourceClaims.

    A claim that is being deleted does not count.
    """

    name = "an entry of a pod has one claim"
    observes = (only(Committed, CLAIMS), only(Handled, CLIENT))

    def __init__(self) -> None:
        self._claims: dict[str, Object] = {}  # by uid

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    if change.storage == CLAIMS:
                        claim = decoded(change.raw)
                        self._claims.pop(uid_of(claim), None)
                        if change.type != DELETED:
                            self._claims[uid_of(claim)] = claim
            case Handled(client=client, changes=changes) if client == CLIENT:
                for change in changes:
                    if change.storage == CLAIMS and change.type == ADDED:
                        self._check(decoded(change.raw), fail)

    def _check(self, new: Object, fail: Fail) -> None:
        owner, entry = controller_of(new), annotations_of(new).get(POD_CLAIM_NAME)
        for other in self._claims.values():
            same = (controller_of(other), annotations_of(other).get(POD_CLAIM_NAME)) == (owner, entry)
            if same and uid_of(other) != uid_of(new) and not is_deleting(other):
                fail(f"claim {key_of(new)} is created, but {key_of(other)} exists for the same entry")
