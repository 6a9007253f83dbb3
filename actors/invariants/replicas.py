"""No pod too many, and none deleted that nobody wanted to be rid of: beyond what stale reads can explain.

What a process can know when it decides: what its table of pods shows, and what it has asked for itself. Whoever creates
a pod when that makes more than its owner wants has not looked; so has whoever deletes one when that leaves fewer.
"""

from __future__ import annotations

from collections import deque

from actors.controller_system import ControllerSystem
from actors.invariants.watching import (
    Answered,
    CarriedOut,
    Committed,
    Happening,
    ObjectTo,
    ProcessStarted,
    Submitted,
)
from actors.simulation import SimulatedCluster
from protocols.messages.commands import Command, Create, Delete, Patch, Submit
from protocols.messages.outcomes import Done, NotFound, Outcome
from protocols.objects import Key, controller_of, decode_object, make_key, name_of, split_key, uid_of
from protocols.pods import is_active
from protocols.resources import PODS, REPLICASETS, REPLICATION_CONTROLLERS, resource_path
from runtime.embedded.store import DELETED, Change
from runtime.table import OWNER, Entry

REMEMBERED = 120.0  # seconds: a decision may rest on what the owner wanted so long ago
STRANGE = 60.0  # seconds: pods that others made are counted only once they are older
OWNERS = (REPLICASETS, REPLICATION_CONTROLLERS)


class _Own:
    """What one process has done. creates: pods made or adopted → (uid of the owner, version as answered; 0 in flight).

    deleted: uids of pods that it has deleted or released.
    """

    def __init__(self, system: ControllerSystem) -> None:
        self.system = system
        self.creates: dict[Key, tuple[str, int]] = {}
        self.deleted: set[str] = set()


class NoPodTooMany:
    """See the module."""

    name = "no pod too many, none too few"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._own: dict[str, _Own] = {}
        self._wanted: dict[str, deque[tuple[float, int]]] = {}  # uid → (until when, replicas), now's last
        self._made_at: dict[Key, float] = {}

    def see(self, happening: Happening, object_to: ObjectTo) -> None:
        now = self._clock.monotonic()
        match happening:
            case ProcessStarted(process, system):
                self._own[process] = _Own(system)
            case Committed(changes):
                for change in changes:
                    self._committed(change, now)
            case Submitted(process, _, submit):
                self._submitted(self._own[process], submit, now, object_to)
            case Answered(process, _, _, command, outcome) if command is not None:
                _answered(self._own[process], command, outcome)

    def _committed(self, change: Change, now: float) -> None:
        if change.storage == "pods":
            if change.type != DELETED:
                self._made_at.setdefault(change.key, now)
            else:
                self._made_at.pop(change.key, None)
        elif change.storage in ("replicasets.apps", "replicationcontrollers"):
            obj = decode_object(change.raw)
            replicas = (obj.get("spec") or {}).get("replicas", 1)
            known = self._wanted.setdefault(uid_of(obj), deque())
            if not known or known[-1][1] != replicas:
                if known:
                    known[-1] = (now, known[-1][1])
                known.append((float("inf"), replicas))

    def _limits(self, owner: str, now: float) -> tuple[int, int] | None:
        """The fewest and the most replicas that the owner wanted lately; None if it is unknown."""
        known = self._wanted.get(owner)
        if not known:
            return None
        lately = [replicas for until, replicas in known if until >= now - REMEMBERED]
        return min(lately), max(lately)

    def _submitted(self, own: _Own, submit: Submit, now: float, object_to: ObjectTo) -> None:
        for command in submit.commands:
            if command.resource != PODS.id:
                continue
            if isinstance(command, Create) and not command.subresource:
                self._create(own, command, now, object_to)
            elif isinstance(command, Delete) and submit.sender.startswith("controller:repl"):
                self._delete(own, command, now, object_to)

    def _create(self, own: _Own, command: Create, now: float, object_to: ObjectTo) -> None:
        pod = decode_object(command.body)
        owner = controller_of(pod)
        limits = self._limits(owner.uid, now) if owner is not None else None
        if owner is None or limits is None:
            return
        key = make_key(command.namespace, name_of(pod) or f"{len(own.creates)} without a name")
        known = self._known(own, owner.uid, now)
        if len(known | {key}) > limits[1]:
            object_to(
                f"{key} is created for {owner.kind} {owner.name}, which wants {limits[1]} at most; "
                f"its controller can know of {sorted(known)}"
            )
        own.creates[key] = (owner.uid, 0)

    def _delete(self, own: _Own, command: Delete, now: float, object_to: ObjectTo) -> None:
        entry = own.system.tables[PODS.id].get(command.key)
        owner = own.creates[command.key][0] if command.key in own.creates else ""
        if not owner and entry is not None and entry.controller is not None:
            owner = entry.controller.uid
        limits = self._limits(owner, now)
        if limits is None:
            object_to(f"{command.key} is deleted, which nobody owns who wants any number of pods")
            return
        known = self._known(own, owner, now, strangers_after=0.0)
        if command.key in known and len(known) <= limits[0]:
            object_to(f"{command.key} is deleted although its owner wants {limits[0]} and has {sorted(known)}")
        uid = command.uid or (entry.uid if entry is not None else "")
        own.deleted.add(uid)

    def _known(self, own: _Own, owner: str, now: float, *, strangers_after: float = STRANGE) -> set[Key]:
        """Active pods of this owner that the process can know of."""
        table = own.system.tables[PODS.id]
        known = set()
        for entry in table.indexed(OWNER, owner):
            strange = entry.key not in own.creates and now - self._made_at.get(entry.key, now) < strangers_after
            if is_active(entry.facts) and entry.uid not in own.deleted and not strange:
                known.add(entry.key)
        for key, (uid, version) in own.creates.items():
            if uid == owner and (version == 0 or version > table.version) and not _is_gone(own, table.get(key)):
                known.add(key)
        return known


