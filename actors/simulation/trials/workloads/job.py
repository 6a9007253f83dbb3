"""Simulation trial of the Job controller.

Users create Jobs, change their parallelism, suspend and recreate them, and delete their pods.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from kcm.actors.controllers.workloads.job.fields import FINALIZER
from kcm.actors.controllers.workloads.job.status import FAILURE_TARGET, SUCCESS_CRITERIA_MET
from kcm.actors.hollow.behaviour import EXIT_CODE
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.ownership import Owns
from kcm.actors.simulation.invariants.workloads.jobs import (
    EachPodCountsOnce,
    FinishedPodsAreCounted,
    ParallelismIsNotExceeded,
)
from kcm.actors.simulation.trials.actions import create, delete, merge, replace, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.silence import is_silent, no_node_is_silent
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.jobs import is_finished
from kcm.protocols.objects import Object, finalizers_of, is_deleting, labels_of, make_key, name_of
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import JOBS, NODES, PODS

NAME = "job-controller"
RUNS = "batch"
FAILS = "exit 1"
SCRIPTS = ("exit 0", "sleep 2", "sleep 5")
NO_END = 1_000_000  # backoffLimit; so high that failures of nodes do not let a Job fail


def _actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("jobs actions")
    for name in scenario.names(chance, RUNS, 2):
        user = _JobUser(scenario, chance, name)
        yield from scenario.life(
            chance,
            make=user.make,
            changes=[partial(change, user) for change in CHANGES],
            remove=user.remove,
            at=1.2,
        )
    failing = scenario.chance("failures of jobs")
    for at in scenario.times(failing, failing.randint(0, 3), first=4.0):
        yield _fail_pod(at, failing.randrange(8))


def _fail_pod(at: float, number: int) -> Action:
    """Return the action that lets a running pod of a Job fail. This does not exceed the backoff limit of the Job."""

    def do(cluster: SimulatedCluster) -> bool:
        jobs = {name_of(job) for job in cluster.list(JOBS, NAMESPACE)}
        pods = [pod for pod in cluster.list(PODS, NAMESPACE) if labels_of(pod).get("runs") in jobs]
        running = sorted(name_of(pod) for pod in pods if pod_facts(pod).phase == "Running" and not is_deleting(pod))
        if running:
            key = make_key(NAMESPACE, running[number % len(running)])
            cluster.merge(PODS, key, {"metadata": {"annotations": {EXIT_CODE: "1"}}})
        return True

    return Action(at, "a pod of a Job fails", do)


class _JobUser:
    """User actions on one Job."""

    def __init__(self, scenario: Scenario, chance: random.Random, name: str) -> None:
        self.chance, self.name = chance, name
        self.key = make_key(NAMESPACE, name)
        self._scenario = scenario

    def new(self) -> Object:
        chance = self.chance
        parallelism = chance.choice((1, 2, 3, 5))
        spec: Object = {"parallelism": parallelism, "backoffLimit": NO_END}
        script = chance.choice(SCRIPTS)
        drawn = chance.random()
        if drawn < 0.15:
            spec |= {"backoffLimit": 0, "completions": 2}
            script = FAILS
        elif drawn < 0.5:
            spec |= {"completions": chance.choice((1, 3, 6, 8)), "completionMode": "Indexed"}
            if chance.random() < 0.3:
                spec["backoffLimitPerIndex"] = NO_END
        elif drawn < 0.9:
            spec["completions"] = chance.choice((1, 3, 6, 8))
        if chance.random() < 0.2:
            spec["podReplacementPolicy"] = "Failed"
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "v1", "command": ["sh", "-c", script]}]}
        labels = {"runs": self.name}
        spec["template"] = {"metadata": {"labels": labels}, "spec": {**pod, **self._scenario.pod}}
        return {"metadata": {"name": self.name, "namespace": NAMESPACE}, "spec": spec}

    def make(self, at: float) -> Iterator[Action]:
        yield create(at, JOBS, self.new())

    def remove(self, at: float) -> Iterator[Action]:
        policies = ("Background", "Foreground") if self._scenario.steady else ("Background",)
        yield delete(at, JOBS, self.key, policy=self.chance.choice(policies))

    def changed(self, at: float, **spec: Any) -> Action:
        return unless_gone(merge(at, JOBS, self.key, {"spec": spec}), JOBS, self.key)


def _change_parallelism(user: _JobUser, at: float) -> Iterator[Action]:
    yield user.changed(at, parallelism=user.chance.choice((1, 2, 4, 6)))


def _suspend_temporarily(user: _JobUser, at: float) -> Iterator[Action]:
    yield user.changed(at, suspend=True)
    yield user.changed(round(at + user.chance.choice((0.2, 3.0, 8.0)), 2), suspend=False)


def _delete_pod(user: _JobUser, at: float) -> Iterator[Action]:
    index = user.chance.randrange(4)

    def do(cluster: SimulatedCluster) -> bool:
        pods = sorted(name_of(pod) for pod in _pods_of(cluster, user.name) if not is_deleting(pod))
        if pods:
            cluster.delete(PODS, make_key(NAMESPACE, pods[index % len(pods)]))
        return True

    yield Action(at, f"delete a pod of {user.name}", do)


def _recreate(user: _JobUser, at: float) -> Iterator[Action]:
    yield replace(at, JOBS, user.key, user.new())


CHANGES = (
    _change_parallelism,
    _change_parallelism,
    _suspend_temporarily,
    _delete_pod,
    _delete_pod,
    _recreate,
)


def _pods_of(cluster: SimulatedCluster, name: str) -> list[Object]:
    return [pod for pod in cluster.shown(PODS, NAMESPACE) if labels_of(pod).get("runs") == name]


def _jobs_of_trial(cluster: SimulatedCluster) -> list[Object]:
    """Return the Jobs of this trial. Jobs of other trials have spec.managedBy."""
    return [job for job in cluster.shown(JOBS, NAMESPACE) if "managedBy" not in job["spec"]]


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    """Yield a text for each Job that is unfinished or has an unexpected result, and for remaining finalizers.

    A Job may be unfinished while it waits for terminating pods on silent nodes: for their end if it replaces only pods
    that have ended, and once it is known to succeed or to fail.
    """
    silent = {name_of(node) for node in cluster.shown(NODES) if is_silent(node)}
    for job in _jobs_of_trial(cluster):
        name, pods = name_of(job), list(_pods_of(cluster, name_of(job)))
        stuck = [pod for pod in pods if is_deleting(pod) and pod_facts(pod).node in silent]
        if not is_finished(job) and not (stuck and _waits_for_terminating(job)):
            yield f"Job {name} is not finished: {job.get('status')}"
        elif is_finished(job) and _result(job) != _expected_result(job):
            yield f"Job {name} has the result {_result(job)} instead of {_expected_result(job)}"
        for pod in pods:
            if FINALIZER in finalizers_of(pod) and pod not in stuck:
                yield f"pod {name_of(pod)} of Job {name} still has its finalizer"


def _waits_for_terminating(job: Object) -> bool:
    conditions = {condition["type"] for condition in (job.get("status") or {}).get("conditions") or ()}
    return job["spec"]["podReplacementPolicy"] == "Failed" or not conditions.isdisjoint(
        (FAILURE_TARGET, SUCCESS_CRITERIA_MET)
    )


def _result(job: Object) -> tuple[list[str], int | None]:
    """Return (conditions of the end, succeeded pods) of a Job.

    The conditions are ["Complete"], ["Failed"], or [] while the Job is unfinished. The number of succeeded pods is None
    unless the Job is complete and has spec.completions.
    """
    status, completions = job.get("status") or {}, job["spec"].get("completions")
    ends = [
        condition["type"] for condition in status.get("conditions") or () if condition["type"] in ("Complete", "Failed")
    ]
    return ends, None if completions is None or ends != ["Complete"] else status.get("succeeded", 0)


def _expected_result(job: Object) -> tuple[list[str], int | None]:
    """Return the result that `_result` must return for a finished Job. It depends only on the container's command."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    if FAILS in container.get("command", ()):
        return ["Failed"], None
    return ["Complete"], job["spec"].get("completions")


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the result of each Job; empty if a node is silent, because Jobs may wait for a pod there."""
    jobs = _jobs_of_trial(cluster) if no_node_is_silent(cluster) else ()
    return {f"Job {name_of(job)}": (*_result(job), (job.get("status") or {}).get("completedIndexes")) for job in jobs}


def _pods_at_once(job: Object) -> int:
    return 0 if job["spec"].get("suspend") else int(job["spec"].get("parallelism", 1))


TRIAL = Trial(
    controller=NAME,
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (
        EachPodCountsOnce(),
        FinishedPodsAreCounted(cluster, client=NAME),
        ParallelismIsNotExceeded(cluster, sender=controller_name(NAME)),
    ),
    owns=(Owns(JOBS, PODS, pods=_pods_at_once, removal=2, read_once=True),),
)
