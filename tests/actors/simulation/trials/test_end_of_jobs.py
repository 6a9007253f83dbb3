"""Which Jobs each of the trials that have some is held to."""

from __future__ import annotations

from actors.simulation import SimulatedCluster
from actors.simulation.trials.workloads.cronjob import ELSEWHERE
from actors.simulation.trials.workloads.ttl_after_finished import TRIAL
from protocols.objects import Object
from protocols.resources import JOBS
from tests.support.objects import owned_by

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "v1"}]}}


def job(name: str, **fields: object) -> Object:
    return {"metadata": {"name": name, **fields}, "spec": {"managedBy": ELSEWHERE, "template": TEMPLATE}}


def test_finished_jobs_are_compared_without_those_of_cron_jobs() -> None:
    """A false alarm, seed 90000032: which slots of a CronJob have a Job depends on when it was started, and why."""
    cluster = SimulatedCluster(collect_garbage=False)
    cluster.create(JOBS, job("finishing"))
    cluster.create(JOBS, job("ticking-29453761", ownerReferences=[owned_by("1", kind="CronJob", name="ticking")]))
    assert TRIAL.end_state(cluster) == {"Job finishing": None}
