"""Decides whether a Job finishes, and which pods to create or delete.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (syncJob, pastBackoffLimitOnFailure, pastActiveDeadline,
manageJob, activePodsForRemoval, getPodCreationInfoForIndependentIndexes), indexed_job_utils.go (firstPendingIndexes).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from kcm.actors.controllers.shared.deletion_order import deletion_order
from kcm.actors.controllers.workloads.job.backoff import Failures, index_delay
from kcm.actors.controllers.workloads.job.observed import Observed
from kcm.actors.controllers.workloads.job.pods import JobPod, total_restarts
from kcm.actors.controllers.workloads.job.policies import match_failure_policy, success_message
from kcm.actors.controllers.workloads.job.status import FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, condition
from kcm.protocols.completion_indexes import Indexes
from kcm.protocols.objects import Object


def finished_condition(job: Observed, *, started: float | None, now: float) -> Object | None:
    """Return the condition with which the Job finishes, or None if it continues.

    The result is FailureTarget or SuccessCriteriaMet, or Failed if the status already contains FailureTarget. A
    condition in the status is never replaced by another one, so that the first reason for finishing is kept.

    started: startTime in Unix seconds.
    """
    decided = _recorded(job, now)
    if decided is not None:
        return decided
    failure = _failure(job, started=started, now=now)
    if failure is not None:
        return condition(FAILURE_TARGET, *failure, now=now)
    if job.spec.is_indexed:
        message = success_message(job.spec.success_rules, job.succeeded_indexes, completions=job.spec.completions or 0)
        if message is not None:
            return condition(SUCCESS_CRITERIA_MET, "SuccessPolicy", message, now=now)
    return None


def completed(job: Observed, *, active: int, now: float) -> Object | None:
    """Return SuccessCriteriaMet if enough pods have succeeded and none is active, else None.

    active: number of active pods after the writes of this sync.
    """
    completions = job.spec.completions
    enough = job.succeeded > 0 if completions is None else job.succeeded >= completions
    if active or not enough:
        return None
    message = "Reached expected number of succeeded pods"
    return condition(SUCCESS_CRITERIA_MET, "CompletionsReached", message, now=now)


def seconds_to_deadline(job: Observed, *, started: float | None, now: float) -> float | None:
    """Return the seconds until activeDeadlineSeconds has passed; None if it is unset or the Job is suspended.

    If the clock was set back, the result is limited to activeDeadlineSeconds.
    """
    deadline = job.spec.deadline
    if deadline is None or started is None or job.spec.is_suspended:
        return None
    return min(float(deadline), deadline - (now - started))


def _recorded(job: Observed, now: float) -> Object | None:
    true = {known.get("type"): known for known in job.status.conditions if known.get("status") == "True"}
    if SUCCESS_CRITERIA_MET in true:
        return dict(true[SUCCESS_CRITERIA_MET])
    target = true.get(FAILURE_TARGET)
    if target is not None:
        return condition(FAILED, target.get("reason") or "", target.get("message") or "", now=now)
    return None


def _failure(job: Observed, *, started: float | None, now: float) -> tuple[str, str] | None:
    """Return reason and message of the condition FailureTarget if the Job fails, else None."""
    spec = job.spec
    if spec.failure_rules is not None:
        for pod in job.pods:
            if pod.has_failed(spec):
                message = match_failure_policy(spec.failure_rules, pod.object).message
                if message:
                    return "PodFailurePolicy", message
    if job.failed > spec.backoff_limit or _past_backoff_limit(job):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    left = seconds_to_deadline(job, started=started, now=now)
    if left is not None and left <= 0:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    if job.failed_indexes is None:
        return None
    failed = job.failed_indexes.total
    if spec.max_failed_indexes is not None and failed > spec.max_failed_indexes:
        return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    if failed and failed + job.succeeded_indexes.total >= (spec.completions or 0):
        return "FailedIndexes", "Job has failed indexes"
    return None


def _past_backoff_limit(job: Observed) -> bool:
    if not job.spec.restarts:
        return False
    restarts = total_restarts(job.pods)
    return restarts > 0 if job.spec.backoff_limit == 0 else restarts >= job.spec.backoff_limit


BURST = 500  # pods created or deleted in one sync


class JobPodPlan(Struct, frozen=True, kw_only=True):
    """Pods to delete or to create. A plan never contains both."""

    delete: Sequence[JobPod] = ()  # active pods
    create: int = 0  # number of pods
    indexes: Sequence[int] = ()  # their completion indexes, if the Job is Indexed
    delay: float | None = None  # seconds until pods can be created whose backoff is not over


def plan_pods(
    job: Observed, *, failures: Failures, now: float, maybe_deleted: Collection[str] = (), burst: int = BURST
) -> JobPodPlan:
    """Decide which pods to create or delete. Source: manageJob.

    maybe_deleted: uids of pods whose deletion has an unknown outcome. They are deleted first; see
    shared/unknown_outcomes.py.
    """
    active = len(job.active)
    if job.spec.is_suspended:
        return JobPodPlan(delete=_surplus(job, active))
    wanted = _wanted(job)
    surplus = _surplus(job, max(0, active - wanted), maybe_deleted)
    if surplus:
        return JobPodPlan(delete=surplus[:burst])
    missing = wanted - active - (job.terminating if job.spec.only_failed else 0)
    if missing <= 0:
        return JobPodPlan()
    if job.spec.limit_per_index is None:
        delay = failures.delay(now)
        if delay > 0:
            return JobPodPlan(delay=delay)
    missing = min(missing, burst)
    if not job.spec.is_indexed:
        return JobPodPlan(create=missing)
    return _plan_indexes(job, _pending_indexes(job, missing), now=now)


def _wanted(job: Observed) -> int:
    """Return the desired number of active pods."""
    if job.spec.completions is None:  # after the first success no pod is replaced, and the others may finish
        return len(job.active) if job.succeeded > 0 else job.spec.parallelism
    return max(0, min(job.spec.parallelism, job.spec.completions - job.succeeded))


def _surplus(job: Observed, at_least: int, maybe_deleted: Collection[str] = ()) -> list[JobPod]:
    """Return at least this number of active pods to delete. Source: activePodsForRemoval.

    For an Indexed Job the result also contains every pod without a valid index, and all but one pod of each index.
    """
    surplus: list[JobPod] = []
    others = list(job.active)
    if job.spec.is_indexed:
        surplus, others = _split_by_index(job)
    if len(surplus) < at_least:
        order = sorted(_by_deletion_order(others), key=lambda pod: pod.uid not in maybe_deleted)
        surplus += order[: at_least - len(surplus)]
    return surplus


def _split_by_index(job: Observed) -> tuple[list[JobPod], list[JobPod]]:
    """Split the active pods into surplus pods, and the one pod to keep for each valid index."""
    surplus: list[JobPod] = []
    kept: list[JobPod] = []
    for index, pods in groupby(job.active, key=lambda pod: pod.index):
        if not job.spec.has_index(index):
            surplus += pods
        else:
            *duplicates, last = _by_deletion_order(pods)
            surplus += duplicates
            kept.append(last)
    return surplus, kept


def _by_deletion_order(pods: Iterable[JobPod]) -> list[JobPod]:
    by_uid = {pod.uid: pod for pod in pods}
    return [by_uid[entry.uid] for entry in deletion_order(pod.entry for pod in by_uid.values())]


def _pending_indexes(job: Observed, count: int) -> list[int]:
    """Return the lowest `count` indexes that are unfinished and have no pod. Source: firstPendingIndexes."""
    existing = list(job.active)
    if job.spec.only_failed:
        existing += [pod for pod in job.pods if pod.is_terminating]
    taken = job.succeeded_indexes.merged(Indexes.of(pod.index for pod in existing if pod.index is not None))
    if job.failed_indexes is not None:
        taken = taken.merged(job.failed_indexes)
    return taken.first_missing(count, completions=job.spec.completions or 0)


def _plan_indexes(job: Observed, indexes: Sequence[int], *, now: float) -> JobPodPlan:
    """Plan the creation of pods for the indexes whose backoff is over.

    With backoffLimitPerIndex, each index has its own.

    Source: getPodCreationInfoForIndependentIndexes.
    """
    if job.spec.limit_per_index is None:
        return JobPodPlan(create=len(indexes), indexes=indexes)
    delays = {index: index_delay(job.delayed_deletion.get(index), now) for index in indexes}
    ready = [index for index in indexes if delays[index] <= 0]
    delayed = [delay for delay in delays.values() if delay > 0]
    return JobPodPlan(create=len(ready), indexes=ready, delay=min(delayed) if delayed and not ready else None)
