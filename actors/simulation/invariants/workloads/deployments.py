"""Invariants of Deployments: the maximum total size of their ReplicaSets, and the minimum of available pods.

A Deployment limits the sizes of its ReplicaSets, not the existing pods: as upstream, a ReplicaSet that was scaled down
may still have its surplus pods while another ReplicaSet is scaled up. NeverMorePodsThanWanted checks the number of pods
of each ReplicaSet.

Each write of a ReplicaSet is checked twice: SizesWithinBounds uses the state that the writing process has observed, in
its informer caches and in the outcomes of its commands. NeverLargerThanAllowed uses the state on the server at the
versions that these caches had reached.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.actors.app.system import ControllerSystem
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.known_state import InferredSyncs, ValueHistory
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
    only,
)
from kcm.actors.simulation.invariants.workloads.rollouts import Bounds, RolloutView, Size, bounds_of, size_of
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch, Submit, Update
from kcm.protocols.messages.outcomes import Done, NotFound, Outcome
from kcm.protocols.objects import Object, controller_of, decode_object, name_of, resource_version_of, uid_of
from kcm.protocols.resources import DEPLOYMENTS, REPLICASETS
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange
from kcm.runtime.tables.table import OWNER

SENDER = controller_name("deployment-controller")


class _Own:
    """Deployments and ReplicaSets that one process has observed, in its caches and in the outcomes of its commands.

    bounds: (version, bounds) of Deployments in outcomes, by uid.
    written: (version, uid of the Deployment, size) of ReplicaSets in outcomes, by uid.
    gone: uids of ReplicaSets that are deleted according to an outcome.
    """

    def __init__(self, system: ControllerSystem) -> None:
        self.system = system
        self.bounds: dict[str, tuple[int, Bounds]] = {}
        self.written: dict[str, tuple[int, str, Size]] = {}
        self.gone: set[str] = set()

    def view(self, deployment: str) -> RolloutView | None:
        """Return the state of a Deployment as the process has observed it; None for an unknown uid. deployment: uid."""
        deployments, replica_sets = self.system.tables[DEPLOYMENTS.id], self.system.tables[REPLICASETS.id]
        version, bounds = self.bounds.get(deployment, (0, Bounds(0, 0)))
        if version <= deployments.version:
            entry = next((entry for entry in deployments.entries() if entry.uid == deployment), None)
            if entry is None:
                return None
            bounds = bounds_of(deployments.object_of(entry))
        entries = replica_sets.indexed(OWNER, deployment)
        sizes = {
            listed.uid: size_of(replica_sets.object_of(listed)) for listed in entries if listed.uid not in self.gone
        }
        for uid, (version, owner, size) in self.written.items():
            if owner == deployment and version > replica_sets.version and uid not in self.gone:
                sizes[uid] = size
        return RolloutView(bounds, sizes)


class SizesWithinBounds:
    """Invariant: new sizes of ReplicaSets are within the limits of their Deployment that the writer has observed.

    A ReplicaSet that is scaled up keeps the total within the maximum. One that is scaled down keeps the minimum of
    available pods.
    """

    name = "sizes of ReplicaSets are within the limits of their Deployment"
    observes = (ProcessStarted, only(Submitted, SENDER), OutcomeReceived, only(Admitted, SENDER))

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._own: dict[str, _Own] = {}
        self._syncs: InferredSyncs[list[RolloutView]] = InferredSyncs(cluster)

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process, system):
                self._own[process] = _Own(system)
                self._syncs.started(process)
            case Submitted(process, _, submit) if submit.sender == SENDER:
                self._submitted(process, submit, fail)
            case OutcomeReceived(process, _, sender, command, outcome) if command is not None and sender.startswith(
                SENDER
            ):
                self._answered(self._own[process], command, outcome, self._syncs.settled(command) or [])
            case Admitted(process, name) if name == SENDER:
                if self._syncs.admitted(*observation):
                    self._own[process] = _Own(self._own[process].system)

    def _submitted(self, process: str, submit: Submit, fail: Fail) -> None:
        own = self._own[process]
        for command in submit.commands:
            deployment = deployment_concerned(own.system, command)
            if not deployment:
                continue
            newest = own.view(deployment)
            views = self._syncs.submitted(process, submit.sender, deployment, (command,), list)
            if newest is not None and newest not in views:
                views.append(newest)
            if isinstance(command, Create | Update) and command.resource == REPLICASETS.id and not command.subresource:
                replica_set = decode_object(command.body)
                size = size_of(replica_set)
                objections = [view.objection(uid_of(replica_set), size) for view in views]
                if all(objections):
                    what = f"ReplicaSet {name_of(replica_set)} is scaled to {size.wanted}"
                    fail(f"{what}: {'; or '.join(dict.fromkeys(objections)) or 'its Deployment is unknown'}")

    @staticmethod
    def _answered(own: _Own, command: Command, outcome: Outcome, views: list[RolloutView]) -> None:
        if command.resource == DEPLOYMENTS.id and isinstance(command, Update | Get) and isinstance(outcome, Done):
            deployment = decode_object(outcome.body)
            own.bounds[uid_of(deployment)] = (int(resource_version_of(deployment)), bounds_of(deployment))
        if command.resource != REPLICASETS.id:
            return
        if isinstance(command, Create | Update | Patch | Get) and isinstance(outcome, Done):
            replica_set = decode_object(outcome.body)
            uid, owner, size = uid_of(replica_set), controller_of(replica_set), size_of(replica_set)
            if owner is not None:
                own.written[uid] = (int(resource_version_of(replica_set)), owner.uid, size)
                for view in views:
                    view.sizes[uid] = size
            return
        gone = ""
        if isinstance(command, Delete) and isinstance(outcome, Done | NotFound):
            gone = command.uid or ""
        elif isinstance(command, Update) and isinstance(outcome, NotFound):
            gone = uid_of(decode_object(command.body))
        own.gone.add(gone)
        for view in views:
            view.sizes.pop(gone, None)


class Begun(NamedTuple):
    """Versions that the informer caches had reached when a sync began."""

    deployments: int
    replica_sets: int


class ReplicaSetWrite(NamedTuple):
    """Decision to write a ReplicaSet.

    begun: versions of the informer caches when the sync began.
    newest: newest version of the Deployment that the process may have known.
    """

    begun: Begun
    newest: int


class Decisions:
    """Recorder of decisions to write ReplicaSets, with the versions that they may be based on."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._syncs: InferredSyncs[Begun] = InferredSyncs(cluster)
        self._read: dict[tuple[str, str], int] = {}  # (process, uid of a Deployment) → newest version that it read live
        self._decisions: dict[tuple[str, bytes], ReplicaSetWrite] = {}  # by process and body of the request

    def observe(self, observation: Observation) -> None:
        match observation:
            case ProcessStarted(process, _):
                self._syncs.started(process)
            case Submitted(process, system, submit) if submit.sender == SENDER:
                self._submitted(process, system, submit)
            case OutcomeReceived(process, _, sender, command, outcome) if command is not None and sender.startswith(
                SENDER
            ):
                self._syncs.settled(command)
                if command.resource == DEPLOYMENTS.id and isinstance(outcome, Done):
                    deployment = decode_object(outcome.body)
                    self._read[process, uid_of(deployment)] = int(resource_version_of(deployment))
            case Admitted():
                self._syncs.admitted(*observation)

    def behind(self, written: Handled) -> ReplicaSetWrite | None:
        """Return the decision that led to a request which the server has just handled; None for other requests."""
        if written.request.method not in ("POST", "PUT") or written.response.status >= 300:
            return None
        return self._decisions.get((written.process, written.request.body))

    def _submitted(self, process: str, system: ControllerSystem, submit: Submit) -> None:
        deployments, replica_sets = system.tables[DEPLOYMENTS.id], system.tables[REPLICASETS.id]

        def now() -> Begun:
            return Begun(deployments.version, replica_sets.version)

        for command in submit.commands:
            uid = deployment_concerned(system, command)
            if not uid:
                continue
            begun = self._syncs.submitted(process, submit.sender, uid, (command,), now)
            if command.resource == REPLICASETS.id and isinstance(command, Create | Update):
                # An informer that fails while handling an event may have put the object, without advancing the version.
                shown = (entry.resource_version for entry in deployments.entries() if entry.uid == uid)
                newest = max(deployments.version, self._read.get((process, uid), 0), *shown)
                self._decisions[process, command.body] = ReplicaSetWrite(begun, newest)


