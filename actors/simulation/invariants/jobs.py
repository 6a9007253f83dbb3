"""Of Jobs: each pod is counted once and none is lost, and never are more of them active than may be."""

from __future__ import annotations

from actors.controllers.workloads.job.fields import FINALIZER, INDEX, is_finished
from actors.controllers.workloads.job.intervals import Indexes
from actors.simulation import SimulatedCluster
from actors.simulation.invariants.observing import Committed, Fail, Handled, Observation
from protocols.conditions import is_true
from protocols.objects import (
    Object,
    OwnerRef,
    annotations_of,
    controller_of,
    decode_object,
    finalizers_of,
    is_deleting,
    key_of,
    make_key,
    namespace_of,
    uid_of,
)
from protocols.pods import is_active, pod_facts
from protocols.resources import JOBS, PODS
from runtime.apiserver.storage.store import ADDED, DELETED, Change

JOB_STORAGE, POD_STORAGE = "jobs.batch", "pods"
ENDS = ("Succeeded", "Failed")  # phases
LISTS = (("succeeded", "succeeded"), ("failed", "failed"))  # of uncounted uids, and their counter


class EachPodCountsOnce:
    """A counter rises by as many as uids leave its list, and a uid that has left it does not come back."""

    name = "each pod of a Job counts once"
    observes = (Committed,)

    def __init__(self) -> None:
        self._counted: dict[str, set[str]] = {}  # by the Job's uid
        self._revision = 0

    def observe(self, observation: Observation, fail: Fail) -> None:
        assert isinstance(observation, Committed)
        for change in observation.changes:
            if change.revision < self._revision:
                self._counted.clear()  # the server went back: what was counted since is to be counted again
            self._revision = change.revision
            if change.storage == JOB_STORAGE and change.type != DELETED and change.previous:
                self._judge(decode_object(change.previous), decode_object(change.raw), fail)

    def _judge(self, before: Object, after: Object, fail: Fail) -> None:
        counted = self._counted.setdefault(uid_of(after), set())
        old, new = before.get("status") or {}, after.get("status") or {}
        is_indexed = after["spec"].get("completionMode") == "Indexed"
        for listed, counter in LISTS:
            were, are = _uncounted(old, listed), _uncounted(new, listed)
            again = (are - were) & counted
            if again:
                fail(f"Job {key_of(after)}: {sorted(again)} are to be counted again")
            gone = were - are
            counted |= gone
            rise = new.get(counter, 0) - old.get(counter, 0)
            if rise != len(gone) and not (is_indexed and counter == "succeeded"):
                fail(f"Job {key_of(after)}: {counter} rises by {rise}, and {len(gone)} pods were to be counted")
        if is_indexed and new.get("succeeded", 0) != _indexes(after).total:
            fail(f"Job {key_of(after)}: {new.get('succeeded', 0)} succeeded, not {new.get('completedIndexes')}")


class NoEndIsLost:
    """A pod that has ended keeps its finalizer until its Job speaks of it, or has ended by other means."""

    name = "no end of a Job's pod is lost"
    observes = (Handled,)

    def __init__(self, cluster: SimulatedCluster, *, client: str) -> None:
        self._cluster, self._client = cluster, client

    def observe(self, observation: Observation, fail: Fail) -> None:
        assert isinstance(observation, Handled)
        if observation.client != self._client:
            return
        for change in observation.changes:
            if change.storage != POD_STORAGE or not change.previous:
                continue
            before = decode_object(change.previous)
            owner = controller_of(before)
            phase = pod_facts(before).phase
            if owner is None or phase not in ENDS or FINALIZER not in finalizers_of(before):
                continue
            if change.type == DELETED or FINALIZER not in finalizers_of(decode_object(change.raw)):
                job = _job_of(self._cluster, before, owner)
                if job is not None and not _speaks_of(job, before, phase):
                    fail(f"pod {key_of(before)} has {phase.lower()}, and Job {key_of(job)} does not know of it")


class NoMoreThanMayRun:
    """Of a Job's pods no more are active, as one is created, than it was ever told to have at once."""

    name = "no more pods of a Job than may run at once"
    observes = (Committed,)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._most: dict[str, int] = {}

    def observe(self, observation: Observation, fail: Fail) -> None:
        assert isinstance(observation, Committed)
        for change in observation.changes:
            if change.storage == JOB_STORAGE:
                job = decode_object(change.raw)
                parallelism = job["spec"].get("parallelism", 1)
                self._most[uid_of(job)] = max(parallelism, self._most.get(uid_of(job), 0))
            elif change.storage == POD_STORAGE and change.type == ADDED:
                self._count(change, fail)

    def _count(self, change: Change, fail: Fail) -> None:
        pod = decode_object(change.raw)
        owner = controller_of(pod)
        most = None if owner is None else self._most.get(owner.uid)
        if owner is None or most is None:
            return
        pods = self._cluster.list(PODS, namespace_of(pod))
        active = sum(1 for one in pods if controller_of(one) == owner and is_active(pod_facts(one)))
        if active > most:
            fail(f"Job {owner.name} has {active} active pods with {key_of(pod)}, and may have {most}")


def _uncounted(status: Object, listed: str) -> set[str]:
    return set((status.get("uncountedTerminatedPods") or {}).get(listed) or ())


def _indexes(job: Object) -> Indexes:
    text = (job.get("status") or {}).get("completedIndexes") or ""
    return Indexes.parse(text, completions=2**31)


def _job_of(cluster: SimulatedCluster, pod: Object, owner: OwnerRef) -> Object | None:
    """None if it is gone, going, or ends for other reasons than its successes."""
    job = cluster.get(JOBS, make_key(namespace_of(pod), owner.name))
    if job is None or uid_of(job) != owner.uid or is_deleting(job) or is_finished(job):
        return None
    conditions = (job.get("status") or {}).get("conditions") or ()
    return None if is_true(conditions, "FailureTarget") else job


def _speaks_of(job: Object, pod: Object, phase: str) -> bool:
    status = job.get("status") or {}
    if uid_of(pod) in _uncounted(status, "succeeded") | _uncounted(status, "failed"):
        return True
    if job["spec"].get("completionMode") != "Indexed":
        return False
    index = annotations_of(pod).get(INDEX, "")
    if not index.isdecimal() or int(index) >= job["spec"]["completions"]:
        return True  # it does not count
    return phase == "Succeeded" and _indexes(job).has(int(index))
