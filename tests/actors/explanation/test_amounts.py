"""Names, amounts and thresholds in the texts of causes, and waits that end by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kcm.actors.explanation.cause import Cause, Explanation
from kcm.actors.explanation.evidence import Evidence
from kcm.actors.explanation.explain import explain
from kcm.actors.explanation.kinds import INGRESSES, LIMIT_RANGES
from kcm.protocols import resources as r
from kcm.protocols.objects import Key, Object
from kcm.protocols.resources import Resource
from kcm.protocols.times import format_time
from tests.actors.explanation.test_rules import NOW, Objects, causes, made

APPLICATIONS = Resource(group="argoproj.io", version="v1alpha1", plural="applications", kind="Application")


def ago(seconds: float) -> str:
    return format_time(NOW - seconds)


def explained(asked: Resource, key: Key, *objects: tuple[Resource, Object]) -> Explanation:
    return explain(asked, key, Evidence(Objects(objects), now=NOW))


def text_of(cause: Cause) -> str:
    return "\n".join((cause.about, cause.summary, *cause.evidence))


def condition(kind: str, status: str, seconds: float = 30.0, **more: str) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": ago(seconds), **more}


READY_NODE = made(
    r.NODES, "a", status={"conditions": [condition("Ready", "True")], "allocatable": {"cpu": "4", "pods": "2"}}
)


def pod(name: str, status: Object, **spec: Any) -> tuple[Resource, Object]:
    containers = [{"name": "main", "image": "web:1", **spec.pop("container", {})}]
    metadata = {"labels": {"app": "web"}, "creationTimestamp": ago(100.0)}
    return made(
        r.PODS, name, metadata=metadata, spec={"nodeName": "a", "containers": containers, **spec}, status=status
    )


def running(seconds: float, **fields: Any) -> Object:
    state = {"running": {"startedAt": ago(seconds)}}
    return {"phase": "Running", "containerStatuses": [{"name": "main", "ready": False, "state": state, **fields}]}


def test_objects_that_remain_in_a_namespace_are_named() -> None:
    message = "Some resources are remaining: applications.argoproj.io has 8 resource instances"
    conditions = [condition("NamespaceContentRemaining", "True", message=message)]
    deleted = {"deletionTimestamp": ago(90.0)}
    namespace = made(r.NAMESPACES, "shop", metadata=deleted, status={"conditions": conditions})
    kept = made(APPLICATIONS, "guestbook", metadata={**deleted, "finalizers": ["example.com/cascade"]})
    others = [made(APPLICATIONS, f"app-{number}") for number in range(7)]
    found = causes(r.NAMESPACES, "shop", namespace, *others, kept)
    assert [cause.code for cause in found] == ["finalizer", "namespace-not-empty"]
    assert found[0].about == "application shop/guestbook"
    lines = found[1].evidence[1:]
    assert lines[0] == f"application guestbook is being deleted since {ago(90.0)}, with finalizers: example.com/cascade"
    assert lines[1] == "application app-0 is not being deleted, with finalizers: none"
    assert lines[-1] == "and 3 more objects"


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        ({"container": {"resources": {"limits": {"memory": "256Mi"}}}}, "exceeds its memory limit of 256Mi"),
        ({"resources": {"limits": {"memory": "1Gi"}}}, "exceeds its pod's memory limit of 1Gi"),
        ({}, "has no memory limit, and exceeds the memory of its node a"),
    ],
)
def test_memory_limit_that_is_exceeded_is_named(resources: Mapping[str, Any], text: str) -> None:
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": ago(5.0)}}
    crashing = {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": killed}
    status = {"phase": "Running", "containerStatuses": [{**crashing, "restartCount": 3}]}
    (found,) = causes(r.PODS, "shop/web-1", READY_NODE, pod("web-1", status, **resources))
    assert found.code == "out-of-memory"
    assert f"{text}, after 3 restarts" in found.summary
    failed = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": killed}]}
    (found,) = causes(r.PODS, "shop/web-1", READY_NODE, pod("web-1", failed, **resources))
    assert text in found.summary


def test_last_message_of_a_container_without_a_right_is_shown() -> None:
    message = 'starting\nUser "system:serviceaccount:shop:reader" cannot list resource "deployments"\n'
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": ago(5.0), "message": message}}
    crashing = {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
    status = {"phase": "Running", "containerStatuses": [{**crashing, "restartCount": 3}]}
    (found,) = causes(r.PODS, "shop/web-1", READY_NODE, pod("web-1", status, serviceAccountName="reader"))
    assert found.code == "crash-loop"
    assert found.summary.endswith("after 3 restarts: RBAC denies its service account reader a right")
    assert found.evidence[-1].endswith('cannot list resource "deployments"')


@pytest.mark.parametrize(
    ("policy", "seconds", "code"),
    [("Never", 90.0, "container-does-not-end"), ("Never", 20.0, "unexplained"), ("Always", 90.0, "unexplained")],
)
def test_container_that_outlives_the_others_is_named(policy: str, seconds: float, code: str) -> None:
    ended = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": ago(seconds)}}
    statuses = [
        {"name": "main", "state": ended, "ready": False},
        {"name": "proxy", "state": {"running": {"startedAt": ago(100.0)}}, "ready": True},
    ]
    status = {"phase": "Running", "containerStatuses": statuses}
    (found,) = causes(r.PODS, "shop/web-1", READY_NODE, pod("web-1", status, restartPolicy=policy))
    assert found.code == code
    assert code == "unexplained" or "container proxy still runs, 90 s after container main" in found.summary


STARTUP = {"startupProbe": {"httpGet": {"path": "/up", "port": 80}, "periodSeconds": 10, "failureThreshold": 30}}
READINESS = {"readinessProbe": {"tcpSocket": {"port": 80}, "initialDelaySeconds": 120}}


@pytest.mark.parametrize(
    ("probe", "started", "seconds", "verdict", "code"),
    [
        (STARTUP, False, 40.0, "under way", "not-available-yet"),
        (STARTUP, False, 290.0, "under way", "not-available-yet"),
        (STARTUP, False, 310.0, "stuck", "startup-probe"),
        (READINESS, True, 140.0, "under way", "not-available-yet"),
        (READINESS, True, 151.0, "stuck", "readiness-probe"),
        ({}, True, 31.0, "stuck", "readiness-probe"),
    ],
)
def test_probes_give_a_container_time_to_start(
    probe: Mapping[str, Any], seconds: float, verdict: str, code: str, *, started: bool
) -> None:
    starting = pod("web-1", running(seconds, started=started), container=probe)
    found = explained(r.PODS, "shop/web-1", READY_NODE, starting)
    assert (found.verdict, [cause.code for cause in found.causes]) == (verdict, [code])
    if probe:
        assert "failureThreshold" in found.causes[0].evidence[-1]


def owned(resource: Resource, name: str, owner: str, kind: str, **fields: Any) -> tuple[Resource, Object]:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"uid-of-{owner}", "controller": True}
    metadata = {"labels": {"app": "web"}, "ownerReferences": [reference], **fields.pop("metadata", {})}
    return made(resource, name, metadata=metadata, **fields)


@pytest.mark.parametrize(
    ("updated", "started", "verdict", "code"),
    [
        (12.0, 12.0, "under way", []),  # nothing is late
        (500.0, 90.0, "stuck", ["readiness-probe", "rollout-limits"]),
        (601.0, 12.0, "stuck", ["rollout-limits"]),  # no progress within progressDeadlineSeconds
    ],
)
def test_rollout_with_new_pods_is_under_way(updated: float, started: float, verdict: str, code: list[str]) -> None:
    selector = {"matchLabels": {"app": "web"}}
    progressing = condition("Progressing", "True", updated, lastUpdateTime=ago(updated), reason="ReplicaSetUpdated")
    counts = {"replicas": 4, "updatedReplicas": 1, "readyReplicas": 3, "availableReplicas": 3, "observedGeneration": 1}
    status = {**counts, "conditions": [progressing]}
    web = made(r.DEPLOYMENTS, "web", spec={"replicas": 3, "selector": selector}, status=status)
    sets = [
        owned(
            r.REPLICASETS,
            name,
            "web",
            "Deployment",
            metadata={"annotations": {"deployment.kubernetes.io/revision": revision}},
            spec={"replicas": replicas, "selector": selector},
            status={"replicas": replicas, "readyReplicas": ready, "availableReplicas": ready, "observedGeneration": 1},
        )
        for name, revision, replicas, ready in (("web-old", "1", 3, 3), ("web-new", "2", 1, 0))
    ]
    spec = {"nodeName": "a", "containers": [{"name": "main"}]}
    young = owned(r.PODS, "web-new-1", "web-new", "ReplicaSet", spec=spec, status=running(started, started=True))
    changed = [{"manager": "kubectl", "time": ago(12.0)}]
    web[1]["metadata"]["managedFields"] = changed
    found = explained(r.DEPLOYMENTS, "shop/web", web, *sets, young, READY_NODE)
    assert (found.verdict, [cause.code for cause in found.causes]) == (verdict, code)


def test_daemon_pods_that_are_not_available_yet_are_under_way() -> None:
    counts = {"desiredNumberScheduled": 3, "numberReady": 3, "updatedNumberScheduled": 1, "numberAvailable": 2}
    spec = {"minReadySeconds": 180, "selector": {"matchLabels": {"app": "web"}}}
    agent = made(r.DAEMONSETS, "agent", spec=spec, status={**counts, "observedGeneration": 1})
    found = explained(r.DAEMONSETS, "shop/agent", agent)
    assert (found.verdict, found.summary) == (
        "under way",
        "its pods are ready, but 1 of 3 not for minReadySeconds (180 s) yet",
    )


def unscheduled(reason: str, **spec: Any) -> tuple[Resource, Object]:
    message = f"0/1 nodes are available: 1 {reason}. preemption: none."
    status = {"phase": "Pending", "conditions": [condition("PodScheduled", "False", message=message)]}
    return pod("web-2", status, **{"nodeName": None, **spec})


@pytest.mark.parametrize(
    ("reason", "spec", "line"),
    [
        (
            "Insufficient cpu",
            {"container": {"resources": {"requests": {"cpu": "2"}}}},
            "node a has 500m of 4 cpu free; pod shop/web-1 requests most of it, 3500m",
        ),
        ("Too many pods", {}, "node a has 1 of 2 pods"),
        (
            "node(s) didn't match pod anti-affinity rules",
            {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
                        ]
                    }
                }
            },
            "its podAntiAffinity forbids pods with app=web in the same zone: web-1 on a",
        ),
    ],
)
def test_nodes_that_are_excluded_are_described(reason: str, spec: Mapping[str, Any], line: str) -> None:
    placed = pod("web-1", running(50.0, ready=True), container={"resources": {"requests": {"cpu": "3500m"}}})
    (found,) = causes(r.PODS, "shop/web-2", READY_NODE, placed, unscheduled(reason, **spec))
    assert line in found.evidence


def test_limit_range_that_refuses_a_pod_is_named() -> None:
    message = 'pods "web" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi'
    failure = condition("ReplicaFailure", "True", reason="FailedCreate", message=message)
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}}
    web = made(r.REPLICASETS, "web", spec=spec, status={"observedGeneration": 1, "conditions": [failure]})
    (found,) = causes(r.REPLICASETS, "shop/web", web, made(LIMIT_RANGES, "small"))
    assert found.code == "limit-range"
    assert "1Gi, but limit is 2Gi (LimitRange small)" in found.summary


@pytest.mark.parametrize(("port", "code"), [({"number": 8080}, "backend-missing"), ({"name": "http"}, None)])
def test_port_of_a_backend_must_exist(port: Object, code: str | None) -> None:
    ports = [{"name": "http", "port": 80}]
    service = made(r.SERVICES, "web", spec={"ports": ports})
    backend = {"service": {"name": "web", "port": port}}
    public = made(INGRESSES, "public", spec={"defaultBackend": backend})
    found = explained(INGRESSES, "shop/public", service, public).causes
    assert [cause.code for cause in found] == ([code] if code else [])
    assert not found or "has no port 8080, but http 80" in found[0].summary
