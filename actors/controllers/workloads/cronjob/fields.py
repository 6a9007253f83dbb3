"""Which types the fields of CronJobs and their Jobs are of, as far as they decide anything here.

Source: kubernetes v1.36 staging/src/k8s.io/api/batch/v1/types.go.
"""

from __future__ import annotations

from kcm.protocols.objects import Object, key_of
from kcm.protocols.shapes import COUNT, FLAG, MAP, TEXT, TIME, check

_CRON_JOB = {
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
_JOB = {
    "metadata": {"annotations": MAP},
    "status": {"conditions": [{"type": TEXT, "status": TEXT}], "startTime": TIME, "completionTime": TIME},
}


def check_cron_job(cron_job: Object) -> None:
    """Raises ValueError that names the field that is missing or of the wrong type."""
    check(cron_job, _CRON_JOB)
    spec = cron_job.get("spec") or {}
    if spec.get("schedule") is None:
        raise ValueError("spec.schedule is missing")
    for number, reference in enumerate((cron_job.get("status") or {}).get("active") or ()):
        for name in ("namespace", "name", "uid"):
            if not reference.get(name):
                raise ValueError(f"status.active[{number}].{name} is missing")


def check_job(job: Object) -> None:
    """Raises ValueError that names the Job too."""
    try:
        check(job, _JOB)
    except ValueError as err:
        raise ValueError(f"Job {key_of(job)}: {err}") from err
