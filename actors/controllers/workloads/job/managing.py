"""Which pods a Job is to have: those to remove, or else those to create. Never both in one sync.

Source: kubernetes v1.36 pkg/controller/job (manageJob, activePodsForRemoval, firstPendingIndexes,
getPodCreationInfoForIndependentIndexes).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from kcm.actors.controllers.shared.deletion_order import deletion_order
from kcm.actors.controllers.workloads.job.backoff import Failures, index_wait
from kcm.actors.controllers.workloads.job.intervals import Indexes
from kcm.actors.controllers.workloads.job.observing import Observed
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.protocols.late_methods import dataclass

BURST = 500  # pods created or removed in one sync


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """remove: active pods. create: how many; indexes: theirs, where pods have some. wait: seconds after which pods can
    be created that may not be now.
    """

    remove: Sequence[JobPod] = ()
    create: int = 0
    indexes: Sequence[int] = ()
    wait: float | None = None


def plan_pods(
    job: Observed, *, failures: Failures, now: float, doomed: Collection[str] = (), burst: int = BURST
) -> PodPlan:
    """doomed: uids of those that may be gone already: they go first, or others would go beside them."""
    active = len(job.active)
    if job.spec.is_suspended:
        return PodPlan(remove=_surplus(job, active))
    wanted = _wanted(job)
    remove = _surplus(job, max(0, active - wanted), doomed)
    if remove:
        return PodPlan(remove=remove[:burst])
    missing = wanted - active - (job.terminating if job.spec.only_failed else 0)
    if missing <= 0:
        return PodPlan()
    if job.spec.limit_per_index is None:
        wait = failures.wait(now)
        if wait > 0:
            return PodPlan(wait=wait)
    missing = min(missing, burst)
    if not job.spec.is_indexed:
        return PodPlan(create=missing)
    return _plan_indexes(job, _pending_indexes(job, missing), now=now)


def _wanted(job: Observed) -> int:
    """How many pods are to be active."""
    if job.spec.completions is None:  # any success is enough, and the others may finish
        return len(job.active) if job.succeeded > 0 else job.spec.parallelism
    return max(0, min(job.spec.parallelism, job.spec.completions - job.succeeded))


def _surplus(job: Observed, at_least: int, doomed: Collection[str] = ()) -> list[JobPod]:
    """So many, and with indexes at least those that have no valid one, or one that another pod has as well."""
    remove: list[JobPod] = []
    left = list(job.active)
    if job.spec.is_indexed:
        remove, left = _misplaced(job)
    if len(remove) < at_least:
        order = sorted(_in_order_of_removal(left), key=lambda pod: pod.uid not in doomed)
        remove += order[: at_least - len(remove)]
    return remove


def _misplaced(job: Observed) -> tuple[list[JobPod], list[JobPod]]:
    """Those to remove, and those that are left."""
    remove: list[JobPod] = []
    left: list[JobPod] = []
    for index, same in groupby(job.active, key=lambda pod: pod.index):
        if not job.spec.has_index(index):
            remove += same
        else:
            *others, last = _in_order_of_removal(same)
            remove += others
            left.append(last)
    return remove, left


def _in_order_of_removal(pods: Iterable[JobPod]) -> list[JobPod]:
    by_uid = {pod.uid: pod for pod in pods}
    return [by_uid[entry.uid] for entry in deletion_order(pod.entry for pod in by_uid.values())]


def _pending_indexes(job: Observed, count: int) -> list[int]:
    """The first ones that have neither succeeded nor failed, nor have a pod."""
    there = list(job.active)
    if job.spec.only_failed:
        there += [pod for pod in job.pods if pod.is_terminating]
    taken = job.succeeded_indexes.merged(Indexes.of(pod.index for pod in there if pod.index is not None))
    if job.failed_indexes is not None:
        taken = taken.merged(job.failed_indexes)
    return taken.first_missing(count, completions=job.spec.completions or 0)


def _plan_indexes(job: Observed, indexes: Sequence[int], *, now: float) -> PodPlan:
    """Those whose backoff is over; each has its own if it may fail by itself."""
    if job.spec.limit_per_index is None:
        return PodPlan(create=len(indexes), indexes=indexes)
    waits = {index: index_wait(job.kept.get(index), now) for index in indexes}
    ready = [index for index in indexes if waits[index] <= 0]
    waiting = [wait for wait in waits.values() if wait > 0]
    return PodPlan(create=len(ready), indexes=ready, wait=min(waiting) if waiting and not ready else None)
