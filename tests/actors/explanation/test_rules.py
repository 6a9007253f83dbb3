"""Causes that follow from a few objects, without a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.evidence import Evidence
from kcm.actors.explanation.explain import explain
from kcm.protocols import resources as r
from kcm.protocols.objects import Key, Object, key_of, namespace_of
from kcm.protocols.resources import Resource

CREATED, NOW = "2026-01-01T00:00:00Z", 1767225600.0 + 600.0


class Objects:
    """Reader of some objects."""

    def __init__(self, objects: Sequence[tuple[Resource, Object]]) -> None:
        self._objects = objects

    def get(self, resource: Resource, key: Key) -> Object | None:
        return next((obj for obj in self.list(resource, "", labels="", most=500) if key_of(obj) == key), None)

    def list(self, resource: Resource, namespace: str, *, labels: str, most: int) -> Sequence[Object]:
        del labels, most
        found = (obj for kind, obj in self._objects if kind == resource)
        return [obj for obj in found if not namespace or namespace_of(obj) == namespace]

    def events(self, namespace: str, uid: str, *, most: int) -> Sequence[Object]:
        del namespace, uid, most
        return ()

    def find(self, group: str, kind: str) -> Resource | None:
        found = (resource for resource, _ in self._objects if (resource.group, resource.plural) == (group, kind))
        return next(found, None)


def made(resource: Resource, name: str, **fields: Any) -> tuple[Resource, Object]:
    metadata = {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": CREATED, "generation": 1}
    if resource.namespaced:
        metadata["namespace"] = "shop"
    return resource, {"metadata": {**metadata, **fields.pop("metadata", {})}, **fields}


def causes(asked: Resource, key: Key, *objects: tuple[Resource, Object]) -> Sequence[Cause]:
    return explain(asked, key, Evidence(Objects(objects), now=NOW)).causes


def refused(requested: str, used: str, limited: str) -> tuple[Resource, Object]:
    """Return a ReplicaSet whose pod was refused by the quota `small`."""
    message = f"is forbidden: exceeded quota: small, requested: {requested}, used: {used}, limited: {limited}"
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    status = {"replicas": 0, "observedGeneration": 1, "conditions": [{**condition, "lastTransitionTime": CREATED}]}
    return made(r.REPLICASETS, "web", spec={"replicas": 1, "selector": {"matchLabels": {"app": "web"}}}, status=status)


def quota(used: Mapping[str, str], hard: Mapping[str, str], **spec: Any) -> tuple[Resource, Object]:
    return made(r.RESOURCE_QUOTAS, "small", spec={"hard": hard, **spec}, status={"hard": hard, "used": used})


@pytest.mark.parametrize(
    ("refusal", "used", "hard", "text"),
    [
        (("pods=1", "pods=2", "pods=2"), {"pods": "2"}, {"pods": "2"}, "the ResourceQuota small is used up"),
        (
            ("cpu=3", "cpu=0", "cpu=2"),
            {"cpu": "0"},
            {"cpu": "2"},
            "requests cpu 3, and the ResourceQuota small allows 2",
        ),
        (("cpu=1500m", "cpu=1", "cpu=2"), {"cpu": "1"}, {"cpu": "2"}, "has less left: 1 of 2 is used"),
        (("pods=1", "pods=2", "pods=2"), {"pods": "2"}, {"pods": "9"}, "has room again"),
    ],
)
def test_refusal_of_a_quota_is_compared_with_the_quota(
    refusal: tuple[str, str, str], used: Mapping[str, str], hard: Mapping[str, str], text: str
) -> None:
    found = causes(r.REPLICASETS, "shop/web", refused(*refusal), quota(used, hard))
    assert [cause.code for cause in found] == ["quota-exceeded"]
    assert text in found[0].summary


def test_refusal_with_malformed_amounts_is_explained() -> None:
    found = causes(
        r.REPLICASETS, "shop/web", refused("pods=many", "pods=?", "pods="), quota({"pods": "1"}, {"pods": "2"})
    )
    assert (found[0].code, "has room" in found[0].summary) == ("quota-exceeded", False)


def test_scope_of_a_quota_is_shown() -> None:
    rule = {"scopeName": "PriorityClass", "operator": "In", "values": ["low"]}
    small = quota({"pods": "2"}, {"pods": "2"}, scopeSelector={"matchExpressions": [rule]})
    found = causes(r.REPLICASETS, "shop/web", refused("pods=1", "pods=2", "pods=2"), small)
    assert "it counts only what has the scope PriorityClass In low" in found[0].evidence[-1]


def budget(name: str, labels: Mapping[str, str], *, allowed: int = 1) -> tuple[Resource, Object]:
    status = {"observedGeneration": 1, "expectedPods": 1, "disruptionsAllowed": allowed}
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    return made(r.POD_DISRUPTION_BUDGETS, name, spec=spec, status=status)


def test_pod_of_two_budgets_blocks_a_drain() -> None:
    pod = made(r.PODS, "web-1", metadata={"labels": {"app": "web", "tier": "front"}}, spec={"nodeName": "a"})
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": CREATED}
    cordoned = made(r.NODES, "a", spec={"unschedulable": True}, status={"conditions": [ready]})
    budgets = (budget("web", {"app": "web"}), budget("front", {"tier": "front"}))
    found = causes(r.NODES, "a", cordoned, pod, *budgets)
    assert [cause.code for cause in found] == ["drain-blocked", "node-cordoned"]
    assert "web-1 cannot be evicted: the PodDisruptionBudgets web and front" in found[0].summary
    assert causes(r.NODES, "a", cordoned, pod, budgets[0])[0].code == "node-cordoned"


@pytest.mark.parametrize(
    ("rule", "is_ignored"),
    [
        ({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}, True),
        ({"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [1]}}, True),
        ({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42], "containerName": "other"}}, False),
        ({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}, True),
        ({"action": "Count", "onExitCodes": {"operator": "In", "values": [42]}}, False),
    ],
)
def test_failures_that_a_job_ignores_are_named(rule: Mapping[str, Any], *, is_ignored: bool) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "import", "uid": "uid-of-import", "controller": True}
    ended = {"name": "main", "state": {"terminated": {"exitCode": 42, "reason": "Error"}}}
    evicted = {"type": "DisruptionTarget", "status": "True"}
    status = {"phase": "Failed", "containerStatuses": [ended], "conditions": [evicted], "reason": "Error"}
    pod = made(r.PODS, "import-1", metadata={"ownerReferences": [owner]}, spec={"nodeName": "a"}, status=status)
    spec = {"backoffLimit": 2, "podFailurePolicy": {"rules": [rule]}}
    job = made(r.JOBS, "import", spec=spec, status={"startTime": CREATED, "failed": 0 if is_ignored else 1})
    found = causes(r.JOBS, "shop/import", job, pod)
    assert [cause.code for cause in found] == ["pod-failed", "failing-pods-backoff"]
    assert ("podFailurePolicy ignores" in found[0].evidence[-1]) is is_ignored
