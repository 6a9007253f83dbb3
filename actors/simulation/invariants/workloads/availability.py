"""Invariant of rollouts: they delete no more available pods than the Deployment permits, by the pods on the server."""

from __future__ import annotations

from collections import defaultdict

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.known_state import ValueHistory
from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, decoded
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
from kcm.protocols.pods import is_active, pod_facts
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange


class NeverFewerThanAllowed:
    """A ReplicaSet that shrinks in a rollout deletes no available pod that the Deployment needs.

    A shrinking ReplicaSet first loses unavailable pods, and keeps as many available pods as its spec permits. The
    remaining available pods are counted from the pods that exist. It is a violation only if the deciding
    process could detect it: if the statuses of the ReplicaSets leave too few as well. For the shrinking ReplicaSet this
    is the status before the write, which names the version it was decided from; for the others it is the best status
    that the tables may have shown.

    Not detected: pods counted in a ReplicaSet's status that are no longer available because its controller is late
    (upstream decides by these statuses too); pods that are ready but not yet available (minReadySeconds); effects of a
    change of the Deployment's size, which keeps proportions and not availability; and whether the ReplicaSet's
    controller deletes the right pods.
    """

    name = "never fewer than a Deployment needs"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._decisions = Decisions(cluster)
        self._fewest: ValueHistory[int] = ValueHistory()  # by the Deployment's uid
        self._counted: ValueHistory[int] = ValueHistory()  # available pods by its status, by the ReplicaSet's uid
        self._sets: dict[str, set[str]] = defaultdict(set)  # uids of the ReplicaSets by that of their Deployment
        self._there: dict[str, set[str]] = defaultdict(set)  # available pods by the uid of their ReplicaSet
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
            facts, pods = pod_facts(obj), self._there[owner.uid]
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
            return  # the Deployment's size is another one
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
                f"ReplicaSet {name_of(after)} shrinks to {wanted}, and of {sum(there.values())} available pods {left} "
                f"are left; {owner.kind} {owner.name} needs {fewest}"
            )


def _left(available: dict[str, int], uid: str, wanted: int) -> int:
    """Return the total of available pods after one ReplicaSet is resized."""
    return sum(min(count, wanted) if set_uid == uid else count for set_uid, count in available.items())
