"""Invariant of pod counts: a controller creates no more pods than its owner requests, and deletes no pod below that.

Each decision is checked against what the deciding process has observed: its informer caches, and the outcomes of its
commands. The invariant applies to every controller whose owners request a number of pods (ownership.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from kcm.actors.app.system import ControllerSystem
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.known_state import InferredSyncs
from kcm.actors.simulation.invariants.observer import (
    Admitted,
    Committed,
    Fail,
    Observation,
    OutcomeReceived,
    ProcessStarted,
    Submitted,
    decoded,
    only,
)
from kcm.actors.simulation.invariants.owners import Owners, adopter
from kcm.actors.simulation.invariants.ownership import OwnershipIndex
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch, Submit, Update
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound, Outcome, Refused, Unknown
from kcm.protocols.objects import (
    Key,
    Object,
    OwnerRef,
    controller_of,
    decode_object,
    key_of,
    make_key,
    name_of,
    resource_version_of,
    split_key,
    uid_of,
)
from kcm.protocols.pods import is_active, pod_facts
from kcm.protocols.resources import PODS
from kcm.runtime.apiserver.storage.store import ADDED
from kcm.runtime.tables.table import OWNER, Table

UNNAMED = ", to be named by the server"


class _Pod(Struct):
    """Pod that a process has created, adopted or fetched.

    version: resourceVersion in the outcome, or that the server has committed if there is no outcome; 0 before that.
    epoch: epoch of the informer cache at that time; versions of different epochs cannot be compared.
    creator: sender of a creation that has no outcome yet; "" once the pod is known to exist.
    maybe_created: whether an earlier attempt of the creation had an unknown outcome.
    ended: whether the pod is terminal or being deleted, so that it does not count.
    """

    owner: OwnerRef
    version: int
    epoch: int
    creator: str
    maybe_created: bool = False
    ended: bool = False


class _Allowance(Struct):
    """Numbers of pods that a reconciliation may still create and delete, by the state at its beginning."""

    creations: int
    deletions: int


class _ProcessState:
    """Pods that follow from the commands of one process, in addition to the pods in its informer caches.

    pods: pods that it has created, adopted or read, by key.
    deleted: uids of pods that it has deleted or released.
    """

    def __init__(self, system: ControllerSystem, ownership: OwnershipIndex) -> None:
        self.system, self.ownership = system, ownership
        self.pods: dict[Key, _Pod] = {}
        self.deleted: set[str] = set()
        self.owners = Owners(system, ownership)

    @property
    def table(self) -> Table:
        return self.system.tables[PODS.id]

    def owner_of(self, key: Key) -> OwnerRef | None:
        """Return the owner of a pod in the commands or caches of the process; None for an unknown pod or no owner."""
        own, entry = self.pods.get(key), self.table.get(key)
        if own is not None:
            return own.owner
        return entry.controller if entry is not None else None

    def pods_of(self, owner: str, *, surely: bool = False) -> set[Key]:
        """Return the keys of an owner's active pods, by the informer caches and the commands of the process.

        owner: uid.
        surely: exclude pods whose creation has no outcome yet, as they may not exist.
        """
        table = self.table
        active = {
            entry.key
            for entry in table.indexed(OWNER, owner)
            if is_active(entry.facts) and entry.uid not in self.deleted
        }
        for key, pod in self.pods.items():
            unseen = pod.version == 0 or (pod.version > table.version and pod.epoch == table.epoch)
            if pod.owner.uid != owner or pod.ended or not unseen or (surely and pod.creator):
                continue
            entry = table.get(key)
            if entry is None or (entry.uid not in self.deleted and is_active(entry.facts)):
                active.add(key)
        return active

    def record_pod(self, pod: Object) -> None:
        """Record a pod from a response. A pod that is terminal, terminating or without an owner no longer counts."""
        owner, ended = controller_of(pod), not is_active(pod_facts(pod))
        if owner is None or ended:
            self.deleted.add(uid_of(pod))
        else:
            self.deleted.discard(uid_of(pod))
        if owner is None:
            self.pods.pop(key_of(pod), None)
        else:
            self.pods[key_of(pod)] = _Pod(owner, int(resource_version_of(pod)), self.table.epoch, "", ended=ended)

    def record_version(self, key: Key, version: int) -> None:
        """Record the version at which the server committed a creation that has no outcome yet.

        An informer cache that has reached this version contains the pod, unless it was deleted.
        """
        pod = self.pods.get(key)
        if pod is not None and pod.version == 0:
            pod.version, pod.epoch = version, self.table.epoch

    def forget_commands(self, creator: str, lost: Sequence[Command]) -> None:
        """Drop what is assumed about pods because of commands that will not have an outcome.

        creator: sender of the commands.
        lost: the commands.
        """
        for key in [key for key, pod in self.pods.items() if pod.creator == creator]:
            del self.pods[key]
        for command in lost:
            if isinstance(command, Delete) and command.resource == PODS.id:
                self.deleted.discard(command.uid or "")


class NoPodTooMany:
    """Invariant: a controller creates a pod only if its owner has too few, and deletes one only if it has too many.

    Only pods that the deciding process has observed are counted (see the module's docstring).
    """

    name = "pods are created and deleted only up to the requested number"
    observes = (ProcessStarted, Submitted, OutcomeReceived, Admitted, only(Committed, PODS.plural))

    def __init__(self, cluster: SimulatedCluster, ownership: OwnershipIndex) -> None:
        self._ownership = ownership
        self._own: dict[str, _ProcessState] = {}
        self._syncs: InferredSyncs[_Allowance] = InferredSyncs(cluster)

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process, system):
                self._own[process] = _ProcessState(system, self._ownership)
                self._syncs.started(process)
            case Committed(changes):
                for change in changes:
                    if change.storage == PODS.plural and change.type == ADDED:
                        for own in self._own.values():
                            own.record_version(change.key, int(resource_version_of(decoded(change.raw))))
            case Submitted(process, _, submit) if submit.sender.startswith("controller:"):
                self._submitted(process, submit, fail)
            case OutcomeReceived(process, _, sender, command, outcome) if command is not None:
                allowance = self._syncs.settled(command)
                if sender in self._ownership.pod_senders:
                    _record_outcome(self._own[process], command, outcome, allowance)
            case Admitted(process, name, _, lost):
                self._own[process].forget_commands(name, lost)
                self._syncs.admitted(*observation)

    def _submitted(self, process: str, submit: Submit, fail: Fail) -> None:
        own = self._own[process]
        by_owner: dict[tuple[str, OwnerRef], list[Command]] = defaultdict(list)
        for command in submit.commands:
            concerned = _owner(own, command)
            if concerned is not None:
                by_owner[concerned].append(command)
            elif isinstance(command, Delete) and command.resource == PODS.id:
                if submit.sender in self._ownership.pod_senders:
                    fail(f"{command.key} is deleted, but no owner with a number of pods is known")
        for (namespace, owner), commands in by_owner.items():
            counted = self._ownership.counted.get(owner.kind)
            if counted is None or counted.owner.id not in own.system.tables:
                continue

            def now(namespace: str = namespace, owner: OwnerRef = owner) -> _Allowance:
                wanted = own.owners.wanted(namespace, owner)
                if not wanted:
                    return _Allowance(0, 0)
                return _Allowance(
                    max(wanted) - len(own.pods_of(owner.uid)), len(own.pods_of(owner.uid, surely=True)) - min(wanted)
                )

            allowance, newest = self._syncs.submitted(process, submit.sender, owner.uid, commands, now), now()
            allowance.creations = max(allowance.creations, newest.creations)
            allowance.deletions = max(allowance.deletions, newest.deletions)
            self._check(own, submit.sender, owner, commands, allowance, fail)

    def _check(
        self,
        own: _ProcessState,
        sender: str,
        owner: OwnerRef,
        commands: list[Command],
        allowance: _Allowance,
        fail: Fail,
    ) -> None:
        """Check that the remaining allowance permits the commands, and reduce it."""
        for command in commands:
            if isinstance(command, Create) and command.resource == PODS.id and not command.subresource:
                pod = decode_object(command.body)
                key = make_key(command.namespace, name_of(pod) or f"{len(own.pods)}{UNNAMED}")
                known = own.pods_of(owner.uid)
                if key not in known:
                    allowance.creations -= 1
                    if allowance.creations < 0:
                        wanted = own.owners.wanted(command.namespace, owner)
                        fail(
                            f"{key} is created for {owner.kind} {owner.name}, which requests {wanted} pods; "
                            f"its controller knows {sorted(known)}"
                        )
                    own.pods[key] = _Pod(owner, 0, 0, sender)
            elif isinstance(command, Delete) and sender in self._ownership.pod_senders:
                self._delete(own, owner, command, allowance, fail)

    def _delete(self, own: _ProcessState, owner: OwnerRef, command: Delete, allowance: _Allowance, fail: Fail) -> None:
        known = own.pods_of(owner.uid, surely=True)
        if command.key in known:
            allowance.deletions -= 1
            if allowance.deletions < 0:
                wanted = own.owners.wanted(split_key(command.key)[0], owner)
                who = f"{owner.kind} {owner.name}"
                fail(f"{command.key} is deleted, but {who} requests {wanted} pods and has {sorted(known)}")
        entry = own.table.get(command.key)
        own.deleted.add(command.uid or (entry.uid if entry is not None else ""))


def _owner(own: _ProcessState, command: Command) -> tuple[str, OwnerRef] | None:
    """Return (namespace, owner) for a command on a pod or on an owner; None for other commands.

    The pod may be one that is not in the informer cache yet. For an adoption this is the new owner.
    """
    by_adoption = adopter(command)
    if by_adoption is not None:
        return by_adoption
    if isinstance(command, Delete | Get | Patch) and command.key in own.pods and command.resource == PODS.id:
        return split_key(command.key)[0], own.pods[command.key].owner
    return own.owners.concerned(command)


def _record_outcome(own: _ProcessState, command: Command, outcome: Outcome, allowance: _Allowance | None) -> None:
    """Record what an outcome contains about pods and owners.

    allowance: numbers of pods that the command's sync may still create and delete; None if the sync is unknown.
    """
    match command, outcome:
        case Create(PODS.id), _:
            asked = decode_object(command.body)
            key = make_key(command.namespace, name_of(asked)) if name_of(asked) else _unnamed(own, asked)
            # Without an outcome the pod may exist, and with AlreadyExists it does. Its name is known for a retry.
            known = own.pods.get(key)
            if known is not None and name_of(asked) and isinstance(outcome, Unknown | AlreadyExists):
                known.maybe_created = True
            elif known is not None and not (
                known.maybe_created and isinstance(outcome, Refused)
            ):  # the retry was never sent
                del own.pods[key]
            if isinstance(outcome, Done):
                own.record_pod(decode_object(outcome.body))
        case Get(PODS.id), Done(body):
            own.record_pod(decode_object(body))
        case Get(PODS.id) | Delete(PODS.id), NotFound():
            own.pods.pop(command.key, None)
        case Patch(PODS.id), Done(body):
            pod = decode_object(body)
            own.record_pod(pod)
            if allowance is not None:
                adopted = 1 if controller_of(pod) is not None else -1
                allowance.creations, allowance.deletions = allowance.creations - adopted, allowance.deletions + adopted
        case Delete(PODS.id), Done():
            own.pods.pop(command.key, None)
        case Delete(PODS.id), _:
            own.deleted.discard(command.uid or "")  # also without an outcome
        case (Get(resource) | Update(resource), Done(body)) if resource in own.ownership.counted_ids:
            own.owners.returned(command, body)


def _unnamed(own: _ProcessState, asked: Object) -> Key:
    """Return the key of a recorded pod of the same owner whose name the server generates; "" if there is none."""
    owner = controller_of(asked)
    mine = (key for key, pod in own.pods.items() if key.endswith(UNNAMED) and pod.owner == owner)
    return next(mine, "")
