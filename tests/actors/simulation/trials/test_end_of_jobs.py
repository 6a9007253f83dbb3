"""Jobs that each trial with Jobs checks."""

from __future__ import annotations

import pytest

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.silence import silence_patch
from kcm.actors.simulation.trials.workloads import job as jobs
from kcm.actors.simulation.trials.workloads.cronjob import ELSEWHERE
from kcm.actors.simulation.trials.workloads.ttl_after_finished import TRIAL
from kcm.protocols.objects import Object, uid_of
from kcm.protocols.resources import JOBS, NODES, PODS
from tests.support.objects import owned_by

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "v1"}]}}


def job_managed_elsewhere(name: str, **fields: object) -> Object:
    return {"metadata": {"name": name, **fields}, "spec": {"managedBy": ELSEWHERE, "template": TEMPLATE}}


def test_finished_jobs_are_compared_without_those_of_cron_jobs() -> None:
    """False alarm, seed 90000032: it depends on timing which scheduled times of a CronJob have a Job."""
    cluster = SimulatedCluster(collect_garbage=False)
    cluster.create(JOBS, job_managed_elsewhere("finishing"))
    cluster.create(
        JOBS, job_managed_elsewhere("ticking-29453761", ownerReferences=[owned_by("1", kind="CronJob", name="ticking")])
    )
    assert TRIAL.end_state(cluster) == {"Job finishing": None}


@pytest.mark.parametrize(
    ("script", "end", "succeeded", "wrong"),
    [
        ("exit 0", "Complete", 3, ""),
        ("exit 0", "Complete", 2, "(['Complete'], 2) instead of (['Complete'], 3)"),
        ("exit 0", "Failed", 3, "(['Failed'], None) instead of (['Complete'], 3)"),
        ("exit 1", "Failed", 0, ""),
        ("exit 1", "Complete", 3, "(['Complete'], 3) instead of (['Failed'], None)"),
    ],
)
def test_end_of_a_job_depends_on_its_command(script: str, end: str, succeeded: int, wrong: str) -> None:
    cluster = SimulatedCluster(collect_garbage=False)
    container = {"name": "c", "image": "v1", "command": ["sh", "-c", script]}
    pod = {"restartPolicy": "Never", "containers": [container]}
    spec = {"completions": 3, "parallelism": 3, "template": {"spec": pod}}
    cluster.create(JOBS, {"metadata": {"name": "batch"}, "spec": spec})
    before = "SuccessCriteriaMet" if end == "Complete" else "FailureTarget"
    at = "2026-01-01T00:00:00Z"
    conditions = [{"type": each, "status": "True", "lastTransitionTime": at} for each in (before, end)]
    status = {"startTime": at, "conditions": conditions, "succeeded": succeeded}
    if end == "Complete":
        status["completionTime"] = at
    cluster.merge(JOBS, "default/batch", {"status": status}, subresource="status")
    assert list(jobs.TRIAL.unsettled(cluster)) == ([f"Job batch has the result {wrong}"] if wrong else [])


@pytest.mark.parametrize(
    ("policy", "condition", "unsettled"),
    [
        ("Failed", None, False),
        ("TerminatingOrFailed", "SuccessCriteriaMet", False),
        # False alarm, seed 281130162210 of swarm: the Job created another pod.
        ("TerminatingOrFailed", None, True),
    ],
)
def test_job_may_wait_for_a_terminating_pod_on_a_silent_node(
    policy: str, condition: str | None, unsettled: bool
) -> None:
    cluster = SimulatedCluster(collect_garbage=False)
    cluster.create(NODES, {"metadata": {"name": "quiet", **silence_patch(True)["metadata"]}})
    container = {"name": "c", "image": "v1"}
    spec = {
        "completions": 3,
        "podReplacementPolicy": policy,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    job = cluster.create(JOBS, {"metadata": {"name": "batch"}, "spec": spec})
    if condition is not None:
        at = "2026-01-01T00:00:00Z"
        conditions = [{"type": condition, "status": "True", "lastTransitionTime": at}]
        status = {"startTime": at, "conditions": conditions}
        cluster.merge(JOBS, "default/batch", {"status": status}, subresource="status")
    owner = owned_by(uid_of(job), kind="Job", name="batch")
    meta = {"name": "batch-1", "labels": {"job-name": "batch", "runs": "batch"}, "ownerReferences": [owner]}
    cluster.create(PODS, {"metadata": meta, "spec": {"nodeName": "quiet", "containers": [container]}})
    cluster.delete(PODS, "default/batch-1")
    assert any("is not finished" in text for text in jobs.TRIAL.unsettled(cluster)) == unsettled
