"""Invariants of objects: at most one controller owner, an increasing observedGeneration, deletions of ReplicaSets."""

from __future__ import annotations

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.garbage import COLLECTOR
from kcm.actors.simulation.invariants.observer import Committed, Fail, Observation, Submitted, decoded
from kcm.protocols.messages.commands import Delete
from kcm.protocols.objects import Object, OwnerRef, controller_of, decode_object, metadata
from kcm.protocols.resources import REPLICASETS, resource_path
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange
from kcm.runtime.client.api import Request


class SingleOwner:
    """Invariant: an object has at most one controller owner, which releases it before another one adopts it.

    Exception: the controller of a StatefulSet's claim may change between the set and its pod, by the retention policy.
    """

    name = "objects have at most one controller"
    observes = (Committed,)

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.type != DELETED and b'"ownerReferences"' in change.raw:
                    self._check(change, fail)

    def _check(self, change: StoreChange, fail: Fail) -> None:
        obj = decoded(change.raw)
        owners = metadata(obj).get("ownerReferences") or []
        if sum(1 for owner in owners if owner.get("controller")) > 1:
            fail(f"{change.storage} {change.key} has several controllers")
        if change.type != ADDED:
            before, after = controller_of(decoded(change.previous)), controller_of(obj)
            if before is None or after is None or before.uid == after.uid:
                return
            if not (change.storage == "persistentvolumeclaims" and _are_of_one_set(before, after)):
                fail(f"{change.storage} {change.key}: controller changes from {before.name} to {after.name}")


def _are_of_one_set(owner_ref: OwnerRef, other: OwnerRef) -> bool:
    """Report whether one of the two owners is a StatefulSet, and the other one of its pods."""
    names = {owner_ref.kind: owner_ref.name, other.kind: other.name}
    return names.keys() == {"StatefulSet", "Pod"} and names["Pod"].rpartition("-")[0] == names["StatefulSet"]


class ObservedGenerationIncreases:
    """Invariant: the observedGeneration of a status never decreases, and never exceeds metadata.generation."""

    name = "observedGeneration increases and is not ahead"
    observes = (Committed,)

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.type not in (ADDED, DELETED) and b'"observedGeneration"' in change.raw:
                    after = decoded(change.raw)
                    seen = _observed(after)
                    if seen < _observed(decoded(change.previous)):
                        fail(f"{change.storage} {change.key}: observedGeneration goes back to {seen}")
                    if seen > (metadata(after).get("generation") or 0):
                        fail(f"{change.storage} {change.key}: observedGeneration {seen} is ahead")


def _observed(obj: Object) -> int:
    return int((obj.get("status") or {}).get("observedGeneration") or 0)


class OnlyEmptyReplicaSetsAreDeleted:
    """Invariant: controllers except for the garbage collector delete a ReplicaSet only if it has no pods."""

    name = "only empty ReplicaSets are deleted"
    observes = (Submitted,)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Submitted) or observation.submit.sender == COLLECTOR:
            return
        for command in observation.submit.commands:
            if isinstance(command, Delete) and command.resource == REPLICASETS.id:
                namespace, _, name = command.key.rpartition("/")
                path = resource_path(REPLICASETS.id, namespace, name)
                response = self._cluster.server.handle(Request(method="GET", path=path))
                found = decode_object(response.body)
                if response.status != 200 or command.uid not in (None, metadata(found).get("uid")):
                    continue
                if found["spec"].get("replicas", 1) or found.get("status", {}).get("replicas"):
                    fail(f"ReplicaSet {command.key} is deleted, but has pods")
