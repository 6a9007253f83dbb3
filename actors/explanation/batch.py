"""Causes of Jobs and CronJobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
    if case.spec.get("parallelism") == 0:
        return "its parallelism is 0"
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
            _limit(case),
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
    if case.spec.get("parallelism") == 0:
        yield case.cause("suspended", "the job starts no pods: spec.parallelism is 0")
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
    lines = (condition_line(failed), _limit(case)) if failed is not None else ()
    for pod in sorted(pods, key=lambda pod: metadata(pod).get("creationTimestamp") or "")[-1:]:
        for cause in case.follow(r.PODS, pod):
            yield replace(cause, evidence=(*cause.evidence, *lines, *_ignored(case, pod)))


def _limit(case: Case) -> str:
    """Return the number of retries that a job allows, for each index if it counts so."""
    per_index = case.spec.get("backoffLimitPerIndex")
    if per_index is None:
        return f"spec.backoffLimit {case.spec.get('backoffLimit')}"
    return f"spec.backoffLimitPerIndex {per_index}, status.failedIndexes {case.status.get('failedIndexes') or 'none'}"


def _ignored(case: Case, pod: Object) -> Iterator[str]:
    """Yield the rule of podFailurePolicy that ignores the failure of a pod."""
    exits = {
        (status.get("name"), end.get("exitCode"))
        for status in (pod.get("status") or {}).get("containerStatuses") or ()
        if (end := (status.get("state") or {}).get("terminated")) and end.get("exitCode")
    }
    for rule in (case.spec.get("podFailurePolicy") or {}).get("rules") or ():
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
        if codes:
            container, values = codes.get("containerName"), codes.get("values") or ()
            is_in = codes.get("operator") == "In"
            found = [code for name, code in exits if container in (None, name) and (code in values) is is_in]
            text = f"exit code {found[0]}" if found else ""
        else:
            kinds = [rule.get("type") for rule in conditions if _has_condition(pod, rule)]
            text = f"pods with the condition {kinds[0]}" if kinds else ""
        if text:  # only the first rule that matches applies
            if rule.get("action") == "Ignore":
                yield f"podFailurePolicy ignores {text}: the failure does not count towards backoffLimit"
            return


def _has_condition(pod: Object, rule: Mapping[str, Any]) -> bool:
    found = find_condition((pod.get("status") or {}).get("conditions"), rule.get("type") or "")
    return found is not None and found.get("status") == (rule.get("status") or "True")


def _retries(case: Case, own: Sequence[Object]) -> Iterator[Cause]:
    failed = case.status.get("failed") or 0
    ignored = sum(_phase(pod) == "Failed" and any(_ignored(case, pod)) for pod in own)
    if not failed and not ignored:
        return
    yield from _failed_pods(case, own)
    yield case.cause(
        "failing-pods-backoff",
        f"{failed + ignored} pods have failed, and the next one is created with delay, up to {_limit(case)}",
        f"status.failed {failed}" + (f", and {ignored} failures are ignored by podFailurePolicy" if ignored else ""),
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


def _started(job: Object) -> str:
    return str((job.get("status") or {}).get("startTime") or metadata(job).get("creationTimestamp"))


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
            *(f"job {name_of(job)} is active since {_started(job)}" for job in active[:MOST_FOLLOWED]),
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
