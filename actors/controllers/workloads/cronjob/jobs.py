"""Construction of the Jobs of a CronJob, and access to their slot (scheduled time) and result.

Source: kubernetes v1.36 pkg/controller/cronjob/utils.go (getJobFromTemplate2, byJobStartTime), pkg/controller/job/util.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcm.actors.reconciliation import own
from kcm.protocols.objects import Object, annotations_of, name_of, namespace_of
from kcm.protocols.resources import CRONJOBS
from kcm.protocols.times import parse_time
from kcm.runtime.scheduling.time_zones import Zone, format_in_zone

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
COMPLETE, FAILED = "Complete", "Failed"


def job_name(cron_job: Object, slot: int) -> str:
    """Return the name of the Job for a slot: the CronJob's name and the slot in minutes since 1970.

    The name is the same in each attempt, so the API server rejects a second Job for a slot.

    slot: Unix seconds.
    """
    return f"{name_of(cron_job)}-{slot // 60}"


def new_job(cron_job: Object, template: Object, slot: int, zone: Zone) -> Object:
    """Build the Job for a slot (scheduled time).

    template: spec.jobTemplate of the CronJob
    slot: Unix seconds
    zone: time zone of the annotation with the scheduled time

    Source: getJobFromTemplate2.
    """
    meta = template.get("metadata") or {}
    annotations = {**(meta.get("annotations") or {}), SCHEDULED: format_in_zone(zone, slot)}
    job_meta: Object = {
        "name": job_name(cron_job, slot),
        "namespace": namespace_of(cron_job),
        "annotations": annotations,
    }
    if meta.get("labels"):
        job_meta["labels"] = meta["labels"]
    return own({"metadata": job_meta, "spec": template.get("spec") or {}}, by=cron_job, of=CRONJOBS)


def slot_of(job: Object, cron_job: Object) -> int | None:
    """Return the slot (scheduled time in Unix seconds) that this controller created the Job for.

    None if name and annotation show that the controller did not create the Job.
    """
    try:
        slot = int(parse_time(annotations_of(job)[SCHEDULED]))
    except (KeyError, ValueError):
        return None
    return slot if name_of(job) == job_name(cron_job, slot) else None


def finished_type(job: Object) -> str:
    """Return the type of the Job's condition that is True, COMPLETE or FAILED; "" if the Job is not finished."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in (COMPLETE, FAILED) and condition.get("status") == "True":
            return str(condition["type"])
    return ""


def surplus_jobs(jobs: Sequence[Object], limit: int) -> list[Object]:
    """Return the Jobs to delete: the oldest by start time, so that at most `limit` Jobs remain."""
    return sorted(jobs, key=_age)[: max(len(jobs) - limit, 0)]


def _age(job: Object) -> tuple[bool, float, str]:
    """Return a sort key that orders Jobs by start time. Jobs that have not started are last. Source: byJobStartTime."""
    started = (job.get("status") or {}).get("startTime")
    return not started, parse_time(started) if started else 0.0, name_of(job)
