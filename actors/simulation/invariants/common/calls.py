"""Invariants of API calls: controllers make no more of them than changes in the cluster justify.

They apply to controllers that own objects (ownership.py):

- NoUnchangedWrites: a write changes the object.
- LiveReadsHaveACause: a read from the server, instead of an informer cache, has a cause.
- CallsInProportion: the number of writes is limited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kcm.actors.app.system import ControllerSystem
from kcm.actors.simulation import SimulatedCluster
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
from kcm.actors.simulation.invariants.ownership import OwnershipIndex, Owns, storage_of
from kcm.protocols.messages.commands import Get, List
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.objects import (
    Key,
    Object,
    controller_of,
    decode_object,
    metadata,
    split_key,
    uid_of,
)
from kcm.protocols.pods import is_active
from kcm.protocols.resources import PODS
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange
from kcm.runtime.faults.vocabulary import FaultKind
from kcm.runtime.tables.table import OWNER, owner_value

MIGRATOR = "storage-version-migrator-controller"  # a client


class NoUnchangedWrites:
    """Invariant: no manager writes an object without changing it.

    A PUT that is based on an older version than the server's is rejected. The only exception is the storage version
    migrator, whose patches make the server store an object in another version, if it is not stored in it already.
    """

    name = "no write without a change"
    observes = (Handled,)

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Handled) and observation.process.startswith("manager"):
            request, changes = observation.request, observation.changes
            if request.method == "PUT" and observation.response.status == 200:
                if not changes or _without_version(changes[0].raw) == _without_version(changes[0].previous):
                    fail(f"{observation.client} writes {request.path} as it is")
            # A patch with a resourceVersion succeeds only once, so it cannot be a retry whose response was lost.
            elif request.method == "PATCH" and observation.response.status == 200 and not changes:
                if b'"resourceVersion"' in request.body and observation.client != MIGRATOR:
                    fail(f"{observation.client} patches {request.path} as it is: {request.body.decode()}")


def _without_version(raw: bytes) -> Object:
    obj = decode_object(raw)
    meta = {name: value for name, value in metadata(obj).items() if name not in ("resourceVersion", "managedFields")}
    return {**obj, "metadata": meta}


class LiveReadsHaveACause:
    """Invariant: a controller reads an object from the server, instead of its cache, only for one of these causes:

    - an earlier command of the incarnation failed;
    - the cache contains objects without an owner that the owner may adopt;
    - the cache contains dependents whose owner it does not contain;
    - Owns.read_once is set for the controller, and the incarnation reads the object for the first time;
    - Owns.read_each_version is set for it, and the server has another version than the cache or the previous read.
    """

    name = "a live read has a cause"

    def __init__(self, ownership: OwnershipIndex) -> None:
        self._ownership = ownership
        self._causes: Counter[tuple[str, str]] = (
            Counter()
        )  # by process and sender: causes minus the reads that used them
        self._read_once: set[tuple[str, str, str, str]] = (
            set()
        )  # by process and sender: owners, and owners of dependents, that were read
        self._incarnations: dict[tuple[str, str], int] = {}  # by process and sender
        self._storages = {storage_of(resource): resource.id for resource in ownership.read_each_version}
        self._versions: dict[tuple[str, Key], int] = {}  # versions on the server, by resource and key
        self._read_versions: dict[
            tuple[str, str, str, Key], int
        ] = {}  # by process and sender: version that was read last
        self.observes = (
            ProcessStarted,
            only(Submitted, *ownership.senders),
            only(OutcomeReceived, *ownership.senders),
            Admitted,
            only(Committed, *self._storages),
        )

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Submitted(process, system, submit) if submit.sender in self._ownership.senders:
                for command in submit.commands:
                    if isinstance(command, Get | List) and not (
                        self._finds_orphans(system, command)
                        or self._finds_unknown_owner(system, command)
                        or self._is_first_read(process, submit.sender, command)
                        or self._reads_another_version(process, system, submit.sender, command)
                    ):
                        self._causes[process, submit.sender] -= 1
                        if self._causes[process, submit.sender] < 0:
                            fail(f"{submit.sender} reads {command} without a cause")
            case OutcomeReceived(process, _, sender, command, outcome) if sender in self._ownership.senders:
                if not isinstance(outcome, Done):
                    # The next attempt repeats a failed read, and the successful read of the owner before it.
                    self._causes[process, sender] += 2 if isinstance(command, List) else 1
            case Admitted(process, name, incarnation, lost):
                if self._incarnations.get((process, name)) == incarnation:
                    self._causes[process, name] += len(lost)
                else:
                    self._incarnations[process, name] = incarnation
                    self._forget(process, name)
            case ProcessStarted(process, _):
                for name in [name for of_process, name in self._incarnations if of_process == process]:
                    del self._incarnations[process, name]
                    self._forget(process, name)
            case Committed(changes):
                for change in changes:
                    if change.storage in self._storages:
                        version = 0 if change.type == DELETED else change.revision
                        self._versions[self._storages[change.storage], change.key] = version

    def _forget(self, process: str, name: str) -> None:
        """Drop everything recorded about the previous incarnation of an actor. name: its name."""
        del self._causes[process, name]
        self._read_once = {target for target in self._read_once if target[:2] != (process, name)}
        self._read_versions = {
            target: version for target, version in self._read_versions.items() if target[:2] != (process, name)
        }

    def _finds_orphans(self, system: ControllerSystem, command: Get | List) -> bool:
        """Report whether an owner is read while its namespace contains possible dependents without an owner."""
        dependents = self._ownership.dependents.get(command.resource)
        if dependents is None or not isinstance(command, Get):
            return False
        orphans = owner_value(namespace=split_key(command.key)[0], controller=None)
        tables = [system.tables[resource.id] for resource in dependents if resource.id in system.tables]
        return any(table.indexed(OWNER, orphans) for table in tables)  # a process may lack tables of another's trial

    def _finds_unknown_owner(self, system: ControllerSystem, command: Get | List) -> bool:
        """Report whether an owner is read whose dependents refer to another uid than the cache shows for its name."""
        owns = self._ownership.read_once.get(command.resource)
        if owns is None or not isinstance(command, Get):
            return False
        _, name = split_key(command.key)
        shown = system.tables[owns.owner.id].get(command.key)
        owners = (entry.controller for entry in system.tables[owns.dependents.id].entries())
        named = {
            owner.uid for owner in owners if owner is not None and (owner.kind, owner.name) == (owns.owner.kind, name)
        }
        return bool(named - {"" if shown is None else shown.uid})

    def _is_first_read(self, process: str, sender: str, command: Get | List) -> bool:
        """Report whether this is the incarnation's first read of an owner or its dependents (Owns.read_once)."""
        owned = self._ownership.controllers[sender].owns
        declared = [owns for owns in owned if owns.read_once]
        resources = {owns.owner.id if isinstance(command, Get) else owns.dependents.id for owns in declared}
        if command.resource not in resources:
            return False
        about = command.key if isinstance(command, Get) else f"{command.namespace} {command.label_selector}"
        target = (process, sender, command.resource, about)
        is_first = target not in self._read_once
        self._read_once.add(target)
        return is_first

    def _reads_another_version(self, process: str, system: ControllerSystem, sender: str, command: Get | List) -> bool:
        """Report whether Owns.read_each_version permits a read.

        It does if the server has another version of the object than the informer cache, or than the previous read.
        """
        declared = [owns for owns in self._ownership.controllers[sender].owns if owns.read_each_version]
        resources = {resource for owns in declared for resource in owns.resources}
        if not isinstance(command, Get) or command.resource not in resources:
            return False
        target = (process, sender, command.resource, command.key)
        entry, there = system.tables[command.resource].get(command.key), self._versions.get(target[2:], 0)
        shown = 0 if entry is None else entry.resource_version
        if there != shown:
            return True  # the table is behind: the controller may read again once it has caught up
        is_another = there != self._read_versions.get(target)
        self._read_versions[target] = there
        return is_another


