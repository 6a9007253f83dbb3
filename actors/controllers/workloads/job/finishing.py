"""Why a Job ends: the first reason decides, and one that its conditions have is never replaced by another.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (syncJob, pastBackoffLimitOnFailure, pastActiveDeadline).
"""

from __future__ import annotations

from kcm.actors.controllers.workloads.job.conditions import (
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    condition,
)
from kcm.actors.controllers.workloads.job.observing import Observed
from kcm.actors.controllers.workloads.job.pods import restarts_in_all
from kcm.actors.controllers.workloads.job.policies import failure_verdict, success_message
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
