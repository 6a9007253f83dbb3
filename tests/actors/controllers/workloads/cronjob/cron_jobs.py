"""Builders of CronJobs and Jobs, and a bench for the reconciler."""

from __future__ import annotations

from typing import Any

from kcm.actors.controllers.workloads.cronjob.reconciler import CronJobReconciler
from kcm.actors.simulation.driver import Answer, Bench, Driven, drive
from kcm.protocols.messages.commands import Create, Update
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.resources import CRONJOBS, JOBS
from kcm.protocols.times import parse_time
from kcm.runtime.scheduling.time_zones import load_zone

KEY = "default/cj"
DAY = "2016-05-19T"
HOURLY = "0 * * * ?"


def cron_job(
    schedule: str = HOURLY,
    *,
    created: str = DAY + "09:59:00Z",
    last: str = "",
    active: tuple[str, ...] = (),
    **spec: Any,
) -> Object:
    """Build a CronJob. active: names of Jobs."""
    status: Object = {}
    if last:
        status["lastScheduleTime"] = last
    if active:
        status["active"] = [{"kind": "Job", "namespace": "default", "name": n, "uid": f"uid-of-{n}"} for n in active]
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}, "spec": {"template": {"spec": {}}}}
    return {
        "metadata": {"name": "cj", "namespace": "default", "creationTimestamp": created, "generation": 1},
        "spec": {"schedule": schedule, "concurrencyPolicy": "Allow", "jobTemplate": template, **spec},
        "status": status,
    }


def job(
    name: str, *, end: str = "", at: str = "", started: str = "", slot: str = "", owner: str = "uid-of-cj"
) -> Object:
    """Build a Job. at: completionTime. slot: scheduled time in its annotation."""
    status: Object = {"conditions": [{"type": end, "status": "True"}]} if end else {}
    status |= {"completionTime": at} if at else {}
    status |= {"startTime": started} if started else {}
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "cj", "uid": owner, "controller": True}
    meta: Object = {"name": name, "namespace": "default", "ownerReferences": [reference]}
    if slot:
        meta["annotations"] = {"batch.kubernetes.io/cronjob-scheduled-timestamp": slot}
    return {"metadata": meta, "spec": {}, "status": status}


def name_at(time: str) -> str:
    return f"cj-{int(parse_time(time)) // 60}"


class Scene:
    """Test bench of the CronJob reconciler. now: time of the controller's clock."""

    def __init__(self, cron_job: Object, *jobs: Object, now: str, local: str = "UTC") -> None:
        self.bench = Bench({CRONJOBS: [cron_job], JOBS: list(jobs)})
        self.bench.clock.wall = parse_time(now)
        self.skews: list[float] = []
        self.reconciler = CronJobReconciler(
            tables=self.bench.tables, clock=self.bench.clock, local=load_zone(local), created=self.skews.append
        )

    def sync(self, answer: Answer | None = None, *, raises: type[Exception] | None = None) -> Driven:
        return drive(self.reconciler, KEY, answer or self.bench.accept, tables=self.bench.tables, raises=raises)


def created(driven: Driven) -> list[Object]:
    return [decode_object(command.body) for command in driven.of(Create)]


def status_of(driven: Driven) -> Object:
    """Return the status that was written last."""
    status: Object = decode_object(driven.of(Update)[-1].body)["status"]
    return status


def reasons(driven: Driven) -> list[str]:
    return [reason for _, reason, _ in driven.events]


def after(driven: Driven) -> float | None:
    """Return the seconds after which the key is requeued."""
    return None if driven.result is None else round(driven.result.seconds, 3)