class CallsInProportion:
    """Invariant: the number of writes by controllers is at most what the observed changes justify.

    Only writes that changed an object count. Each of these events justifies writes of workloads and their statuses:

    - A pod is created or deleted, or becomes ready or unready: a status of its owner, and a status of the Deployment
      that owns this owner.
    - The spec of an owner of pods changes: SET (2) statuses, at the beginning and at the end of the change.
    - The spec of a Deployment changes: DEPLOYMENT (7) writes of its ReplicaSets, its revision and its status, and
      STEP (3) writes for each pod that changes: a size and two statuses.
    - A Deployment gets a new ReplicaSet: the deletion of an old one.
    - A controller gets a new incarnation: one write of each workload.
    - Another process wrote the workload before: one write, because while a lease is stolen two leaders may see
      different states.
    - A clock jumps: JUMP (8) writes for each pod of a workload with minReadySeconds, which may become unavailable and
      available again, when the jump begins and when it ends.

    A changed spec justifies the writes of the pods that it may create or delete. A pod that others create or delete
    justifies two writes, because the controller may replace it. Each fault justifies as many creations and deletions as
    the largest workload has pods, because a controller may then act on an old state or miss an outcome.
    """

    name = "the number of writes is justified"
    observes = (Admitted, Handled, Committed)

    SET, DEPLOYMENT, STEP = 2, 7, 3
    JUMP = 2 * 2 * 2  # both ends of a jump, unavailable and available, two statuses

    def __init__(self, cluster: SimulatedCluster, ownership: OwnershipIndex) -> None:
        sized = [
            controller
            for controller in ownership.controllers.values()
            if any(owns.most_pods for owns in controller.owns)
        ]
        self._senders = frozenset(controller.sender for controller in sized)
        self._clients = frozenset(controller.client for controller in sized)
        self._owners = {
            storage_of(owns.owner): owns for controller in sized for owns in controller.owns if owns.most_pods
        }
        self._dependents = {storage_of(owns.dependents) for owns in self._owners.values()}
        self._faults = len(cluster.injector.faults)
        self._jumps = sum(fault.kind is FaultKind.CLOCK_JUMPED for fault in cluster.injector.faults)
        self._patient: dict[str, int] = {}  # maximum number of pods, by uid of workloads with minReadySeconds
        self._pending: Sequence[StoreChange] = ()
        self._rolled: set[str] = set()  # uids of ReplicaSets that belong to a Deployment
        self._objects = self._largest = 0
        self._writers: dict[str, str] = {}  # process that wrote a workload last, by uid
        self.written: Counter[str] = Counter()
        self.granted: Counter[str] = Counter()

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                self._process(self._pending, ours=False)
                self._pending = changes
            case Handled(process, client, changes=changes) if changes:
                self._pending = ()
                ours = process.startswith("manager") and client in self._clients
                self._process(changes, ours=ours)
                if ours and changes[0].storage == "pods":
                    self._written("pods", fail)
                elif ours and changes[0].storage in self._owners:  # events of the controllers do not count
                    uid = uid_of(decode_object(changes[0].raw))
                    self.granted["workloads"] += self._writers.get(uid, process) != process
                    self._writers[uid] = process
                    self._written("workloads", fail)
            case Admitted(_, name, _) if name in self._senders:
                self.granted["workloads"] += self._objects

    def _written(self, what: str, fail: Fail) -> None:
        self.written[what] += 1
        enough = self.granted[what]
        if what == "pods":
            enough += self._faults * 2 * self._largest
        else:
            enough += self._jumps * self.JUMP * sum(self._patient.values())
        if self.written[what] > enough:
            fail(f"{self.written[what]} writes of {what} changed objects, but only {enough} are justified")

    def _process(self, changes: Sequence[StoreChange], *, ours: bool) -> None:
        """Update the permitted numbers of writes. ours: whether one of the checked controllers made the changes."""
        for change in changes:
            if change.storage == "pods":
                self._pod(change, ours=ours)
            elif change.storage in self._owners:
                self._workload(change, ours=ours)

    def _pod(self, change: StoreChange, *, ours: bool) -> None:
        pod = decoded(change.raw)
        before = None if change.type == ADDED else facts_of_pod(change.previous)
        after = None if change.type == DELETED else facts_of_pod(change.raw)
        was, is_now = before is not None and is_active(before), after is not None and is_active(after)
        was_ready, is_ready = before is not None and before.ready, after is not None and after.ready
        if was != is_now or was_ready != is_ready or change.type == DELETED:
            owner = controller_of(pod)
            self.granted["workloads"] += 2 if owner is not None and owner.uid in self._rolled else 1
        if was != is_now and not ours:
            self.granted["pods"] += 2

    def _workload(self, change: StoreChange, *, ours: bool) -> None:
        after = decoded(change.raw)
        self._objects += {ADDED: 1, DELETED: -1}.get(change.type, 0)
        if change.storage in self._dependents and controller_of(after) is not None:
            self._rolled.add(uid_of(after))
            self.granted["workloads"] += change.type == ADDED
            return
        before = after if change.type in (ADDED, DELETED) else decoded(change.previous)
        same = metadata(before).get("generation") == metadata(after).get("generation")
        if ours or (same and change.type not in (ADDED, DELETED)):
            return
        owns = self._owners[change.storage]
        if after["spec"].get("minReadySeconds") and owns.most_pods is not None:
            self._patient[uid_of(after)] = max(self._patient.get(uid_of(after), 0), owns.most_pods(after))
        pods = pods_to_change(before, after, owns)
        self._largest = max(self._largest, pods)
        rolls_out = owns.dependents != PODS
        self.granted["workloads"] += self.DEPLOYMENT + self.STEP * pods if rolls_out else self.SET
        self.granted["pods"] += pods


RENEWED_BY = ("template", "ordinals")  # fields of a spec whose change may replace every pod


def pods_to_change(before: Object, after: Object, owns: Owns) -> int:
    """Return the number of writes of pods that a change of their owner justifies.

    before, after: versions of the owner; the same object if the owner was created or deleted.
    """
    most = owns.most_pods
    assert most is not None
    old, new = most(before), most(after)
    if before is after or any(before["spec"].get(field) != after["spec"].get(field) for field in RENEWED_BY):
        return old * owns.removal + new
    return new - old if new > old else (old - new) * owns.removal
