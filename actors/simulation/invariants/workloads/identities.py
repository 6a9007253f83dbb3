"""Invariants of StatefulSets: each identity exists once, and pods are created and deleted in order.

The order is checked against what the controller may have known: all versions of pods and StatefulSets from those that
its informer caches had reached when its sync began to the latest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kcm.actors.app.system import ControllerSystem
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.known_state import InferredSyncs, ValueHistory
from kcm.actors.simulation.invariants.observer import (
    Admitted,
    Committed,
    Fail,
    Observation,
    OutcomeReceived,
    ProcessStarted,
    Submitted,
    decoded,
    facts_of_pod,
    only,
    shown,
)
from kcm.protocols.messages.commands import Command, Create, Delete, Submit
from kcm.protocols.objects import Key, Object, OwnerRef, controller_of, decode_object, make_key, name_of, uid_of
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import PODS, STATEFULSETS
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange
from kcm.runtime.faults.vocabulary import FaultKind


class EachIdentityOnce:
    """Invariant: no two existing pods have the same ordinal in a StatefulSet, or use the same claim."""

    name = "no two pods have the same identity"
    observes = (only(Committed, "pods"),)

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, frozenset[str]]] = {}  # by uid of a pod: its name, and its ordinal and claims

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        for change in observation.changes:
            if change.storage == "pods":
                self._changed(change, fail)

    def _changed(self, change: StoreChange, fail: Fail) -> None:
        pod = decoded(change.raw)
        if change.type == DELETED:
            self._held.pop(uid_of(pod), None)
            return
        holds = frozenset(_identities(pod))
        for uid, (name, others) in self._held.items():
            if uid != uid_of(pod) and holds & others:
                fail(f"pods {name} and {name_of(pod)} both have {sorted(holds & others)}")
        if holds:
            self._held[uid_of(pod)] = name_of(pod), holds


def _identities(pod: Object) -> list[str]:
    owner = controller_of(pod)
    if owner is None or owner.kind != STATEFULSETS.kind:
        return []
    volumes = [volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes") or ()]
    claims = [f"claim {claim['claimName']}" for claim in volumes if claim]
    return [f"ordinal {int(name_of(pod).rpartition('-')[2])} of {owner.uid}", *claims]


class _Sized(NamedTuple):
    """Fields of a StatefulSet that determine the order of its pods.

    ordinals: ordinals of its pods.
    ordered: whether podManagementPolicy is OrderedReady.
    patience: minReadySeconds.
    """

    ordinals: range
    ordered: bool
    patience: int


class _Begun(NamedTuple):
    """Versions that the informer caches of pods and of StatefulSets had reached when a sync began."""

    pods: int
    sets: int


class OrderIsKept:
    """Invariant: the pods of a StatefulSet are created and deleted in order.

    With the policy OrderedReady, a pod is created only after all pods with lower ordinals are available, and deleted by
    a scale-down only after all pods with higher ordinals are deleted. With any policy, a rolling update deletes a pod
    only while all pods with higher ordinals are available.

    As upstream, a manager whose clock is ahead considers pods available earlier.
    """

    name = "the order of pods is kept"

    def __init__(self, cluster: SimulatedCluster, *, sender: str) -> None:
        self._sender = sender
        self._sets: ValueHistory[_Sized] = ValueHistory()  # by uid
        self._owners: dict[Key, str] = {}  # uid of the owner, by the pod's key
        # By owner and key of a pod: time since which the pod is ready, in Unix seconds; infinity if it is not ready.
        self._ready: ValueHistory[float] = ValueHistory()
        self._there: ValueHistory[bool] = ValueHistory()  # by owner and key of a pod: whether the pod exists
        self._syncs: InferredSyncs[_Begun] = InferredSyncs(cluster)
        self._newest = 0
        self._clock = cluster.clock
        jumps = (fault for fault in cluster.injector.faults if fault.kind is FaultKind.CLOCK_JUMPED)
        self._ahead = sum(max(0.0, fault.seconds) for fault in jumps)
        self.observes = (
            ProcessStarted,
            only(Submitted, sender),
            only(OutcomeReceived, sender),
            Admitted,
            only(Committed, "statefulsets.apps", "pods"),
        )

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process, _):
                self._syncs.started(process)
            case Submitted(process, system, submit) if submit.sender == self._sender:
                self._submitted(process, system, submit, fail)
            case OutcomeReceived(_, _, sender, command, _) if sender == self._sender:
                if command is not None:
                    self._syncs.settled(command)
            case Admitted():
                self._syncs.admitted(*observation)
            case Committed(changes):
                for change in changes:
                    self._newest = max(self._newest, change.revision)
                    self._committed(change)

    def _committed(self, change: StoreChange) -> None:
        if change.storage == "statefulsets.apps":
            obj = decoded(change.raw)
            spec = obj["spec"]
            start = (spec.get("ordinals") or {}).get("start", 0)
            ordered = spec["podManagementPolicy"] == "OrderedReady"
            size = _Sized(range(start, start + spec["replicas"]), ordered, spec.get("minReadySeconds") or 0)
            self._sets.note(uid_of(obj), change.revision, size)
        elif change.storage == "pods":
            self._pod_committed(change)

    def _pod_committed(self, change: StoreChange) -> None:
        """Record a change of a pod, for its present owner and for a former owner that it no longer belongs to."""
        pod = decoded(change.raw)
        owner, facts = controller_of(pod), facts_of_pod(change.raw)
        there = change.type != DELETED and owner is not None
        ready = there and facts.phase == "Running" and not facts.deleting
        since = facts.ready_since if ready and facts.ready_since is not None else math.inf
        before, now = self._owners.get(change.key, ""), "" if owner is None else owner.uid
        if before and before != now:
            self._note(_of(before, change.key), change.revision, there=False, since=math.inf)
        if now:
            self._note(_of(now, change.key), change.revision, there=there, since=since)
        self._owners[change.key] = now

    def _note(self, known_as: str, version: int, *, there: bool, since: float) -> None:
        self._there.note(known_as, version, there)
        self._ready.note(known_as, version, since)

    def _submitted(self, process: str, system: ControllerSystem, submit: Submit, fail: Fail) -> None:
        """Check the commands of a submission against the order of pods.

        Commands with the same reconciled key are assigned to the same sync, even if the first ones are about revisions
        or claims instead of pods.
        """
        pods, sets = system.tables[PODS.id], system.tables[STATEFULSETS.id]

        def now() -> _Begun:
            return _Begun(pods.version, sets.version)

        begun = self._syncs.submitted(process, self._sender, submit.key, submit.commands, now)
        for command in submit.commands:
            self._decided(system, command, begun, fail)

    def _decided(self, system: ControllerSystem, command: Command, begun: _Begun, fail: Fail) -> None:
        owner, key = _concerned(system, command)
        sizes = [] if owner is None else self._sets.between(owner.uid, begun.sets, self._newest)
        if owner is None or key is None or not sizes:
            return
        if isinstance(command, Create):
            objections = [self._against_creation(owner.uid, key, size, begun) for size in sizes]
        else:
            entry = shown(system, PODS.id, key)
            if entry is None or is_terminal(entry.facts):
                return
            objections = [self._against_deletion(owner.uid, key, size, begun) for size in sizes]
        if all(objections):
            fail(f"{type(command).__name__} {key} of {owner.name}: {objections[-1]}")

    def _against_creation(self, owner: str, key: Key, size: _Sized, begun: _Begun) -> str:
        """Return the reason why a StatefulSet must not create a pod now; "" if it may. size: its relevant fields."""
        ordinal = _ordinal(key)
        if ordinal not in size.ordinals:
            return f"the ordinals of the set are {size.ordinals}"
        if not size.ordered:
            return ""
        return self._not_available(owner, key, range(size.ordinals.start, ordinal), size, begun)

    def _against_deletion(self, owner: str, key: Key, size: _Sized, begun: _Begun) -> str:
        ordinal = _ordinal(key)
        if ordinal in size.ordinals:
            return self._not_available(owner, key, range(ordinal + 1, size.ordinals.stop), size, begun)
        if not size.ordered:
            return ""
        later = [higher for higher in range(ordinal + 1, ordinal + 20) if higher not in size.ordinals]
        known = {
            higher: self._there.between(_of(owner, _sibling(key, higher)), begun.pods, self._newest) for higher in later
        }
        there = [higher for higher, values in known.items() if values and all(values)]
        return f"pods with the ordinals {there} are not deleted" if there else ""

    def _not_available(self, owner: str, key: Key, ordinals: range, size: _Sized, begun: _Begun) -> str:
        """Return a text about the pods that were unavailable at all versions that the controller may have known.

        "" if there are none.
        """
        latest = self._clock.now() + self._ahead - size.patience
        waiting = [
            ordinal
            for ordinal in ordinals
            if min(self._ready.between(_of(owner, _sibling(key, ordinal)), begun.pods, self._newest), default=math.inf)
            > latest
        ]
        return f"pods with the ordinals {waiting} are not available" if waiting else ""


def _concerned(system: ControllerSystem, command: Command) -> tuple[OwnerRef | None, Key | None]:
    """Return the owner and the key of the pod that a command creates or deletes; None for other commands."""
    if isinstance(command, Create) and command.resource == PODS.id:
        pod = decode_object(command.body)
        return controller_of(pod), make_key(command.namespace, name_of(pod))
    if isinstance(command, Delete) and command.resource == PODS.id:
        entry = shown(system, PODS.id, command.key)
        return (None if entry is None else entry.controller), command.key
    return None, None


def _of(owner: str, key: Key) -> str:
    """Return the identifier of an owner's pod in the histories `_ready` and `_there`."""
    return f"{owner} {key}"


def _ordinal(key: Key) -> int:
    return int(key.rpartition("-")[2])


def _sibling(key: Key, ordinal: int) -> Key:
    return f"{key.rpartition('-')[0]}-{ordinal}"
