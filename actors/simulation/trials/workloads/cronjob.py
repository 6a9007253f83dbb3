"""Simulation trial of the CronJob controller: users create, change, suspend and delete CronJobs, whose Jobs finish."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.controllers.workloads.cronjob.jobs import finished_type, slot_of
from kcm.actors.controllers.workloads.cronjob.slots import latest_due
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.ownership import Owns
from kcm.actors.simulation.invariants.workloads.slots import StartedOnce
from kcm.actors.simulation.trials.actions import create, delete, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import (
    Object,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    make_key,
    metadata,
    name_of,
)
from kcm.protocols.resources import CRONJOBS, JOBS
from kcm.protocols.times import format_time, parse_time
from kcm.runtime.faults.vocabulary import FaultKind
from kcm.runtime.scheduling.cron_schedules import parse_schedule
from kcm.runtime.scheduling.time_zones import load_zone

CONTROLLER = "cronjob-controller"
NAME = "ticking"
ELSEWHERE = "example.com/elsewhere"  # spec.managedBy of Jobs that the Job controller ignores
CHANGED = "example.com/changed"  # annotation: time of the latest change of the spec by a user
SCHEDULES = ("* * * * *", "*/2 * * * *", "@every 1m", "0-58/1 * * * *", "0 5 * * *")
ZONES = ("Europe/Berlin", "Asia/Kolkata", "America/New_York")
LATE = 20.0  # seconds after a scheduled time within which its Job must be created after the faults
NEVER = 1e9  # seconds


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("cron job actions")
    for name in scenario.names(chance, NAME, 2):
        yield from _life(scenario, chance, name)
    for second in range(5, round(scenario.seconds), 5):
        yield Action(float(second), "Jobs of CronJobs are run", _run_jobs)
    for at in scenario.times(chance, chance.randint(0, 1), first=10.0):
        yield Action(at, "a Job of a CronJob is deleted", _delete_one)
    # Otherwise CronJobs would create Jobs forever, and the system would never settle. One more time is due before.
    yield Action(scenario.disturbed + 61.0, "CronJobs are suspended once all due Jobs are created", _suspend_all)


def _life(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    key = make_key(NAMESPACE, name)

    def make(at: float) -> Iterator[Action]:
        yield create(at, CRONJOBS, _cron_job(name, chance))

    def change(draw: Callable[[], Object]) -> Callable[[float], Iterator[Action]]:
        def act(at: float) -> Iterator[Action]:
            yield _change(at, key, draw())

        return act

    def remove(at: float) -> Iterator[Action]:
        yield delete(at, CRONJOBS, key, policy=chance.choice(("Foreground", "Background")))

    changes = (
        change(lambda: {"schedule": chance.choice(SCHEDULES)}),
        change(lambda: {"timeZone": chance.choice((None, *ZONES))}),
        change(lambda: {"suspend": chance.random() < 0.4}),
        change(lambda: {"concurrencyPolicy": chance.choice(("Allow", "Forbid", "Replace"))}),
        change(lambda: {"successfulJobsHistoryLimit": chance.choice((0, 1, 3))}),
        change(lambda: {"startingDeadlineSeconds": chance.choice((None, 45, 100))}),
    )
    yield from scenario.life(chance, make=make, changes=changes, remove=remove)


def _cron_job(name: str, chance: random.Random) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "v1"}]}
    spec: Object = {
        "schedule": chance.choice(SCHEDULES[:-1]),
        "concurrencyPolicy": chance.choice(("Allow", "Forbid", "Replace")),
        "successfulJobsHistoryLimit": chance.choice((0, 1, 3)),
        "failedJobsHistoryLimit": chance.choice((0, 1)),
        "jobTemplate": {"spec": {"managedBy": ELSEWHERE, "template": {"spec": pod}}},
    }
    if chance.random() < 0.3:
        spec["timeZone"] = chance.choice(ZONES)
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _change(at: float, key: str, spec: Object) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(CRONJOBS, key) is None:
            return False
        noted = {"annotations": {CHANGED: format_time(cluster.clock.now())}}
        cluster.merge(CRONJOBS, key, {"metadata": noted, "spec": spec})
        return True

    return unless_gone(Action(at, f"CronJob {key}: {spec}", do), CRONJOBS, key)


def _jobs(cluster: SimulatedCluster) -> list[Object]:
    """Return the Jobs that CronJobs own, sorted by name."""
    found = []
    for job in cluster.list(JOBS, NAMESPACE):
        owner = controller_of(job)
        if owner is not None and owner.kind == CRONJOBS.kind:
            found.append(job)
    return sorted(found, key=name_of)


def _run_jobs(cluster: SimulatedCluster) -> bool:
    """Finish the Jobs that are due, in place of a Job controller. A Job's uid determines its duration and result."""
    now = cluster.clock.now()
    for job in _jobs(cluster):
        chance = random.Random(metadata(job)["uid"])
        takes, fails = chance.choice((0.0, 0.0, 4.0, 40.0, NEVER)), chance.random() < 0.3
        if (
            not finished_type(job)
            and not is_deleting(job)
            and parse_time(metadata(job)["creationTimestamp"]) + takes <= now
        ):
            _finish(cluster, job, "Failed" if fails else "Complete")
    return True


