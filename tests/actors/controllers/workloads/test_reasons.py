"""Reasons of the workload controllers, in a cluster in which workloads are created, updated and finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object
from kcm.protocols.resources import (
    CRONJOBS,
    DAEMONSETS,
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    JOBS,
    POD_DISRUPTION_BUDGETS,
    REPLICASETS,
    STATEFULSETS,
    Resource,
)
from tests.actors.controllers.reasons import reasons_of

CONTROLLERS = [
    f"{name}-controller"
    for name in (
        "deployment",
        "replicaset",
        "statefulset",
        "daemonset",
        "job",
        "cronjob",
        "ttl-after-finished",
        "disruption",
        "horizontal-pod-autoscaler",
    )
]
NEW_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "image:2"}]}}}}


def workload(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"selector": selector(name), "template": template(name), **spec}}


def selector(name: str) -> Object:
    return {"matchLabels": {"app": name}}


def template(name: str, *, command: Sequence[str] = (), **spec: Any) -> Object:
    containers = [{"name": "main", "image": "image:1", "command": list(command)}]
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers, **spec}}


def job(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"template": template(name, restartPolicy="Never"), **spec}}


def cron_job(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"schedule": "* * * * *", "jobTemplate": job(name), **spec}}


def created() -> list[tuple[Resource, Object]]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    return [
        (DEPLOYMENTS, workload("web", replicas=3, strategy=rolling)),
        (DEPLOYMENTS, workload("paused", replicas=1, paused=True)),
        (DEPLOYMENTS, workload("recreated", replicas=2, strategy={"type": "Recreate"})),
        (REPLICASETS, workload("replicas", replicas=2)),
        (STATEFULSETS, workload("ordered", replicas=2, serviceName="ordered")),
        (STATEFULSETS, workload("parallel", replicas=2, serviceName="parallel", podManagementPolicy="Parallel")),
        (DAEMONSETS, workload("agent")),
        (JOBS, job("import", completions=2, parallelism=1, ttlSecondsAfterFinished=100)),
        (JOBS, job("failing", backoffLimit=1, template=template("failing", restartPolicy="Never", command=["false"]))),
        (JOBS, job("suspended", suspend=True)),
        (JOBS, job("limited", activeDeadlineSeconds=100)),
        (CRONJOBS, cron_job("minutely")),
        (CRONJOBS, cron_job("suspended", suspend=True)),
        (CRONJOBS, cron_job("slow", concurrencyPolicy="Forbid", jobTemplate=job("slow", suspend=True))),
        (CRONJOBS, cron_job("replaced", concurrencyPolicy="Replace", jobTemplate=job("replaced", suspend=True))),
        (
            POD_DISRUPTION_BUDGETS,
            {"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": selector("web")}},
        ),
        (
            HORIZONTAL_POD_AUTOSCALERS,
            {"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "minReplicas": 4, "maxReplicas": 8}},
        ),
    ]


@pytest.fixture(scope="module")
def system() -> ControllerSystem:
    cluster = SimulatedCluster(seed=1)
    system = cluster.manager(controllers=[spec for spec in BUILT_IN if spec.name in CONTROLLERS])
    cluster.hollow_nodes(nodes=3, heartbeats=False)
    cluster.run_for(5.0)
    for resource, obj in created():
        cluster.create(resource, {**obj, "metadata": {"namespace": "default", **obj["metadata"]}})
    cluster.run_for(30.0)
    for resource, name in (
        (DEPLOYMENTS, "web"),
        (DEPLOYMENTS, "recreated"),
        (STATEFULSETS, "ordered"),
        (DAEMONSETS, "agent"),
    ):
        cluster.merge(resource, f"default/{name}", NEW_IMAGE)
    cluster.merge(REPLICASETS, "default/replicas", {"spec": {"replicas": 1}})
    cluster.run_for(120.0)
    return system


# Controller, object, and some of the reasons in their order.
REASONS = [
    (
        "deployment",
        "web",
        "has 1 available and 3 updated pods of 3 desired; progress deadline passes at 2026-01-01T00:10:05Z",
        "spec.replicas has changed to 4: scales its ReplicaSets in proportion",
        "revision 2 waits to remove 4 old pods: 0 of 1 new and 4 old pods are available, needs 4 (maxUnavailable 0)",
        "revision 2: scales the new ReplicaSet from 1 to 2 of 4, maxSurge 1",
    ),
    ("deployment", "paused", "is paused: scales its ReplicaSets, but rolls nothing out"),
    (
        "deployment",
        "recreated",
        "Recreate: scales 1 old ReplicaSet to 0",
        "Recreate: waits until the pods of the old ReplicaSets have ended, 2 are counted in their status",
    ),
    (
        "statefulset",
        "ordered",
        "creates pod ordered-0: all pods with a lower ordinal are available",
        "waits for pod ordered-0 to be available: it is Pending, not ready",
        "creates pod ordered-1: all pods with a lower ordinal are available",
        "waits for the end of pod ordered-1",
        "waits for the end of pod ordered-0",
    ),
    ("statefulset", "parallel", "Parallel: creates 2 of 2 pods, corrects or replaces 0, deletes 0"),
    (
        "daemonset",
        "agent",
        "3 of 3 nodes are eligible; creates 3 pods and deletes 0",
        "1 of 3 eligible nodes have an available pod, 3 an updated one",
        "rolling update: 3 of 3 nodes are eligible; creates 0 pods and deletes 1",
        "2 of 3 eligible nodes have an available pod, 1 an updated one",
    ),
    (
        "job",
        "import",
        "creates 1 pod: has 0 active, 0 succeeded and 0 failed pods; parallelism 1, completions 2",
        "creates 1 pod: has 0 active, 1 succeeded and 0 failed pods; parallelism 1, completions 2",
    ),
    ("job", "suspended", "is suspended"),
    (
        "job",
        "limited",
        "has 0 active, 1 succeeded and 0 failed pods; activeDeadlineSeconds passes at 2026-01-01T00:01:45Z",
    ),
    (
        "replicaset",
        "replicas",
        "has 0 of 2 pods; creates 2",
        "1 of 2 pods are available, 1 are ready",
        "has 2 pods and needs 1; deletes 1",
    ),
    ("job", "failing", "creates pods in 9 s (backoff): has 0 active, 0 succeeded and 1 failed pods; backoffLimit 1"),
    ("ttl-after-finished", "import", "is deleted at 2026-01-01T00:01:47Z (ttlSecondsAfterFinished)"),
    (
        "cronjob",
        "minutely",
        "next scheduled time is 2026-01-01T00:01:00Z; has 0 active Jobs",
        "starts the Job of 2026-01-01T00:01:00Z",
        "next scheduled time is 2026-01-01T00:02:00Z; has 1 active Job",
    ),
    ("cronjob", "slow", "skips 2026-01-01T00:02:00Z: has 1 active Job and concurrencyPolicy is Forbid"),
    ("cronjob", "replaced", "starts the Job of 2026-01-01T00:02:00Z, replaces 1 active Job"),
    ("cronjob", "suspended", "is suspended: starts no Jobs"),
    (
        "disruption",
        "web",
        "allows 0 disruptions: 1 of 3 expected pods are healthy, 2 must be",
        "allows 1 disruption: 3 of 3 expected pods are healthy, 2 must be",
    ),
    (
        "horizontal-pod-autoscaler",
        "web",
        "scales from 3 to 4 replicas: Current number of replicas below Spec.MinReplicas (minReplicas 4, maxReplicas 8)",
    ),
]


@pytest.mark.parametrize(("controller", "name", "expected"), [(case[0], case[1], case[2:]) for case in REASONS])
def test_controller_gives_reasons(
    system: ControllerSystem, controller: str, name: str, expected: tuple[str, ...]
) -> None:
    reasons = reasons_of(system, f"{controller}-controller", f"default/{name}")
    assert [reason for reason in reasons if reason in expected] == list(expected), reasons