def _is_gone(own: _Own, entry: Entry | None) -> bool:
    return entry is not None and (entry.uid in own.deleted or not is_active(entry.facts))


def _answered(own: _Own, command: Command, outcome: Outcome) -> None:
    if isinstance(command, Create) and command.resource == PODS.id and not command.subresource:
        key = make_key(command.namespace, name_of(decode_object(command.body)))
        if key not in own.creates:
            return
        if isinstance(outcome, Done):
            made = decode_object(outcome.body)
            own.creates[key] = (own.creates[key][0], int(made["metadata"]["resourceVersion"]))
        else:
            # Also without an answer: it may be there, but nobody can know.
            del own.creates[key]
    elif isinstance(command, Patch) and command.resource == PODS.id and isinstance(outcome, Done):
        pod = decode_object(outcome.body)
        owner = controller_of(pod)
        if owner is None:
            own.deleted.add(uid_of(pod))  # it was released: nobody's here
            own.creates.pop(command.key, None)
        else:
            own.deleted.discard(uid_of(pod))
            own.creates[command.key] = (owner.uid, int(pod["metadata"]["resourceVersion"]))
    elif isinstance(command, Delete) and command.resource == PODS.id:
        if isinstance(outcome, Done | NotFound):
            own.creates.pop(command.key, None)
        else:
            own.deleted.discard(command.uid or "")  # also without an answer


class DeletesWhatItSaw:
    """A deletion hits the very pod that was decided on, and not another that has taken its name since."""

    name = "a deletion hits what was seen"

    def __init__(self) -> None:
        self._seen: dict[tuple[str, Key], str] = {}  # (process, pod) → uid at the time of the decision

    def see(self, happening: Happening, object_to: ObjectTo) -> None:
        match happening:
            case Submitted(process, system, submit) if process.startswith("manager"):
                for command in submit.commands:
                    if isinstance(command, Delete) and command.resource == PODS.id:
                        entry = system.tables[PODS.id].get(command.key)
                        self._seen[process, command.key] = entry.uid if entry is not None else command.uid or ""
            case CarriedOut(process, _, request, response) if request.method == "DELETE" and response.status < 300:
                for (deleter, key), uid in self._seen.items():
                    if deleter == process and request.path == resource_path(PODS.id, *split_key(key)):
                        hit = _uid_of_answer(response.body)
                        if uid and hit and hit != uid:
                            object_to(f"{key} is deleted, and was another when that was decided")


def _uid_of_answer(body: bytes) -> str:
    """Of the object, or of what a Status says was deleted."""
    answer = decode_object(body)
    return uid_of(answer) or str((answer.get("details") or {}).get("uid") or "")
