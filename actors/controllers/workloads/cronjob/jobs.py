"""The Jobs of a CronJob: their names and forms, and how they have ended.

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
    """One for each minute: it is the lock that keeps a slot from being started twice."""
    return f"{name_of(cron_job)}-{slot // 60}"


def job_of(cron_job: Object, slot: int, zone: Zone) -> Object:
    template = cron_job["spec"].get("jobTemplate") or {}
    meta = template.get("metadata") or {}
    annotations = {**(meta.get("annotations") or {}), SCHEDULED: format_in_zone(zone, slot)}
    made: Object = {"name": job_name(cron_job, slot), "namespace": namespace_of(cron_job), "annotations": annotations}
    if meta.get("labels"):
        made["labels"] = meta["labels"]
    return own({"metadata": made, "spec": template.get("spec") or {}}, by=cron_job, of=CRONJOBS)


def slot_of(job: Object, cron_job: Object) -> int | None:
    """The slot that the controller started this Job for; None if somebody else made it."""
    try:
        slot = int(parse_time(annotations_of(job)[SCHEDULED]))
    except (KeyError, ValueError):
        return None
    return slot if name_of(job) == job_name(cron_job, slot) else None


def end_of(job: Object) -> str:
    """COMPLETE, FAILED, or "" of one that has not ended."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in (COMPLETE, FAILED) and condition.get("status") == "True":
            return str(condition["type"])
    return ""


def surplus(jobs: Sequence[Object], limit: int) -> list[Object]:
    """The oldest of these, by when they started, so that `limit` stay."""
    return sorted(jobs, key=_age)[: max(len(jobs) - limit, 0)]


def _age(job: Object) -> tuple[bool, float, str]:
    """Those that never started are the youngest."""
    started = (job.get("status") or {}).get("startTime")
    return not started, parse_time(started) if started else 0.0, name_of(job)
