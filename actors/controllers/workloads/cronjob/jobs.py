"""Jobs of a CronJob: name, body, scheduled time and outcome.

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
    """Return the name for the minute of the slot. As it is unique, a slot cannot be started twice."""
    return f"{name_of(cron_job)}-{slot // 60}"


def job_of(cron_job: Object, template: Object, slot: int, zone: Zone) -> Object:
    """Build the Job for a slot. template: spec.jobTemplate. Source: getJobFromTemplate2."""
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
    """Return the slot that this controller created the Job for; None for other Jobs."""
    try:
        slot = int(parse_time(annotations_of(job)[SCHEDULED]))
    except (KeyError, ValueError):
        return None
    return slot if name_of(job) == job_name(cron_job, slot) else None


def end_of(job: Object) -> str:
    """Return COMPLETE, FAILED, or "" if the Job is not finished."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in (COMPLETE, FAILED) and condition.get("status") == "True":
            return str(condition["type"])
    return ""


def surplus(jobs: Sequence[Object], limit: int) -> list[Object]:
    """Return the oldest Jobs by start time, so that `limit` remain."""
    return sorted(jobs, key=_age)[: max(len(jobs) - limit, 0)]


def _age(job: Object) -> tuple[bool, float, str]:
    """Sort key: Jobs that have not started are the youngest. Source: byJobStartTime."""
    started = (job.get("status") or {}).get("startTime")
    return not started, parse_time(started) if started else 0.0, name_of(job)
