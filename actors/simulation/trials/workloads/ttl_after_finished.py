"""Simulation trial of the TTL controller for finished Jobs: users create Jobs, finish them, and change their TTL."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.workloads.lifetimes import NotDeletedBeforeExpiry
from kcm.actors.simulation.trials.actions import create, merge, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, annotations_of, controller_of, make_key, name_of
from kcm.protocols.resources import JOBS
from kcm.protocols.times import format_time, parse_time

CONTROLLER = "ttl-after-finished-controller"
NAME = "finishing"
ENDS = ("Complete", "Failed")
ELSEWHERE = "example.com/elsewhere"  # spec.managedBy of Jobs that the Job controller ignores
LATE = "example.com/extended"  # annotation of Jobs whose TTL was increased after they had finished
SOON = 1000.0  # seconds; a Job that expires later does not expire during the run
EXTENDED = 20  # TTL in seconds, long enough to be increased before the Job expires
SHORT, LONG = (0, 1, 8, EXTENDED, EXTENDED), (100_000, None)  # TTLs in seconds: shorter and longer than a run


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("ttl after finished actions")
    for name in scenario.names(chance, NAME, 3):
        yield from _life(scenario, chance, name)


def _life(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Yield the actions on one Job: create it, change its TTL, finish it, and sometimes change its TTL again."""
    key = make_key(NAMESPACE, name)
    born, *changed, ended, after = scenario.times(chance, chance.randint(3, 6))
    yield create(born, JOBS, _job(name, chance.choice((*SHORT, *LONG))))
    for at in changed:
        yield _set_ttl(at, key, chance.choice((*SHORT, *LONG)))
    last = chance.choice((*SHORT, *LONG))
    yield _set_ttl(ended, key, last)
    yield _finish(ended, key, chance.choice(ENDS))
    if last in LONG and chance.random() < 0.6:
        yield _set_ttl(after, key, chance.choice(SHORT))
    elif last == EXTENDED and chance.random() < 0.7:
        at = round(ended + chance.uniform(0.5, 3.0), 2)
        changes: Object = {"metadata": {"annotations": {LATE: "yes"}}}
        changes["spec"] = {"ttlSecondsAfterFinished": chance.choice(LONG)}
        yield unless_gone(merge(at, JOBS, key, changes), JOBS, key)


def _job(name: str, ttl: int | None) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "v1"}]}
    spec: Object = {"managedBy": ELSEWHERE, "template": {"spec": pod}}
    if ttl is not None:
        spec["ttlSecondsAfterFinished"] = ttl
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _set_ttl(at: float, key: str, ttl: int | None) -> Action:
    return unless_gone(merge(at, JOBS, key, {"spec": {"ttlSecondsAfterFinished": ttl}}), JOBS, key)


def _finish(at: float, key: str, by: str) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(JOBS, key) is None:
            return False
        now = format_time(cluster.clock.now())
        before = "SuccessCriteriaMet" if by == "Complete" else "FailureTarget"
        conditions = [
            {"type": type_, "status": "True", "lastProbeTime": now, "lastTransitionTime": now} for type_ in (before, by)
        ]
        status: Object = {"startTime": now, "conditions": conditions}
        if by == "Complete":
            status["completionTime"] = now
        cluster.merge(JOBS, key, {"status": status}, subresource="status")
        return True

    return Action(at, f"Job {key}: {by}", do)


def _jobs_of_trial(cluster: SimulatedCluster) -> list[Object]:
    """Return the Jobs of this trial. Jobs that a CronJob owns belong to another trial."""
    jobs = [job for job in cluster.shown(JOBS, NAMESPACE) if controller_of(job) is None]
    return [job for job in jobs if job["spec"].get("managedBy") == ELSEWHERE]


def _expiry(job: Object) -> float | None:
    """Return the time from which a Job may be deleted, in Unix seconds; None for never."""
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    ended = [
        condition["lastTransitionTime"]
        for condition in (job.get("status") or {}).get("conditions") or ()
        if condition["type"] in ENDS and condition["status"] == "True"
    ]
    return None if seconds is None or not ended else parse_time(ended[0]) + seconds


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for job in _jobs_of_trial(cluster):
        expires = _expiry(job)
        if expires is not None and expires < cluster.clock.now() + SOON:
            yield f"Job {name_of(job)} still exists {cluster.clock.now() - expires:.0f} s after its expiry"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the TTL of each remaining Job, except for Jobs whose TTL was increased after they had finished.

    A manager whose clock is ahead may delete such a Job before the increase.
    """
    kept = (job for job in _jobs_of_trial(cluster) if LATE not in annotations_of(job))
    return {f"Job {name_of(job)}": job["spec"].get("ttlSecondsAfterFinished") for job in kept}


def _not_deleted_early(cluster: SimulatedCluster) -> NotDeletedBeforeExpiry:
    name = "no finished Job is deleted early"
    return NotDeletedBeforeExpiry(cluster, name, client=CONTROLLER, storage="jobs.batch", expiry=_expiry)


TRIAL = Trial(
    controller=CONTROLLER,
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (_not_deleted_early(cluster),),
    deletes=(JOBS,),
)
