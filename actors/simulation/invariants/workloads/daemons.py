"""Invariant of DaemonSets: each has at most one active pod on a node, and a second one only during a surge."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.workloads.daemonset.objects import HASH_LABEL
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.known_state import InferredSyncs
from kcm.actors.simulation.invariants.observer import (
    Admitted,
    Committed,
    Fail,
    Handled,
    Observation,
    OutcomeReceived,
    ProcessStarted,
    Submitted,
    decoded,
    facts_of_pod,
    only,
)
from kcm.actors.simulation.invariants.ownership import storage_of
from kcm.protocols.messages.commands import Create, Submit
from kcm.protocols.objects import Key, controller_of, decode_object, key_of, make_key, name_of, uid_of
from kcm.protocols.pods import is_active
from kcm.protocols.resources import DAEMONSETS, PODS
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange

CLIENT, SENDER = "daemon-set-controller", "controller:daemonset-controller"


class _Origin(Struct, frozen=True):
    """Process that decided to create a pod, and the state that it had observed.

    start: number of starts of the process, including the present one.
    seen: version that its informer cache of pods had reached when the sync began. A sync reads the pods only once.
    """

    process: str
    start: int
    seen: int


class _Pod(Struct, frozen=True):
    """Active pod of a DaemonSet.

    hash: label with the hash of the pod template.
    created: version of the creation; 0 for an adopted pod.
    origin: process that created the pod; None if a user created it.
    """

    key: str
    owner: str  # uid
    node: str
    hash: str
    created: int
    origin: _Origin | None


class OneDaemonPodPerNode:
    """Invariant: a pod of a DaemonSet is created on a node only if the node has no other active pod of this DaemonSet.

    With maxSurge, the other pod may have another template. This applies to DaemonSets that have ever set maxSurge,
    because the controller may not have observed its removal yet. Pods that users created count once they are adopted.

    A pod that another process created does not count if it was not in the informer cache of the process that creates
    the new pod. The reason is that a request may be in flight when its process ends, and that the next process may list
    from a server that is behind.
    """

    name = "a DaemonSet has one pod per node"
    observes = (
        ProcessStarted,
        only(Submitted, SENDER),
        only(OutcomeReceived, SENDER),
        only(Admitted, SENDER),
        only(Committed, storage_of(DAEMONSETS), "pods"),
        only(Handled, CLIENT),
    )

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._pods: dict[str, _Pod] = {}  # active pods of DaemonSets, by uid
        self._surging: set[str] = set()  # uids of DaemonSets that have ever set maxSurge
        self._starts: Counter[str] = Counter()  # number of starts, by process
        self._origins: dict[Key, _Origin] = {}  # by key of the pod
        self._syncs: InferredSyncs[int] = InferredSyncs(cluster)

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process):
                self._starts[process] += 1
                self._syncs.started(process)
            case Submitted(process, system, submit) if submit.sender == SENDER:
                self._ask(process, system, submit)
            case OutcomeReceived(sender=sender, command=command) if sender == SENDER and command is not None:
                self._syncs.settled(command)
            case Admitted(name=name) if name == SENDER:
                self._syncs.admitted(*observation)
            case Committed(changes):
                for change in changes:
                    self._note(change)
            case Handled(client=client, changes=changes) if client == CLIENT:
                for change in changes:
                    if change.storage == "pods" and change.type == ADDED:
                        self._check(uid_of(decoded(change.raw)), fail)

    def _ask(self, process: str, system: ControllerSystem, submit: Submit) -> None:
        table = system.tables[PODS.id]
        seen = self._syncs.submitted(process, SENDER, submit.key, submit.commands, lambda: table.version)
        origin = _Origin(process, self._starts[process], seen)
        for command in submit.commands:
            if isinstance(command, Create) and command.resource == PODS.id:
                self._origins[make_key(command.namespace, name_of(decode_object(command.body)))] = origin

    def _note(self, change: StoreChange) -> None:
        if change.storage == storage_of(DAEMONSETS):
            obj = decoded(change.raw)
            rolling = (obj["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
            if rolling.get("maxSurge") not in (None, 0, "0%"):
                self._surging.add(uid_of(obj))
        elif change.storage == "pods":
            pod = decoded(change.raw)
            owner, facts = controller_of(pod), facts_of_pod(change.raw)
            if change.type == DELETED or owner is None or owner.kind != DAEMONSETS.kind or not is_active(facts):
                self._pods.pop(uid_of(pod), None)
            else:
                known, key = self._pods.get(uid_of(pod)), key_of(pod)
                created, origin = (0, None) if known is None else (known.created, known.origin)
                if change.type == ADDED:
                    created, origin = change.revision, self._origins.get(key)
                hash = facts.labels.get(HASH_LABEL) or ""
                self._pods[uid_of(pod)] = _Pod(key, owner.uid, facts.target, hash, created, origin)

    def _check(self, uid: str, fail: Fail) -> None:
        made = self._pods.get(uid)
        if made is None:
            return
        beside = [
            pod
            for other, pod in self._pods.items()
            if other != uid and (pod.owner, pod.node) == (made.owner, made.node) and not _is_unforeseen(pod, made)
        ]
        if made.owner in self._surging:
            beside = [pod for pod in beside if pod.hash == made.hash]
        if beside:
            fail(f"{made.key} is created on {made.node}, which already has {sorted(pod.key for pod in beside)}")


def _is_unforeseen(pod: _Pod, made: _Pod) -> bool:
    """Report whether the creator of the pod `made` could not observe the other pod before its decision."""
    if pod.origin is None or made.origin is None:
        return False
    previous, other = pod.origin, made.origin
    return (previous.process, previous.start) != (other.process, other.start) and pod.created > other.seen
