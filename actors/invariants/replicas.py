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
    LetIn,
    ObjectTo,
    ProcessStarted,
    Submitted,
)
from actors.simulation import SimulatedCluster
from protocols.messages.commands import Command, Create, Delete, Patch, Submit
from protocols.messages.outcomes import Done, NotFound, Outcome
from protocols.objects import Key, controller_of, decode_object, key_of, make_key, name_of, split_key, uid_of
from protocols.pods import is_active, pod_facts
from protocols.resources import PODS, REPLICASETS, REPLICATION_CONTROLLERS, resource_path
from runtime.embedded.store import ADDED, DELETED, Change
from runtime.simulation.faults import Kind
from runtime.table import OWNER, Entry

REMEMBERED = 120.0  # seconds: a decision may rest on what the owner wanted so long ago
UNNAMED = ", to be named by the server"
STRANGE = 60.0  # seconds: pods that others made are counted only once they are older
OWNERS = (REPLICASETS, REPLICATION_CONTROLLERS)


class Wanted:
    """How many pods each owner wanted, and until when."""

    def __init__(self) -> None:
        self._known: dict[str, deque[tuple[float, int]]] = {}  # uid → (until when, replicas), now's last

    def note(self, change: Change, now: float) -> None:
        if change.storage not in ("replicasets.apps", "replicationcontrollers"):
            return
        obj = decode_object(change.raw)
        replicas = (obj.get("spec") or {}).get("replicas", 1)
        known = self._known.setdefault(uid_of(obj), deque())
        if not known or known[-1][1] != replicas:
            if known:
                known[-1] = (now, known[-1][1])
            known.append((float("inf"), replicas))

    def limits(self, owner: str, now: float) -> tuple[int, int] | None:
        """The fewest and the most replicas that the owner wanted lately; None if it is unknown."""
        known = self._known.get(owner)
        if not known:
            return None
        lately = [replicas for until, replicas in known if until >= now - REMEMBERED]
        return min(lately), max(lately)


class _Own:
    """What one process has done. creates: pods made or adopted → (uid of the owner, version as answered; 0 in flight).

    deleted: uids of pods that it has deleted or released.
    """

    def __init__(self, system: ControllerSystem) -> None:
        self.system = system
        self.creates: dict[Key, tuple[str, int]] = {}
        self.in_flight: dict[Key, str] = {}  # creates that are not answered yet → who asked for it
        self.deleted: set[str] = set()


class NoPodTooMany:
    """See the module."""

    name = "no pod too many, none too few"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._own: dict[str, _Own] = {}
        self._wanted = Wanted()
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
            case LetIn(process, name, _):
                # What it had asked for and is not answered yet may have been lost with a mailbox.
                own = self._own[process]
                for key in [key for key, sender in own.in_flight.items() if sender == name]:
                    del own.in_flight[key], own.creates[key]

    def _committed(self, change: Change, now: float) -> None:
        if change.storage == "pods":
            if change.type != DELETED:
                self._made_at.setdefault(change.key, now)
            else:
                self._made_at.pop(change.key, None)
        self._wanted.note(change, now)

    def _submitted(self, own: _Own, submit: Submit, now: float, object_to: ObjectTo) -> None:
        for command in submit.commands:
            if command.resource != PODS.id:
                continue
            if isinstance(command, Create) and not command.subresource:
                self._create(own, submit.sender, command, now, object_to)
            elif isinstance(command, Delete) and submit.sender.startswith("controller:repl"):
                self._delete(own, command, now, object_to)

    def _create(self, own: _Own, sender: str, command: Create, now: float, object_to: ObjectTo) -> None:
        pod = decode_object(command.body)
        owner = controller_of(pod)
        limits = self._wanted.limits(owner.uid, now) if owner is not None else None
        if owner is None or limits is None:
            return
        key = make_key(command.namespace, name_of(pod) or f"{len(own.creates)}{UNNAMED}")
        known = self._known(own, owner.uid, now)
        if len(known | {key}) > limits[1]:
            object_to(
                f"{key} is created for {owner.kind} {owner.name}, which wants {limits[1]} at most; "
                f"its controller can know of {sorted(known)}"
            )
        own.creates[key], own.in_flight[key] = (owner.uid, 0), sender

    def _delete(self, own: _Own, command: Delete, now: float, object_to: ObjectTo) -> None:
        entry = own.system.tables[PODS.id].get(command.key)
        owner = own.creates[command.key][0] if command.key in own.creates else ""
        if not owner and entry is not None and entry.controller is not None:
            owner = entry.controller.uid
        limits = self._wanted.limits(owner, now)
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
        asked = decode_object(command.body)
        owner = controller_of(asked)
        key = make_key(command.namespace, name_of(asked))
        if not name_of(asked):  # one of those of its owner, whichever
            mine = (
                one for one in own.in_flight if one.endswith(UNNAMED) and owner and own.creates[one][0] == owner.uid
            )
            key = next(mine, key)
        own.in_flight.pop(key, None)
        own.creates.pop(key, None)  # also without an answer: it may be there, but nobody can know
        if isinstance(outcome, Done) and owner is not None:
            made = decode_object(outcome.body)
            own.creates[key_of(made)] = (owner.uid, int(made["metadata"]["resourceVersion"]))
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
                        shown = entry.uid if entry is not None else ""
                        self._seen[process, command.key] = command.uid or shown
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


class NeverMorePodsThanWanted:
    """What is really there: of the pods made for an owner, never more are active than it wanted lately.

    Not where a process begins with a list of the past: it cannot know what came after it.
    """

    name = "never more pods than wanted"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._excused = any(fault.kind is Kind.LIST_STALE for fault in cluster.injector.faults)
        self._wanted = Wanted()
        self._active: dict[str, set[Key]] = {}  # by the uid of the owner that they were made for
        self._made_for: dict[Key, str] = {}

    def see(self, happening: Happening, object_to: ObjectTo) -> None:
        if self._excused or not isinstance(happening, Committed):
            return
        now = self._clock.monotonic()
        for change in happening.changes:
            self._wanted.note(change, now)
            if change.storage == "pods":
                self._note(change, now, object_to)

    def _note(self, change: Change, now: float, object_to: ObjectTo) -> None:
        pod = decode_object(change.raw)
        if change.type == ADDED:
            owner = controller_of(pod)
            if owner is not None:
                self._made_for[change.key] = owner.uid
        made_for = self._made_for.get(change.key, "")
        active = self._active.setdefault(made_for, set())
        if change.type == DELETED or not is_active(pod_facts(pod)):
            active.discard(change.key)
        elif change.key not in active:
            active.add(change.key)
            limits = self._wanted.limits(made_for, now)
            if limits is not None and len(active) > limits[1]:
                object_to(f"{change.key} is one more than the {limits[1]} that are wanted: {sorted(active)}")
        if change.type == DELETED:
            self._made_for.pop(change.key, None)
