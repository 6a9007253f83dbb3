"""No pod too many, and none deleted that nobody wanted to be rid of, judged by what whoever decides can know.

What a process can know when it decides: what its tables show, and what it has asked for itself. Whoever creates a pod
when that makes more than its owner wants has not looked; so has whoever deletes one when that leaves fewer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from actors.app.system import ControllerSystem
from actors.simulation import SimulatedCluster
from actors.simulation.invariants.knowledge import Streaks
from actors.simulation.invariants.observing import (
    Admitted,
    Committed,
    Fail,
    Observation,
    OutcomeReceived,
    ProcessStarted,
    Submitted,
)
from protocols.messages.commands import Command, Create, Delete, Get, Patch, Submit, Update
from protocols.messages.outcomes import AlreadyExists, Done, NotFound, Outcome, Refused, Unknown
from protocols.objects import (
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
from protocols.pods import is_active, pod_facts
from protocols.resources import PODS, REPLICASETS, REPLICATION_CONTROLLERS
from runtime.apiserver.storage.store import ADDED
from runtime.tables.table import OWNER, Table

OWNERS = {resource.kind: resource for resource in (REPLICASETS, REPLICATION_CONTROLLERS)}
OWNER_IDS = {resource.id for resource in OWNERS.values()}
MANAGERS_OF_PODS = "controller:repl"  # how the names of those begin who keep a number of pods
UNNAMED = ", to be named by the server"


def replicas_of(owner: Object) -> int:
    return int((owner.get("spec") or {}).get("replicas", 1))


@dataclass(slots=True)
class _Pod:
    """A pod that a process has made, adopted or looked at.

    version: as answered, or as the server has it where there is no answer; 0 before that. epoch: of the table then:
    versions of before the server went back are worth nothing. asker: whose creation of it has no answer; "" once it is
    known to be there. unsure: its creation was sent, and will not be answered any more.
    """

    owner: OwnerRef
    version: int
    epoch: int
    asker: str
    unsure: bool = False


@dataclass(slots=True)
class _Room:
    """How many pods may be made, and how many deleted, by what was known as a streak began; less what has been."""

    creations: int
    deletions: int


class _Own:
    """What one process has done and been answered. deleted: uids of pods that it has deleted or released.

    owners: what it was answered of owners of pods: uid → (version, replicas).
    """

    def __init__(self, system: ControllerSystem) -> None:
        self.system = system
        self.pods: dict[Key, _Pod] = {}
        self.deleted: set[str] = set()
        self.owners: dict[str, tuple[int, int]] = {}

    @property
    def table(self) -> Table:
        return self.system.tables[PODS.id]

    def owner_of(self, key: Key) -> OwnerRef | None:
        """Of a pod, as far as this process can know."""
        own, entry = self.pods.get(key), self.table.get(key)
        if own is not None:
            return own.owner
        return entry.controller if entry is not None else None

    def wanted(self, namespace: str, owner: OwnerRef) -> list[int]:
        """How many pods the owner wants, by its table and by what was answered of it; nothing if it is unknown."""
        table = self.system.tables[OWNERS[owner.kind].id]
        entry = table.get(make_key(namespace, owner.name))
        wanted = []
        if entry is not None and entry.uid == owner.uid:
            wanted = [replicas_of(table.object_of(entry))]
        version, answered = self.owners.get(owner.uid, (0, 0))
        return [*wanted, answered] if version > table.version else wanted

    def pods_of(self, owner: str, *, surely: bool = False) -> set[Key]:
        """Active pods of this owner that the process can know of. surely: without those that may not be there."""
        table = self.table
        active = {
            entry.key
            for entry in table.indexed(OWNER, owner)
            if is_active(entry.facts) and entry.uid not in self.deleted
        }
        for key, pod in self.pods.items():
            unseen = pod.version == 0 or (pod.version > table.version and pod.epoch == table.epoch)
            if pod.owner.uid != owner or not unseen or (surely and pod.asker):
                continue
            entry = table.get(key)
            if entry is None or (entry.uid not in self.deleted and is_active(entry.facts)):
                active.add(key)
        return active

    def saw(self, pod: Object) -> None:
        """The server has shown it to us. One that is nobody's, or at its end, counts no more."""
        owner = controller_of(pod)
        if owner is None or not is_active(pod_facts(pod)):
            self.pods.pop(key_of(pod), None)
            self.deleted.add(uid_of(pod))
        else:
            self.deleted.discard(uid_of(pod))
            self.pods[key_of(pod)] = _Pod(owner, int(resource_version_of(pod)), self.table.epoch, "")

    def is_there(self, key: Key, version: int) -> None:
        """Of a creation without an answer: its pod came with this version, so a table that is as new has shown it."""
        pod = self.pods.get(key)
        if pod is not None and pod.version == 0:
            pod.version, pod.epoch = version, self.table.epoch

    def forget_what_was_asked(self, asker: str, lost: Sequence[Command]) -> None:
        """It was lost with a mailbox, or asked for by another incarnation: what the tables show counts."""
        for key in [key for key, pod in self.pods.items() if pod.asker == asker]:
            del self.pods[key]
        for command in lost:
            if isinstance(command, Delete) and command.resource == PODS.id:
                self.deleted.discard(command.uid or "")


