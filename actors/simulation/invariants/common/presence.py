"""Invariant of existing pods: no owner has more active pods than its replicas, except because of stale reads.

When the server has created a pod, the pods that its creator must have known are counted: those that existed at the
version that the creator's informer cache had reached, even if the cache does not contain them, and those that the
creator itself had created. Their number must not exceed the highest number of replicas that the creator may have known:
from the version that the cache of owners had reached to the newest version in a response.

The invariant applies to the same controllers as counts.py. A creation that reaches the server after its sender has
received an outcome for every attempt is not checked.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kcm.actors.app.system import ControllerSystem
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
    facts_of_pod,
    only,
)
from kcm.actors.simulation.invariants.owners import Owners
from kcm.actors.simulation.invariants.ownership import OwnershipIndex, storage_of
from kcm.protocols.messages.commands import Create, Get, Submit, Update
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.objects import Key, controller_of, decode_object, make_key, uid_of
from kcm.protocols.pods import is_active
from kcm.protocols.resources import PODS
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange
from kcm.runtime.tables.table import Table


class _Creator(NamedTuple):
    """Incarnation of an actor that creates pods, within one epoch of its informer cache of pods.

    start: number of starts of the process, including the present one.
    """

    process: str
    start: int
    sender: str
    incarnation: int
    epoch: int


class _Begun(NamedTuple):
    """Versions that the informer caches of pods and of owners had reached when a sync began."""

    pods: int
    owners: int


class _Decision(NamedTuple):
    """Decision to create a pod.

    begun: versions of the informer caches at the beginning of the sync.
    newest: newest version of the owner that the process may have known.
    """

    creator: _Creator
    begun: _Begun
    newest: int


class _Active(NamedTuple):
    """Active pod of an owner.

    since: version since which the owner has the pod.
    creator: None if no checked controller created it.
    """

    key: Key
    since: int
    creator: _Creator | None


class NeverMorePodsThanWanted:
    """Invariant: after the creation of a pod, its owner has no more active pods than it requests."""

    name = "never more pods than requested"

    def __init__(self, cluster: SimulatedCluster, ownership: OwnershipIndex) -> None:
        self._ownership = ownership
        self._kinds = {storage_of(owns.owner): owns.owner.kind for owns in ownership.counted.values()}
        self._wanted: ValueHistory[int] = ValueHistory()
        self._syncs: InferredSyncs[_Begun] = InferredSyncs(cluster)
        self._starts: dict[str, int] = {}
        self._owners: dict[str, Owners] = {}  # by process
        self._decisions: dict[tuple[str, bytes], _Decision] = {}  # by process and request
        self._open: Counter[tuple[str, bytes]] = (
            Counter()
        )  # number of creations without an outcome, by process and request
        self._active: dict[str, dict[str, _Active]] = {}  # by the owner's uid and the pod's
        self._owner: dict[str, str] = {}  # uid of the owner of each active pod, by uid
        self.observes = (
            ProcessStarted,
            only(Submitted, *ownership.pod_senders),
            only(OutcomeReceived, *ownership.pod_senders),
            Admitted,
            Handled,
            only(Committed, *self._kinds, PODS.plural),
        )

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process, system):
                self._owners[process] = Owners(system, self._ownership)
                self._starts[process] = self._starts.get(process, 0) + 1
                self._syncs.started(process)
            case Submitted(process, system, submit) if submit.sender in self._ownership.pod_senders:
                self._submitted(process, system, submit)
            case OutcomeReceived(process, _, sender, command, outcome) if (
                command is not None and sender in self._ownership.pod_senders
            ):
                self._syncs.settled(command)
                if isinstance(command, Create):
                    self._open[process, command.body] -= 1
                if (
                    isinstance(command, Get | Update)
                    and isinstance(outcome, Done)
                    and command.resource in self._ownership.counted_ids
                ):
                    self._owners[process].returned(command, outcome.body)
            case Admitted():
                self._syncs.admitted(*observation)
            case Committed(changes):
                for change in changes:
                    self._committed(change)
            case Handled(process, _, request, response) if request.method == "POST" and response.status == 201:
                decision = self._decisions.get((process, request.body))
                if decision is not None and self._open[process, request.body] > 0:
                    self._check_created(decision, response.body, fail)

    def _submitted(self, process: str, system: ControllerSystem, submit: Submit) -> None:
        for command in submit.commands:
            concerned = self._owners[process].concerned(command)
            counted = None if concerned is None else self._ownership.counted.get(concerned[1].kind)
            if concerned is None or counted is None:
                continue
            pods, owners = system.tables[PODS.id], system.tables[counted.owner.id]
            uid = concerned[1].uid

            def now(pods: Table = pods, owners: Table = owners) -> _Begun:
                return _Begun(pods.version, owners.version)

            begun = self._syncs.submitted(process, submit.sender, uid, (command,), now)
            if isinstance(command, Create):
                creator = _Creator(process, self._starts[process], submit.sender, submit.incarnation, pods.epoch)
                # An informer that fails while handling an event may have put the object, without advancing the version.
                entry = owners.get(make_key(concerned[0], concerned[1].name))
                shown = entry.resource_version if entry is not None else 0
                newest = max(owners.version, shown, self._owners[process].version(uid))
                self._decisions[process, command.body] = _Decision(creator, begun, newest)
                self._open[process, command.body] += 1

    def _committed(self, change: StoreChange) -> None:
        if change.storage in self._kinds:
            owner = decoded(change.raw)
            replicas = self._ownership.replicas(owner, self._kinds[change.storage])
            self._wanted.note(uid_of(owner), change.revision, replicas)
        if change.storage != "pods":
            return
        pod = decoded(change.raw)
        owner_ref = controller_of(pod)
        now = owner_ref.uid if owner_ref is not None else ""
        if change.type == DELETED or not is_active(facts_of_pod(change.raw)):
            now = ""
        uid = uid_of(pod)
        before = self._owner.pop(uid, "")
        if before != now and before:
            del self._active[before][uid]
        if now:
            self._owner[uid] = now
            self._active.setdefault(now, {}).setdefault(uid, _Active(change.key, change.revision, None))

    def _check_created(self, decision: _Decision, body: bytes, fail: Fail) -> None:
        """Check the number of active pods of an owner after the server has created another one. body: that pod."""
        pod = decode_object(body)
        owner = controller_of(pod)
        active = self._active.get(owner.uid, {}) if owner is not None else {}
        made = active.get(uid_of(pod))
        if owner is None or made is None:
            return
        active[uid_of(pod)] = made._replace(creator=decision.creator)
        begun = decision.begun
        known = [
            creation.key
            for creation in active.values()
            if creation.since <= begun.pods or creation.creator == decision.creator
        ]
        known = sorted({*known, made.key})
        wanted = self._wanted.between(owner.uid, begun.owners, decision.newest)
        if len(known) > max(wanted, default=len(known)):
            fail(
                f"{made.key} exceeds the {max(wanted)} pods that {owner.kind} {owner.name} requests in versions "
                f"{begun.owners} to {decision.newest}; {decision.creator.sender} must know these pods, which exist at "
                f"version {begun.pods} or were created by itself: {known}"
            )
