"""CronJobs in a simulated cluster: Jobs start on the minute, also when daylight saving time begins or ends."""

from __future__ import annotations

from kcm.actors.controllers.workloads.cronjob import SPEC
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, annotations_of
from kcm.protocols.resources import CRONJOBS, JOBS
from kcm.protocols.times import format_time, parse_time

POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "v1"}]}}
ELSEWHERE = "example.com/elsewhere"  # managedBy of Jobs that another controller runs


def cron_job(schedule: str, **spec: object) -> Object:
    job = {"metadata": {}, "spec": {"template": POD, "managedBy": ELSEWHERE}}
    return {"metadata": {"name": "cj"}, "spec": {"schedule": schedule, "jobTemplate": job, **spec}}


def end(cluster: SimulatedCluster, job: Object) -> None:
    at = format_time(cluster.clock.now())
    done = [
        {"type": type_, "status": "True", "lastTransitionTime": at, "lastProbeTime": at}
        for type_ in ("SuccessCriteriaMet", "Complete")
    ]
    key = f"default/{job['metadata']['name']}"
    status = {"conditions": done, "startTime": at, "completionTime": at}
    cluster.merge(JOBS, key, {"status": status}, subresource="status")


def begin(cluster: SimulatedCluster, time: str, given: Object) -> None:
    cluster.clock.skew += parse_time(time) - cluster.clock.now()
    cluster.manager(controllers=(SPEC,))
    cluster.run_for(5)
    cluster.create(CRONJOBS, given)


def slots(cluster: SimulatedCluster) -> list[str]:
    """Return the slots of the existing Jobs, from their annotations."""
    name = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    return sorted((annotations_of(job)[name] for job in cluster.list(JOBS)), key=parse_time)


def test_job_starts_each_minute_and_the_last_two_are_kept(cluster: SimulatedCluster) -> None:
    begin(cluster, "2026-06-01T08:00:30Z", cron_job("* * * * *", successfulJobsHistoryLimit=2))
    for minute in range(1, 6):
        assert cluster.run_until(lambda: slots(cluster)[-1:] == [f"2026-06-01T08:0{minute}:00Z"], within=61)  # noqa: B023
        assert cluster.clock.now() % 60 < 1
        for job in cluster.list(JOBS):
            if not (job.get("status") or {}).get("conditions"):
                end(cluster, job)
    cluster.run_for(10)
    assert slots(cluster) == ["2026-06-01T08:04:00Z", "2026-06-01T08:05:00Z"]
    status = (cluster.get(CRONJOBS, "default/cj") or {})["status"]
    assert status["lastScheduleTime"] == "2026-06-01T08:05:00Z"
    assert "active" not in status


def test_slot_in_the_skipped_hour_is_not_due(cluster: SimulatedCluster) -> None:
    begin(cluster, "2026-03-29T00:20:00Z", cron_job("30 1-3 * * *", timeZone="Europe/Berlin"))
    cluster.run_for(75 * 60)
    assert slots(cluster) == ["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"]


def test_slot_in_the_repeated_hour_is_due_twice(cluster: SimulatedCluster) -> None:
    begin(cluster, "2026-10-25T00:20:00Z", cron_job("30 2 * * *", timeZone="Europe/Berlin"))
    cluster.run_for(75 * 60)
    assert slots(cluster) == ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]


def test_slots_missed_while_suspended_start_one_job(cluster: SimulatedCluster) -> None:
    begin(cluster, "2026-06-01T08:00:30Z", cron_job("* * * * *", suspend=True))
    cluster.run_for(600)
    assert slots(cluster) == []
    cluster.merge(CRONJOBS, "default/cj", {"spec": {"suspend": False}})
    cluster.run_for(5)
    assert slots(cluster) == ["2026-06-01T08:10:00Z"]


def test_only_the_last_slot_missed_without_a_manager_is_started(cluster: SimulatedCluster) -> None:
    cluster.clock.skew += parse_time("2026-06-01T08:00:31Z") - cluster.clock.now()
    cluster.create(CRONJOBS, cron_job("*/10 * * * *"))
    cluster.run_for(1800)
    cluster.manager(controllers=(SPEC,))
    cluster.run_for(30)
    assert slots(cluster) == ["2026-06-01T08:30:00Z"]