class NoPodTooMany:
    """See the module."""

    name = "no pod too many, none too few"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._own: dict[str, _Own] = {}
        self._streaks: Streaks[_Room] = Streaks(cluster)

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process, system):
                self._own[process] = _Own(system)
                self._streaks.end(process)
            case Committed(changes):
                for change in changes:
                    if change.storage == PODS.plural and change.type == ADDED:
                        for own in self._own.values():
                            own.is_there(change.key, int(resource_version_of(decode_object(change.raw))))
            case Submitted(process, _, submit) if submit.sender.startswith("controller:"):
                self._submitted(process, submit, fail)
            case OutcomeReceived(process, _, sender, command, outcome) if command is not None:
                room = self._streaks.answered(command)
                if sender.startswith(MANAGERS_OF_PODS):
                    _learn(self._own[process], command, outcome, room)
            case Admitted(process, name, _, lost):
                self._own[process].forget_what_was_asked(name, lost)
                self._streaks.end(process, name)

    def _submitted(self, process: str, submit: Submit, fail: Fail) -> None:
        own = self._own[process]
        by_owner: dict[tuple[str, OwnerRef], list[Command]] = defaultdict(list)
        for command in submit.commands:
            concerned = _owner(own, command)
            if concerned is not None:
                by_owner[concerned].append(command)
            elif isinstance(command, Delete) and command.resource == PODS.id:
                if submit.sender.startswith(MANAGERS_OF_PODS):
                    fail(f"{command.key} is deleted, which nobody owns who wants any number of pods")
        for (namespace, owner), commands in by_owner.items():
            if owner.kind not in OWNERS or OWNERS[owner.kind].id not in own.system.tables:
                continue

            def now(namespace: str = namespace, owner: OwnerRef = owner) -> _Room:
                wanted = own.wanted(namespace, owner)
                if not wanted:
                    return _Room(0, 0)
                return _Room(
                    max(wanted) - len(own.pods_of(owner.uid)), len(own.pods_of(owner.uid, surely=True)) - min(wanted)
                )

            room, newest = self._streaks.submitted(process, submit.sender, owner.uid, commands, now), now()
            room.creations = max(room.creations, newest.creations)
            room.deletions = max(room.deletions, newest.deletions)
            self._judge(own, submit.sender, owner, commands, room, fail)

    def _judge(self, own: _Own, sender: str, owner: OwnerRef, commands: list[Command], room: _Room, fail: Fail) -> None:
        """room: before these commands; less what they take, afterwards."""
        for command in commands:
            if isinstance(command, Create) and command.resource == PODS.id and not command.subresource:
                pod = decode_object(command.body)
                key = make_key(command.namespace, name_of(pod) or f"{len(own.pods)}{UNNAMED}")
                known = own.pods_of(owner.uid)
                if key not in known:
                    room.creations -= 1
                    if room.creations < 0:
                        wanted = own.wanted(command.namespace, owner)
                        fail(
                            f"{key} is created for {owner.kind} {owner.name}, which wants {wanted}; "
                            f"its controller can know of {sorted(known)}"
                        )
                    own.pods[key] = _Pod(owner, 0, 0, sender)
            elif isinstance(command, Delete) and sender.startswith(MANAGERS_OF_PODS):
                self._delete(own, owner, command, room, fail)

    def _delete(self, own: _Own, owner: OwnerRef, command: Delete, room: _Room, fail: Fail) -> None:
        known = own.pods_of(owner.uid, surely=True)
        if command.key in known:
            room.deletions -= 1
            if room.deletions < 0:
                wanted = own.wanted(split_key(command.key)[0], owner)
                who = f"{owner.kind} {owner.name}"
                fail(f"{command.key} is deleted although {who} wants {wanted} and has {sorted(known)}")
        entry = own.table.get(command.key)
        own.deleted.add(command.uid or (entry.uid if entry is not None else ""))