def _finish(cluster: SimulatedCluster, job: Object, by: str) -> None:
    now = format_time(cluster.clock.now())
    before = "SuccessCriteriaMet" if by == "Complete" else "FailureTarget"
    conditions = [
        {"type": type_, "status": "True", "lastProbeTime": now, "lastTransitionTime": now} for type_ in (before, by)
    ]
    status: Object = {"startTime": now, "conditions": conditions}
    if by == "Complete":
        status["completionTime"] = now
    cluster.merge(JOBS, key_of(job), {"status": status}, subresource="status")


def _delete_one(cluster: SimulatedCluster) -> bool:
    """Delete the first Job whose scheduled time is not after its CronJob's lastScheduleTime.

    The controller could create any other Job again, as the status does not record it.
    """
    for job in _jobs(cluster):
        owner = controller_of(job)
        cron_job = None if owner is None else cluster.get(CRONJOBS, make_key(NAMESPACE, owner.name))
        last = None if cron_job is None else (cron_job.get("status") or {}).get("lastScheduleTime")
        slot = None if cron_job is None else slot_of(job, cron_job)
        if last and slot is not None and slot <= parse_time(last) and not is_deleting(job):
            cluster.delete(JOBS, key_of(job), policy="Background")
            break
    return True


def _suspend_all(cluster: SimulatedCluster) -> bool:
    if any(_late(cluster)):
        return False
    for cron_job in cluster.list(CRONJOBS, NAMESPACE):
        cluster.merge(CRONJOBS, key_of(cron_job), {"spec": {"suspend": True}})
    return True


def _late(cluster: SimulatedCluster) -> Iterator[str]:
    for cron_job in cluster.shown(CRONJOBS, NAMESPACE):
        spec, status = cron_job["spec"], cron_job.get("status") or {}
        slot, last = _due(cluster, cron_job), status.get("lastScheduleTime")
        if is_deleting(cron_job) or slot is None or _waits(spec, status):
            continue
        if last is None or parse_time(last) < slot:
            yield f"CronJob {name_of(cron_job)} has no Job for {format_time(slot)}, its last one is for {last}"


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    yield from _late(cluster)
    jobs = _jobs(cluster)
    for cron_job in cluster.shown(CRONJOBS, NAMESPACE):
        if is_deleting(cron_job):
            continue
        name, spec, status = name_of(cron_job), cron_job["spec"], cron_job.get("status") or {}
        own = [job for job in jobs if controller_of(job).uid == metadata(cron_job)["uid"]]  # type: ignore[union-attr]
        running = {metadata(job)["uid"] for job in own if not finished_type(job) and not is_deleting(job)}
        active = {reference["uid"] for reference in status.get("active") or ()}
        if running != active:
            yield f"CronJob {name} has {len(active)} active Jobs in its status, but {len(running)} run"
        for end, limit in (
            ("Complete", spec["successfulJobsHistoryLimit"]),
            ("Failed", spec["failedJobsHistoryLimit"]),
        ):
            ended = sum(finished_type(job) == end for job in own)
            if ended > limit:
                yield f"CronJob {name} keeps {ended} Jobs that are {end}, its limit is {limit}"


def _waits(spec: Object, status: Object) -> bool:
    return bool(spec.get("suspend")) or (spec["concurrencyPolicy"] == "Forbid" and bool(status.get("active")))


def _due(cluster: SimulatedCluster, cron_job: Object) -> int | None:
    """Return the latest scheduled time for which a Job must exist by now, in Unix seconds.

    Only times since the latest change by a user count, and the clock of the manager may be ahead or behind. None if
    there is no such time.
    """
    jumps = [fault.seconds for fault in cluster.injector.faults if fault.kind is FaultKind.CLOCK_JUMPED]
    ahead, behind = sum(max(jump, 0.0) for jump in jumps), sum(max(-jump, 0.0) for jump in jumps)
    now = cluster.clock.now() - LATE - behind
    changed = annotations_of(cron_job).get(CHANGED)
    since: float = parse_time(changed or metadata(cron_job)["creationTimestamp"]) + ahead + behind
    spec = cron_job["spec"]
    if now <= since:
        return None
    schedule = parse_schedule(spec["schedule"], load_zone(spec.get("timeZone") or ""))
    return None if spec["schedule"].startswith("@every") else latest_due(schedule, since=since, now=now).slot


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    return {
        f"CronJob {name_of(cron_job)}": (cron_job["spec"]["schedule"], cron_job["spec"].get("suspend"))
        for cron_job in cluster.shown(CRONJOBS, NAMESPACE)
    }


TRIAL = Trial(
    controller=CONTROLLER,
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    owns=(Owns(CRONJOBS, JOBS, read_each_version=True),),
    invariants=lambda cluster, _options: (StartedOnce(cluster, client=CONTROLLER),),
)
