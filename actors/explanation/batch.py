"""Causes of Jobs and CronJobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kcm.actors.controllers.workloads.cronjob.fields import cron_job_spec
from kcm.actors.controllers.workloads.cronjob.schedules import schedule_of
from kcm.actors.controllers.workloads.cronjob.slots import unhandled_since
from kcm.actors.explanation.case import MOST_FOLLOWED, Case, condition_line, event_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.workloads import failed_create, troubled_pods
from kcm.protocols import resources as r
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, metadata, name_of
from kcm.protocols.times import format_time
from kcm.runtime.scheduling.cron_schedules import ScheduleError
from kcm.runtime.scheduling.time_zones import UnknownZoneError, local_zone

JOB_CONTROLLER = "kubernetes.io/job-controller"  # the default of spec.managedBy
LATE = 30.0  # seconds after which a slot of a schedule counts as missed


# Jobs.


def job_pending(case: Case) -> str:
    if case.condition_is("Complete", "True") is not None:
        return ""
    failed = case.condition_is("Failed", "True") or case.condition_is("FailureTarget", "True")
    if failed is not None:
        return f"the job has failed: {failed.get('reason')}"
    if case.condition_is("SuccessCriteriaMet", "True") is not None:
        return ""
    if case.spec.get("suspend"):
        return "it is suspended"
    active, ready = case.status.get("active") or 0, case.status.get("ready") or 0
    if not case.status.get("startTime"):
        return "it has not been started"
    if not active:
        return "it has no active pod"
    return f"{ready} of {active} active pods are ready" if ready < active else ""


def job_causes(case: Case) -> Iterator[Cause]:
    if not job_pending(case):
        return
    failed = case.condition_is("Failed", "True") or case.condition_is("FailureTarget", "True")
    own = case.evidence.owned(case.obj, r.PODS)
    if failed is not None:
        if failed.get("reason") == "DeadlineExceeded":
            yield case.cause(
                "job-deadline",
                f"the job was active for longer than activeDeadlineSeconds ({case.spec.get('activeDeadlineSeconds')})",
                condition_line(failed),
                since=failed.get("lastTransitionTime"),
            )
            return
        yield from _failed_pods(case, own)
        yield case.cause(
            "job-failed",
            f"the job has failed and is not retried: {failed.get('message') or failed.get('reason')}",
            condition_line(failed),
            since=failed.get("lastTransitionTime"),
        )
        return
    manager = case.spec.get("managedBy")
    if manager and manager != JOB_CONTROLLER:
        yield case.cause("managed-elsewhere", f"the job is left to another controller: spec.managedBy {manager}")
        return
    if case.spec.get("suspend"):
        condition = case.condition_is("Suspended", "True")
        since = (condition or {}).get("lastTransitionTime")
        yield case.cause("suspended", "the job is suspended: spec.suspend", condition_line(condition), since=since)
        return
    yield from failed_create(case)
    active = [pod for pod in own if _phase(pod) != "Failed"]
    yield from troubled_pods(case, active)
    if not active:
        yield from _retries(case, own)


def _phase(pod: Object) -> str:
    return (pod.get("status") or {}).get("phase") or ""


def _failed_pods(case: Case, own: Sequence[Object]) -> Iterator[Cause]:
    """Yield why the newest failed pod failed, with what the job concludes from it."""
    pods = [pod for pod in own if _phase(pod) == "Failed"]
    failed = case.condition_is("Failed", "True") or case.condition_is("FailureTarget", "True")
    lines = (condition_line(failed), f"spec.backoffLimit {case.spec.get('backoffLimit')}") if failed is not None else ()
    for pod in sorted(pods, key=lambda pod: metadata(pod).get("creationTimestamp") or "")[-1:]:
        for cause in case.follow(r.PODS, pod):
            yield replace(cause, evidence=(*cause.evidence, *lines))


def _retries(case: Case, own: Sequence[Object]) -> Iterator[Cause]:
    failed = case.status.get("failed") or 0
    if not failed:
        return
    yield from _failed_pods(case, own)
    limit = case.spec.get("backoffLimit")
    yield case.cause(
        "failing-pods-backoff",
        f"{failed} pods have failed, and the next one is created with delay, up to backoffLimit {limit}",
        f"status.failed {failed}",
    )


# CronJobs.


def cronjob_pending(case: Case) -> str:
    if case.spec.get("suspend"):
        return "it is suspended"
    overdue = _overdue(case)
    if overdue:
        return overdue
    last = _last_job(case)
    if last is not None and find_condition((last.get("status") or {}).get("conditions"), "Failed") is not None:
        return f"its last job {name_of(last)} has failed"
    return ""


def _overdue(case: Case) -> str:
    """Return which slot of the schedule has passed without a Job, or why there is none; "" if none is overdue."""
    slot, problem = _slot(case)
    if problem:
        return problem
    if slot is None or (case.now - slot < LATE and not _has_skipped(case)):
        return ""
    return f"the slot of {format_time(slot)} has not been started"


def _has_skipped(case: Case) -> bool:
    """Report whether an earlier slot was skipped for a job that is still active, however new the latest slot is."""
    forbids = case.spec.get("concurrencyPolicy") == "Forbid"
    return forbids and case.event("JobAlreadyActive") is not None and bool(_active(case))


def _slot(case: Case) -> tuple[float | None, str]:
    """Return (first slot that was not handled, problem of the schedule)."""
    try:
        slot = schedule_of(cron_job_spec(case.obj), local_zone()).next(unhandled_since(case.obj))
        if slot is None:
            return None, "its schedule has no time within five years"
    except (ScheduleError, UnknownZoneError, ValueError) as err:
        return None, f"its schedule cannot be used: {err}"
    return (None if slot > case.now else slot), ""


def cronjob_causes(case: Case) -> Iterator[Cause]:
    if case.spec.get("suspend"):
        yield case.cause("suspended", "no job is started: spec.suspend", since=None)
        return
    slot, problem = _slot(case)
    if problem:
        invalid = case.event("InvalidSchedule", "UnknownTimeZone", "UnparseableSchedule")
        yield case.cause("schedule-invalid", problem, f"spec.schedule {case.spec.get('schedule')}", event_line(invalid))
        return
    if _overdue(case) and slot is not None:
        yield from _missed(case, slot)
        return
    last = _last_job(case)
    if last is not None:
        yield from case.follow(r.JOBS, last)


def _active(case: Case) -> list[Object]:
    names = {reference.get("name") for reference in case.status.get("active") or ()}
    return [job for job in case.evidence.owned(case.obj, r.JOBS) if name_of(job) in names]


def _last_job(case: Case) -> Object | None:
    jobs = case.evidence.owned(case.obj, r.JOBS)
    return max(jobs, key=lambda job: metadata(job).get("creationTimestamp") or "", default=None)


def _missed(case: Case, slot: float) -> Iterator[Cause]:
    active = _active(case)
    if active and case.spec.get("concurrencyPolicy") == "Forbid":
        for job in active[:MOST_FOLLOWED]:
            yield from case.follow(r.JOBS, job)
        yield case.cause(
            "concurrency-forbids",
            f"the slot of {format_time(slot)} waits until {name_of(active[0])} has finished: concurrencyPolicy Forbid",
            event_line(case.event("JobAlreadyActive")),
            since=slot,
        )
        return
    failures = list(failed_create(case))
    yield from failures
    deadline = case.spec.get("startingDeadlineSeconds")
    if not failures and deadline is not None and case.now - slot > deadline:
        yield case.cause(
            "schedule-missed",
            f"the slot of {format_time(slot)} was not started within startingDeadlineSeconds ({deadline})",
            event_line(case.event("MissSchedule", "TooManyMissedTimes")),
            since=slot,
        )