class NeverLargerThanAllowed:
    """Invariant: scaling up a ReplicaSet keeps the total size of its Deployment's ReplicaSets within the limit.

    Because informer caches may be behind, several versions may have been known to the deciding process. For each other
    ReplicaSet its smallest size in these versions counts; for the Deployment, its highest limit.
    """

    name = "a rollout keeps the maximum number of pods"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._decisions = Decisions(cluster)
        self._most: ValueHistory[int] = ValueHistory()  # maximum number of pods, by the Deployment's uid
        self._sizes: ValueHistory[int] = ValueHistory()  # by the ReplicaSet's uid; 0 once it is deleted
        self._sets: dict[str, list[str]] = {}  # uids of ReplicaSets, by the uid of their Deployment

    def observe(self, observation: Observation, fail: Fail) -> None:
        self._decisions.observe(observation)
        match observation:
            case Committed(changes):
                for change in changes:
                    self._committed(change)
            case Handled():
                decision = self._decisions.behind(observation)
                if decision is not None:
                    self._grown(decision, decode_object(observation.response.body), fail)

    def _committed(self, change: StoreChange) -> None:
        if change.storage == "deployments.apps":
            deployment = decoded(change.raw)
            self._most.note(uid_of(deployment), change.revision, bounds_of(deployment).most)
        elif change.storage == "replicasets.apps":
            replica_set = decoded(change.raw)
            owner = controller_of(replica_set)
            if owner is not None and uid_of(replica_set) not in self._sets.setdefault(owner.uid, []):
                self._sets[owner.uid].append(uid_of(replica_set))
            wanted = 0 if change.type == DELETED else size_of(replica_set).wanted
            self._sizes.note(uid_of(replica_set), change.revision, wanted)

    def _grown(self, decision: ReplicaSetWrite, replica_set: Object, fail: Fail) -> None:
        uid, owner = uid_of(replica_set), controller_of(replica_set)
        version, wanted = int(resource_version_of(replica_set)), size_of(replica_set).wanted
        before = self._sizes.between(uid, version - 1, version - 1)
        if owner is None or wanted <= max(before, default=0):
            return
        begun = decision.begun
        others = [
            set_uid
            for set_uid in self._sets[owner.uid]
            if set_uid != uid and self._sizes.since(set_uid) <= begun.replica_sets
        ]
        total = wanted + sum(min(self._sizes.between(other, begun.replica_sets, version)) for other in others)
        allowed = self._most.between(owner.uid, begun.deployments, decision.newest)
        if total > max(allowed, default=total):
            fail(
                f"ReplicaSet {name_of(replica_set)} is scaled up to {wanted}, and the total to {total}; "
                f"{owner.kind} {owner.name} permits {max(allowed)}, at version {begun.deployments} or later"
            )


def deployment_concerned(system: ControllerSystem, command: Command) -> str:
    """Return the uid of the Deployment if the command is about it or about its ReplicaSet; "" for other commands."""
    if command.resource == DEPLOYMENTS.id:
        if isinstance(command, Update):
            return uid_of(decode_object(command.body))
        entry = system.tables[DEPLOYMENTS.id].get(command.key) if isinstance(command, Get) else None
        return entry.uid if entry is not None else ""
    if command.resource != REPLICASETS.id:
        return ""
    if isinstance(command, Create | Update | Patch):
        owner = controller_of(decode_object(command.body))
    elif isinstance(command, Delete | Get):
        entry = system.tables[REPLICASETS.id].get(command.key)
        owner = entry.controller if entry is not None else None
    else:
        owner = None
    return owner.uid if owner is not None and owner.kind == DEPLOYMENTS.kind else ""
