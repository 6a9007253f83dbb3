"""Invariants of Jobs: each finished pod is counted exactly once, and parallelism is not exceeded."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.workloads.job.fields import FINALIZER, INDEX
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
from kcm.protocols.completion_indexes import Indexes
from kcm.protocols.conditions import is_true
from kcm.protocols.jobs import is_finished
from kcm.protocols.messages.commands import Create, Submit
from kcm.protocols.objects import (
    Key,
    Object,
    OwnerRef,
    annotations_of,
    controller_of,
    decode_object,
    finalizers_of,
    is_deleting,
    key_of,
    make_key,
    name_of,
    namespace_of,
    uid_of,
)
from kcm.protocols.pods import is_active
from kcm.protocols.resources import JOBS, PODS
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange

JOB_STORAGE, POD_STORAGE = "jobs.batch", "pods"
ENDS = ("Succeeded", "Failed")  # phases
# Lists in status.uncountedTerminatedPods, and the counters of the status that they belong to.
LISTS = (("succeeded", "succeeded"), ("failed", "failed"))


class EachPodCountsOnce:
    """Invariant: the status of a Job counts each finished pod exactly once.

    The uid of a finished pod is first in status.uncountedTerminatedPods. Each counter must increase by the number of
    uids that leave its list, and a uid that has left a list must not be added again.
    """

    name = "each pod of a Job counts once"
    observes = (Committed,)

    def __init__(self) -> None:
        self._counted: dict[
            str, dict[str, int]
        ] = {}  # by uid of the Job and of the pod: revision at which it was counted
        self._revision = 0

    def observe(self, observation: Observation, fail: Fail) -> None:
        assert isinstance(observation, Committed)
        for change in observation.changes:
            if change.revision <= self._revision:
                self._go_back(change.revision)
            self._revision = change.revision
            if change.storage == JOB_STORAGE and change.type != DELETED and change.previous:
                self._check(decoded(change.previous), decoded(change.raw), change.revision, fail)

    def _go_back(self, revision: int) -> None:
        """Discard the pods that were counted from this revision on, because the server has lost these revisions."""
        for job, counted in self._counted.items():
            self._counted[job] = {uid: counted_at for uid, counted_at in counted.items() if counted_at < revision}

    def _check(self, before: Object, after: Object, revision: int, fail: Fail) -> None:
        counted = self._counted.setdefault(uid_of(after), {})
        old, new = before.get("status") or {}, after.get("status") or {}
        is_indexed = after["spec"].get("completionMode") == "Indexed"
        for listed, counter in LISTS:
            were, are = _uncounted(old, listed), _uncounted(new, listed)
            again = (are - were) & counted.keys()
            if again:
                fail(f"Job {key_of(after)}: {sorted(again)} would be counted again")
            gone = were - are
            counted.update(dict.fromkeys(gone, revision))
            rise = new.get(counter, 0) - old.get(counter, 0)
            if rise != len(gone) and not (is_indexed and counter == "succeeded"):
                fail(f"Job {key_of(after)}: {counter} rises by {rise} instead of {len(gone)}")
        if is_indexed and new.get("succeeded", 0) != _indexes(after).total:
            fail(f"Job {key_of(after)}: {new.get('succeeded', 0)} succeeded, not {new.get('completedIndexes')}")


class FinishedPodsAreCounted:
    """Invariant: a finished pod keeps its finalizer until the status of its Job counts it, or the Job has finished."""

    name = "finished pods of a Job are counted"

    def __init__(self, cluster: SimulatedCluster, *, client: str) -> None:
        self._cluster, self._client = cluster, client
        self.observes = (only(Handled, client),)

    def observe(self, observation: Observation, fail: Fail) -> None:
        assert isinstance(observation, Handled)
        if observation.client != self._client:
            return
        for change in observation.changes:
            if change.storage != POD_STORAGE or not change.previous:
                continue
            before = decoded(change.previous)
            owner = controller_of(before)
            phase = facts_of_pod(change.previous).phase
            if owner is None or phase not in ENDS or FINALIZER not in finalizers_of(before):
                continue
            if change.type == DELETED or FINALIZER not in finalizers_of(decoded(change.raw)):
                job = _job_of(self._cluster, before, owner)
                if job is not None and not _is_counted(job, before, phase):
                    fail(f"pod {key_of(before)} loses its finalizer, but Job {key_of(job)} has not counted it")


class _Decision(NamedTuple):
    """Decision to create a pod, and the state that the process had observed at the beginning of its sync.

    start: number of starts of the process, including the present one.
    version: version that its informer cache of Jobs had reached.
    created: number of pods created on the server so far.
    """

    process: str
    start: int
    version: int
    created: int


class _Pod(NamedTuple):
    """Active pod of a Job.

    created: number of pods created on the server so far, including this one; 0 if unknown.
    decision: decision of the controller to create the pod; None if the controller did not create it.
    """

    owner: str  # uid
    created: int
    decision: _Decision | None


class ParallelismIsNotExceeded:
    """Invariant: the controller creates no more active pods of a Job than its parallelism permits.

    The limit is the highest parallelism since the version that the controller's informer cache had reached when its
    sync began. Pods that another process has created since then do not count, because the controller could not observe
    them.
    """

    name = "the parallelism of a Job is not exceeded"

    def __init__(self, cluster: SimulatedCluster, *, sender: str) -> None:
        self._sender = sender
        self._most: ValueHistory[int] = ValueHistory()  # parallelism, by the Job's uid
        self._active: dict[str, _Pod] = {}  # active pods by uid
        self._decisions: dict[Key, _Decision] = {}  # by the pod's key
        self._starts: Counter[str] = Counter()  # number of starts, by process
        self._created = 0  # number of pods created on the server
        self._syncs: InferredSyncs[tuple[int, int]] = InferredSyncs(cluster)
        self.observes = (
            ProcessStarted,
            only(Submitted, sender),
            only(OutcomeReceived, sender),
            only(Admitted, sender),
            only(Committed, JOB_STORAGE, POD_STORAGE),
        )

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process):
                self._starts[process] += 1
                self._syncs.started(process)
            case Submitted(process, system, submit) if submit.sender == self._sender:
                self._decide(process, system, submit)
            case OutcomeReceived(sender=sender, command=command) if sender == self._sender and command is not None:
                self._syncs.settled(command)
            case Admitted(name=name) if name == self._sender:
                self._syncs.admitted(*observation)
            case Committed(changes):
                for change in changes:
                    if change.storage == JOB_STORAGE:
                        job = decoded(change.raw)
                        self._most.note(uid_of(job), change.revision, job["spec"].get("parallelism", 1))
                    elif change.storage == POD_STORAGE:
                        self._note(change, fail)

    def _decide(self, process: str, system: ControllerSystem, submit: Submit) -> None:
        version, created = self._syncs.submitted(
            process, submit.sender, submit.key, submit.commands, lambda: (system.tables[JOBS.id].version, self._created)
        )
        decision = _Decision(process, self._starts[process], version, created)
        for command in submit.commands:
            if isinstance(command, Create) and command.resource == PODS.id:
                self._decisions[make_key(command.namespace, name_of(decode_object(command.body)))] = decision

    def _note(self, change: StoreChange, fail: Fail) -> None:
        pod = decoded(change.raw)
        uid, owner = uid_of(pod), controller_of(pod)
        known = self._active.pop(uid, None)
        self._created += change.type == ADDED
        is_gone = change.type == DELETED or not is_active(facts_of_pod(change.raw))
        if is_gone or owner is None or owner.kind != JOBS.kind:
            return
        if change.type == ADDED:
            known = _Pod(owner.uid, self._created, self._decisions.get(change.key))
        self._active[uid] = _Pod(owner.uid, 0, None) if known is None else known._replace(owner=owner.uid)
        if change.type == ADDED and known is not None and known.decision is not None:
            self._check(change, known, known.decision, fail)

    def _check(self, change: StoreChange, made: _Pod, decision: _Decision, fail: Fail) -> None:
        limits = self._most.between(made.owner, decision.version, change.revision)
        active = [pod for pod in self._active.values() if pod.owner == made.owner and not _is_unforeseen(pod, decision)]
        if limits and len(active) > max(limits):
            fail(f"a Job has {len(active)} active pods after the creation of {change.key}, its limit is {max(limits)}")


def _is_unforeseen(pod: _Pod, decision: _Decision) -> bool:
    """Report whether another process created the pod too late for the deciding process to observe it."""
    if pod.decision is None or pod.created <= decision.created:
        return False
    return (pod.decision.process, pod.decision.start) != (decision.process, decision.start)


def _uncounted(status: Object, listed: str) -> set[str]:
    return set((status.get("uncountedTerminatedPods") or {}).get(listed) or ())


def _indexes(job: Object) -> Indexes:
    text = (job.get("status") or {}).get("completedIndexes") or ""
    return Indexes.parse(text, completions=2**31)


def _job_of(cluster: SimulatedCluster, pod: Object, owner: OwnerRef) -> Object | None:
    """Return the Job of a pod; None if the Job is deleted, terminating or finished, or is about to fail."""
    job = cluster.get(JOBS, make_key(namespace_of(pod), owner.name))
    if job is None or uid_of(job) != owner.uid or is_deleting(job) or is_finished(job):
        return None
    conditions = (job.get("status") or {}).get("conditions") or ()
    return None if is_true(conditions, "FailureTarget") else job


def _is_counted(job: Object, pod: Object, phase: str) -> bool:
    status = job.get("status") or {}
    if uid_of(pod) in _uncounted(status, "succeeded") | _uncounted(status, "failed"):
        return True
    if job["spec"].get("completionMode") != "Indexed":
        return False
    index = annotations_of(pod).get(INDEX, "")
    if not index.isdecimal() or int(index) >= job["spec"]["completions"]:
        return True  # the pod does not count
    return phase == "Succeeded" and _indexes(job).has(int(index))
