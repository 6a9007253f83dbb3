"""Decisions of a sync: whether the Job ends, and which pods to delete or to create.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (syncJob, pastBackoffLimitOnFailure, pastActiveDeadline,
manageJob, activePodsForRemoval, getPodCreationInfoForIndependentIndexes), indexed_job_utils.go (firstPendingIndexes).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from kcm.actors.controllers.shared.deletion_order import deletion_order
from kcm.actors.controllers.workloads.job.backoff import Failures, index_wait
from kcm.actors.controllers.workloads.job.observed import Observed
from kcm.actors.controllers.workloads.job.pods import JobPod, restarts_in_all
from kcm.actors.controllers.workloads.job.policies import failure_verdict, success_message
from kcm.actors.controllers.workloads.job.status import FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, condition
from kcm.protocols.completion_indexes import Indexes
from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Object


def end_of(job: Observed, *, started: float | None, now: float) -> Object | None:
    """The condition with which it ends, None while it goes on: FailureTarget, SuccessCriteriaMet, or Failed where the
    status has FailureTarget.

    started: Unix seconds since when it is active.
    """
    decided = _decided(job, now)
    if decided is not None:
        return decided
    why = _why_it_fails(job, started=started, now=now)
    if why is not None:
        return condition(FAILURE_TARGET, *why, now=now)
    if job.spec.is_indexed:
        message = success_message(job.spec.success_rules, job.succeeded_indexes, completions=job.spec.completions or 0)
        if message is not None:
            return condition(SUCCESS_CRITERIA_MET, "SuccessPolicy", message, now=now)
    return None


def completed(job: Observed, *, active: int, now: float) -> Object | None:
    """The condition with which it ends as enough pods have succeeded. active: its active pods now."""
    completions = job.spec.completions
    enough = job.succeeded > 0 if completions is None else job.succeeded >= completions
    if active or not enough:
        return None
    message = "Reached expected number of succeeded pods"
    return condition(SUCCESS_CRITERIA_MET, "CompletionsReached", message, now=now)


def seconds_to_deadline(job: Observed, *, started: float | None, now: float) -> float | None:
    """None without a deadline, or while it is suspended. By a clock that was set back it is the whole time."""
    deadline = job.spec.deadline
    if deadline is None or started is None or job.spec.is_suspended:
        return None
    return min(float(deadline), deadline - (now - started))


def _decided(job: Observed, now: float) -> Object | None:
    said = {one.get("type"): one for one in job.status.conditions if one.get("status") == "True"}
    if SUCCESS_CRITERIA_MET in said:
        return dict(said[SUCCESS_CRITERIA_MET])
    target = said.get(FAILURE_TARGET)
    if target is not None:
        return condition(FAILED, target.get("reason") or "", target.get("message") or "", now=now)
    return None


def _why_it_fails(job: Observed, *, started: float | None, now: float) -> tuple[str, str] | None:
    """Reason and message."""
    spec = job.spec
    if spec.failure_rules is not None:
        for pod in job.pods:
            if pod.has_failed(spec):
                why = failure_verdict(spec.failure_rules, pod.object).why
                if why:
                    return "PodFailurePolicy", why
    if job.failed > spec.backoff_limit or _restarts_too_often(job):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    left = seconds_to_deadline(job, started=started, now=now)
    if left is not None and left <= 0:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    if job.failed_indexes is None:
        return None
    failed = job.failed_indexes.total
    if spec.most_failed_indexes is not None and failed > spec.most_failed_indexes:
        return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    if failed and failed + job.succeeded_indexes.total >= (spec.completions or 0):
        return "FailedIndexes", "Job has failed indexes"
    return None


def _restarts_too_often(job: Observed) -> bool:
    if not job.spec.restarts:
        return False
    restarts = restarts_in_all(job.pods)
    return restarts > 0 if job.spec.backoff_limit == 0 else restarts >= job.spec.backoff_limit


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
