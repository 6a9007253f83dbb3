"""Malformed CronJobs and Jobs, which a current server rejects: the error names the field, and no Job is started."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.controllers.workloads.cronjob.cron_jobs import DAY, Scene, cron_job, job, reasons


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"schedule": None}, "spec.schedule is missing"),
        ({"schedule": ["0 * * * *"]}, "spec.schedule is a string, got ['0 * * * *']"),
        ({"timeZone": 1}, "spec.timeZone is a string, got 1"),
        ({"startingDeadlineSeconds": "60"}, "spec.startingDeadlineSeconds is a number from 0 on, got '60'"),
        ({"successfulJobsHistoryLimit": -1}, "spec.successfulJobsHistoryLimit is a number from 0 on, got -1"),
        ({"jobTemplate": {"metadata": {"labels": "a"}}}, "spec.jobTemplate.metadata.labels is a map, got 'a'"),
    ],
)
def test_malformed_cron_job_starts_nothing(spec: dict[str, Any], text: str) -> None:
    shown = cron_job()
    shown["spec"].update(spec)
    driven = Scene(shown, now=DAY + "10:00:01Z").sync(raises=ValueError)
    assert (driven.commands, driven.events) == ([], [])
    assert str(driven.error) == text


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"active": ["x"]}, "status.active[0] is a map, got 'x'"),
        ({"active": [{"name": "cj-1", "namespace": "default"}]}, "status.active[0].uid is missing"),
        ({"lastScheduleTime": "noon"}, "status.lastScheduleTime is an RFC 3339 time, got 'noon'"),
    ],
)
def test_malformed_status_starts_nothing(status: dict[str, Any], text: str) -> None:
    driven = Scene({**cron_job(), "status": status}, now=DAY + "10:00:01Z").sync(raises=ValueError)
    assert driven.commands == []
    assert str(driven.error) == text


def test_error_names_the_malformed_job() -> None:
    """The malformed Job may be active, so no other Job is started."""
    malformed = job("cj-1")
    malformed["status"]["conditions"] = ["x"]
    driven = Scene(cron_job(), malformed, now=DAY + "10:00:01Z").sync(raises=ValueError)
    assert driven.commands == []
    assert str(driven.error) == "Job default/cj-1: status.conditions[0] is a map, got 'x'"


def test_empty_schedule_records_an_event() -> None:
    driven = Scene(cron_job(""), now=DAY + "10:00:01Z").sync()
    assert reasons(driven) == ["UnparseableSchedule"]
