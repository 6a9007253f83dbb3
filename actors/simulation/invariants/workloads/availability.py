"""Invariant of rollouts: they delete no more available pods than the Deployment permits.

The available pods are counted on the server.
"""

from __future__ import annotations

from collections import defaultdict

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.known_state import ValueHistory
from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, decoded, facts_of_pod
from kcm.actors.simulation.invariants.workloads.deployments import Decisions, ReplicaSetWrite
from kcm.actors.simulation.invariants.workloads.rollouts import SIZED_FOR, bounds_of, size_of
from kcm.protocols.objects import (
    Object,
    annotations_of,
    controller_of,
    decode_object,
    name_of,
    resource_version_of,
    uid_of,
)
from kcm.protocols.pods import is_active
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange


class NeverFewerThanAllowed:
    """Invariant: a rollout that scales down a ReplicaSet keeps the Deployment's minimum of available pods.

    A ReplicaSet that is scaled down is assumed to delete its unavailable pods first. The available pods that then
    remain are counted in two ways, and a violation is reported only if both numbers are too low:

    - the pods that exist on the server;
    - the pods that the deciding process has observed in the statuses of the ReplicaSets. For the ReplicaSet that is
      scaled down this is the status that the write replaces; for the others it is the status with the most available
      pods that the informer caches may have contained.

    Not detected: pods that are counted in a status but are no longer available (upstream decides by these statuses
    too); pods that are ready but not available yet (minReadySeconds); a change of the Deployment's size, which keeps
    the proportions of the ReplicaSets instead; and a wrong choice of the pods that are deleted.
    """

    name = "a rollout keeps the minimum of available pods"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._decisions = Decisions(cluster)
        self._fewest: ValueHistory[int] = ValueHistory()  # minimum of available pods, by the Deployment's uid
        self._counted: ValueHistory[int] = ValueHistory()  # available pods in the status, by the ReplicaSet's uid
        self._sets: dict[str, set[str]] = defaultdict(set)  # uids of ReplicaSets, by the uid of their Deployment
        self._there: dict[str, set[str]] = defaultdict(set)  # keys of available pods, by the uid of their ReplicaSet
        self._before: dict[str, Object] = {}  # previous version of the ReplicaSet that was just written, by uid

    def observe(self, observation: Observation, fail: Fail) -> None:
        self._decisions.observe(observation)
        match observation:
            case Committed(changes):
                for change in changes:
                    self._committed(change)
            case Handled():
                decision = self._decisions.behind(observation)
                if decision is not None:
                    asked = decode_object(observation.request.body)
                    self._written(decision, asked, decode_object(observation.response.body), fail)

    def _committed(self, change: StoreChange) -> None:
        if change.storage not in ("deployments.apps", "replicasets.apps", "pods"):
            return
        obj = decoded(change.raw)
        uid, owner = uid_of(obj), controller_of(obj)
        if change.storage == "deployments.apps":
            self._fewest.note(uid, change.revision, bounds_of(obj).fewest)
        elif owner is None:
            return
        elif change.storage == "replicasets.apps":
            self._sets[owner.uid].add(uid)
            self._counted.note(uid, change.revision, 0 if change.type == DELETED else size_of(obj).available)
            if change.type not in (ADDED, DELETED):
                self._before[uid] = decoded(change.previous)
        else:
            facts, pods = facts_of_pod(change.raw), self._there[owner.uid]
            if change.type != DELETED and facts.ready and is_active(facts):
                pods.add(change.key)
            else:
                pods.discard(change.key)

    def _written(self, decision: ReplicaSetWrite, asked: Object, after: Object, fail: Fail) -> None:
        uid, owner, before = uid_of(after), controller_of(after), self._before.get(uid_of(after))
        wanted, version = size_of(after).wanted, int(resource_version_of(after))
        if owner is None or before is None or size_of(before).wanted <= wanted:
            return
        if annotations_of(before).get(SIZED_FOR) != annotations_of(after).get(SIZED_FOR):
            return  # the Deployment's size has changed
        begun, newest = decision.begun, decision.newest
        fewest = min(self._fewest.between(owner.uid, begun.deployments, newest), default=0)
        there = {set_uid: len(self._there[set_uid]) for set_uid in self._sets[owner.uid]}
        known = {
            set_uid: max(self._counted.between(set_uid, begun.replica_sets, version), default=0)
            for set_uid in there
            if set_uid != uid
        }
        known[uid] = size_of(before).available
        if not resource_version_of(asked):
            known[uid] = max(self._counted.between(uid, begun.replica_sets, version - 1), default=0)
        left = _left(there, uid, wanted)
        if left < min(sum(there.values()), fewest) and _left(known, uid, wanted) < min(sum(known.values()), fewest):
            fail(
                f"ReplicaSet {name_of(after)} is scaled down to {wanted}, which leaves {left} of {sum(there.values())} "
                f"available pods; {owner.kind} {owner.name} requires {fewest}"
            )


def _left(available: dict[str, int], uid: str, wanted: int) -> int:
    """Return the total number of available pods after a ReplicaSet was scaled down.

    available: numbers of available pods before, by the uid of the ReplicaSet.
    uid, wanted: the ReplicaSet that is scaled down, and its new size.
    """
    return sum(min(count, wanted) if set_uid == uid else count for set_uid, count in available.items())
