"""Parsing of the spec of a CronJob, and type checks of the fields of CronJobs and Jobs that the controller reads.

Source: kubernetes v1.36 staging/src/k8s.io/api/batch/v1/types.go.
"""

from __future__ import annotations

from msgspec import Struct

from kcm.protocols.field_types import COUNT, FLAG, MAP, TEXT, TIME, CompiledShape, check
from kcm.protocols.objects import Object, key_of

_CRON_JOB = CompiledShape(
    {
        "spec": {
            "schedule": TEXT,
            "timeZone": TEXT,
            "suspend": FLAG,
            "concurrencyPolicy": TEXT,
            "startingDeadlineSeconds": COUNT,
            "successfulJobsHistoryLimit": COUNT,
            "failedJobsHistoryLimit": COUNT,
            "jobTemplate": {"metadata": {"labels": MAP, "annotations": MAP}, "spec": MAP},
        },
        "status": {
            "active": [{"namespace": TEXT, "name": TEXT, "uid": TEXT}],
            "lastScheduleTime": TIME,
            "lastSuccessfulTime": TIME,
        },
    }
)
_JOB = CompiledShape(
    {
        "metadata": {"annotations": MAP},
        "status": {"conditions": [{"type": TEXT, "status": TEXT}], "startTime": TIME, "completionTime": TIME},
    }
)


class CronJobSpec(Struct, frozen=True, kw_only=True):
    """Parsed spec of a CronJob."""

    schedule: str
    time_zone: str | None
    is_suspended: bool
    concurrency_policy: str | None
    deadline: int | None  # startingDeadlineSeconds
    successful_limit: int | None  # successfulJobsHistoryLimit; None keeps all Jobs
    failed_limit: int | None
    template: Object

    @property
    def names_zone(self) -> bool:
        """Report whether the schedule contains a time zone (TZ= or CRON_TZ=), which is not officially supported."""
        return "TZ" in self.schedule


def cron_job_spec(cron_job: Object) -> CronJobSpec:
    """Parse the spec of a CronJob, and check the status fields that are read.

    Raises ValueError, whose text contains the path of a missing or malformed field.
    """
    check(cron_job, _CRON_JOB)
    spec = cron_job.get("spec") or {}
    if spec.get("schedule") is None:
        raise ValueError("spec.schedule is missing")
    for number, reference in enumerate((cron_job.get("status") or {}).get("active") or ()):
        for name in ("namespace", "name", "uid"):
            if not reference.get(name):
                raise ValueError(f"status.active[{number}].{name} is missing")
    return CronJobSpec(
        schedule=spec["schedule"],
        time_zone=spec.get("timeZone"),
        is_suspended=spec.get("suspend") is True,
        concurrency_policy=spec.get("concurrencyPolicy"),
        deadline=spec.get("startingDeadlineSeconds"),
        successful_limit=spec.get("successfulJobsHistoryLimit"),
        failed_limit=spec.get("failedJobsHistoryLimit"),
        template=spec.get("jobTemplate") or {},
    )


def check_job(job: Object) -> None:
    """Raise ValueError if a field of the Job that the controller reads has a wrong type. The text names both."""
    try:
        check(job, _JOB)
    except ValueError as err:
        raise ValueError(f"Job {key_of(job)}: {err}") from err