def _owner(own: _Own, command: Command) -> tuple[str, OwnerRef] | None:
    """(namespace, owner) as owner_concerned, also of pods that only this process knows of."""
    if isinstance(command, Delete | Get | Patch) and command.key in own.pods and command.resource == PODS.id:
        return split_key(command.key)[0], own.pods[command.key].owner
    return owner_concerned(own.system, command)


def owner_concerned(system: ControllerSystem, command: Command) -> tuple[str, OwnerRef] | None:
    """(namespace, owner) of the pod that a command is about, by the command itself or by the process's tables; or the
    owner of pods that it is about. None if that is nobody.
    """
    match command:
        case Create(PODS.id, namespace, body, subresource=""):
            owner = controller_of(decode_object(body))
            return None if owner is None else (namespace, owner)
        case Delete(PODS.id, key) | Get(PODS.id, key) | Patch(PODS.id, key):
            pods = system.tables.get(PODS.id)
            entry = pods.get(key) if pods is not None else None
            owner = entry.controller if entry is not None else None
            if owner is None and isinstance(command, Patch):
                owner = controller_of(decode_object(command.body))  # that adopts it
            return None if owner is None else (split_key(key)[0], owner)
        case Get(resource, key) | Update(resource, key) if resource in OWNER_IDS and resource in system.tables:
            table = system.tables[resource]
            entry = table.get(key)
            if entry is None:
                return None
            reference = OwnerRef(table.resource.api_version, table.resource.kind, split_key(key)[1], entry.uid)
            return split_key(key)[0], reference
    return None


def _learn(own: _Own, command: Command, outcome: Outcome, room: _Room | None) -> None:
    """What an answer says of pods and their owners. room: that the command was asked for in."""
    match command, outcome:
        case Create(PODS.id), _:
            asked = decode_object(command.body)
            key = make_key(command.namespace, name_of(asked)) if name_of(asked) else _unnamed(own, asked)
            # What has no answer may be there, and so is what was there already: whoever knows its name can ask again.
            known = own.pods.get(key)
            if known is not None and name_of(asked) and isinstance(outcome, Unknown | AlreadyExists):
                known.unsure = True
            elif known is not None and not (known.unsure and isinstance(outcome, Refused)):  # that was never sent
                del own.pods[key]
            if isinstance(outcome, Done):
                own.saw(decode_object(outcome.body))
        case Get(PODS.id), Done(body):
            own.saw(decode_object(body))
        case Get(PODS.id) | Delete(PODS.id), NotFound():
            own.pods.pop(command.key, None)
        case Patch(PODS.id), Done(body):
            pod = decode_object(body)
            own.saw(pod)
            if room is not None:
                adopted = 1 if controller_of(pod) is not None else -1
                room.creations, room.deletions = room.creations - adopted, room.deletions + adopted
        case Delete(PODS.id), Done():
            own.pods.pop(command.key, None)
        case Delete(PODS.id), _:
            own.deleted.discard(command.uid or "")  # also without an answer
        case (Get(resource) | Update(resource), Done(body)) if resource in OWNER_IDS:
            owner = decode_object(body)
            own.owners[uid_of(owner)] = (int(resource_version_of(owner)), replicas_of(owner))


def _unnamed(own: _Own, asked: Object) -> Key:
    """One of those of the same owner, whichever: the server gives the name."""
    owner = controller_of(asked)
    mine = (key for key, pod in own.pods.items() if key.endswith(UNNAMED) and pod.owner == owner)
    return next(mine, "")
