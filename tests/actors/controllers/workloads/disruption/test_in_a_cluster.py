"""Disruption controller, workload controllers and the eviction API in a simulated cluster.

Source of the rules: kubernetes v1.36 pkg/controller/disruption, pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.controllers.workloads import deployment, disruption, replicaset
from kcm.actors.controllers.workloads.disruption.pod_counts import DELETION_TIMEOUT
from kcm.actors.controllers.workloads.disruption.stale_targets import TIMEOUT
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.budgets import DISRUPTION_ALLOWED, SYNC_FAILED
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, encode_object, labels_of, make_key, name_of
from kcm.protocols.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    Resource,
    resource_path,
)
from kcm.protocols.times import format_time
from kcm.runtime.client.api import Request, Response

SOON = 10.0  # seconds: pods start, and are counted
CONTROLLERS = (deployment.SPEC, replicaset.SPEC, disruption.SPEC)
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
Counts = tuple[int, int, int, int]


class Budgeted:
    """Cluster with nodes that run pods, and a manager."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self.cluster = SimulatedCluster(log=log)
        self.cluster.hollow_nodes(nodes=2, zones=1)
        self.cluster.manager(controllers=CONTROLLERS)
        self.cluster.run_for(1.0)

    def workload(self, name: str, replicas: int, resource: Resource = DEPLOYMENTS, **spec: Any) -> Object:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": CONTAINERS}
        whole = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}
        return self.cluster.create(resource, {"metadata": {"name": name}, "spec": whole})

    def pod(self, name: str, app: str, owner: Object | None = None) -> None:
        meta: Object = {"name": name, "labels": {"app": app}}
        if owner is not None:
            reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
            meta["ownerReferences"] = [
                {**reference, "name": name_of(owner), "uid": owner["metadata"]["uid"]},
            ]
        self.cluster.create(PODS, {"metadata": meta, "spec": CONTAINERS})

    def budget(self, name: str, app: str = "", **spec: Any) -> None:
        selector = {"matchLabels": {"app": app or name}}
        self.cluster.create(
            POD_DISRUPTION_BUDGETS, {"metadata": {"name": name}, "spec": {"selector": selector, **spec}}
        )

    def status(self, name: str) -> Object:
        found = self.cluster.get(POD_DISRUPTION_BUDGETS, make_key("default", name)) or {}
        return found.get("status") or {}

    def counted(self, name: str) -> Counts:
        """Return (allowed, healthy, desired, expected)."""
        status = self.status(name)
        fields = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        allowed, healthy, desired, expected = (status.get(field, -1) for field in fields)
        return allowed, healthy, desired, expected

    def comes_to(self, name: str, counts: Counts, *, within: float = SOON) -> None:
        assert self.cluster.run_until(lambda: self.counted(name) == counts, within=within), self.status(name)

    def pods(self, app: str) -> list[Object]:
        """Return the pods of an app, sorted by name."""
        return [pod for pod in self.cluster.list(PODS, "default") if labels_of(pod).get("app") == app]

    def evict(self, name: str) -> tuple[int, Object]:
        """Return the HTTP status and the body of the response."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
        response = self.cluster.request("POST", resource_path(PODS.id, "default", name, "eviction"), body)
        return response.status, orjson.loads(response.body)

    def events(self, reason: str) -> set[str]:
        """Return the names of objects with an event of this reason."""
        found = self.cluster.list(EVENTS, "default")
        return {event["involvedObject"]["name"] for event in found if event["reason"] == reason}


@pytest.fixture
def budgeted(log: FilteringBoundLogger) -> Budgeted:
    return Budgeted(log)


@pytest.mark.parametrize(
    ("spec", "of_five", "of_seven"),
    [
        ({"minAvailable": "50%"}, (2, 5, 3, 5), (3, 7, 4, 7)),
        ({"maxUnavailable": "30%"}, (2, 5, 3, 5), (3, 7, 4, 7)),
        ({"maxUnavailable": 1}, (1, 5, 4, 5), (1, 7, 6, 7)),
        ({"minAvailable": "100%"}, (0, 5, 5, 5), (0, 7, 7, 7)),
        ({"minAvailable": 3}, (2, 5, 3, 5), (4, 7, 3, 7)),
    ],
    ids=str,
)
def test_percentage_is_of_the_desired_replicas(
    budgeted: Budgeted, spec: Object, of_five: Counts, of_seven: Counts
) -> None:
    budgeted.workload("web", 5)
    budgeted.budget("web", **spec)
    budgeted.comes_to("web", of_five)
    budgeted.cluster.merge(DEPLOYMENTS, "default/web", {"spec": {"replicas": 7}}, subresource="scale")
    budgeted.comes_to("web", of_seven)


def test_missing_pods_allow_no_disruption(budgeted: Budgeted) -> None:
    """The percentage is of the desired number, not of the existing pods."""
    web = budgeted.workload("web", 4, STATEFULSETS, serviceName="web")
    for number in range(2):
        budgeted.pod(f"web-{number}", "web", web)
    budgeted.budget("web", maxUnavailable="50%")
    budgeted.comes_to("web", (0, 2, 2, 4))
    budgeted.pod("web-2", "web", web)
    budgeted.comes_to("web", (1, 3, 2, 4))


def test_new_size_is_counted_without_a_change_of_pods(budgeted: Budgeted) -> None:
    """No controller creates the pods, and the table of their owner may be later than that of the pods."""
    web = budgeted.workload("web", 2, STATEFULSETS, serviceName="web")
    for number in range(2):
        budgeted.pod(f"web-{number}", "web", web)
    budgeted.budget("web", maxUnavailable=1)
    budgeted.comes_to("web", (1, 2, 1, 2))
    budgeted.cluster.merge(STATEFULSETS, "default/web", {"spec": {"replicas": 5}}, subresource="scale")
    budgeted.comes_to("web", (0, 2, 4, 5))


def test_replica_set_without_deployment_is_counted_by_its_own_scale(budgeted: Budgeted) -> None:
    budgeted.workload("web", 3)
    budgeted.budget("web", maxUnavailable=1)
    budgeted.comes_to("web", (1, 3, 2, 3))
    budgeted.cluster.delete(DEPLOYMENTS, "default/web", policy="Orphan")
    budgeted.cluster.run_for(SOON)
    (replica_set,) = budgeted.cluster.list(REPLICASETS, "default")
    budgeted.cluster.merge(
        REPLICASETS, make_key("default", name_of(replica_set)), {"spec": {"replicas": 4}}, subresource="scale"
    )
    budgeted.comes_to("web", (1, 4, 3, 4))


def test_pods_without_a_controller_count_for_absolute_numbers_only(budgeted: Budgeted) -> None:
    for number in range(3):
        budgeted.pod(f"alone-{number}", "alone")
    budgeted.budget("number", "alone", minAvailable=2)
    budgeted.comes_to("number", (1, 3, 2, 3))
    assert budgeted.events("UnmanagedPods") == set()
    budgeted.budget("share", "alone", minAvailable="50%")
    budgeted.comes_to("share", (0, 3, 0, 0))
    assert budgeted.cluster.run_until(lambda: budgeted.events("UnmanagedPods") == {"share"}, within=SOON)


def test_uncountable_budget_allows_nothing_until_it_can_be_counted(budgeted: Budgeted) -> None:
    budgeted.workload("web", 3)
    budgeted.budget("web", maxUnavailable=1)
    budgeted.comes_to("web", (1, 3, 2, 3))
    strange = {"apiVersion": "x.example.com/v1", "kind": "None", "metadata": {"name": "x", "uid": "x"}}
    budgeted.pod("strange", "web", strange)
    budgeted.comes_to("web", (0, 3, 2, 3))
    condition = find_condition(budgeted.status("web")["conditions"], "DisruptionAllowed") or {}
    assert (condition["status"], condition["reason"]) == ("False", "SyncFailed")
    status, answer = budgeted.evict(name_of(budgeted.pods("web")[-1]))
    assert status == 429
    assert "because it failed sync: " in answer["details"]["causes"][0]["message"]
    budgeted.cluster.delete(PODS, "default/strange", grace_seconds=0)
    budgeted.comes_to("web", (1, 3, 2, 3), within=60.0)


def test_evictions_use_the_budget_and_replacements_restore_it(budgeted: Budgeted) -> None:
    budgeted.workload("web", 4)
    budgeted.budget("web", minAvailable=2)
    budgeted.comes_to("web", (2, 4, 2, 4))
    budgeted.cluster.crash("manager")  # the status is not updated meanwhile
    names = [name_of(pod) for pod in budgeted.pods("web")]
    assert [budgeted.evict(name)[0] for name in names] == [201, 201, 429, 429]
    assert set(budgeted.status("web")["disruptedPods"]) == set(names[:2])
    budgeted.cluster.run_for(SOON)
    assert [budgeted.evict(name)[0] for name in names[2:]] == [429, 429]
    budgeted.cluster.start_again("manager")
    budgeted.comes_to("web", (2, 4, 2, 4), within=60.0)
    assert "disruptedPods" not in budgeted.status("web")
    assert budgeted.evict(names[2])[0] == 201


def test_eviction_without_deletion_is_forgotten_after_two_minutes(budgeted: Budgeted) -> None:
    budgeted.workload("web", 3)
    budgeted.budget("web", maxUnavailable=1)
    budgeted.comes_to("web", (1, 3, 2, 3))
    name = name_of(budgeted.pods("web")[0])
    now = format_time(budgeted.cluster.clock.now())
    noted = {"status": {"disruptedPods": {name: now}, "disruptionsAllowed": 0}}
    budgeted.cluster.merge(POD_DISRUPTION_BUDGETS, "default/web", noted, subresource="status")
    budgeted.comes_to("web", (0, 2, 2, 3))
    budgeted.cluster.run_for(DELETION_TIMEOUT - SOON)
    assert budgeted.counted("web") == (0, 2, 2, 3)
    budgeted.comes_to("web", (1, 3, 2, 3), within=2 * SOON)
    budgeted.cluster.run_for(1.0)
    assert budgeted.events("NotDeleted") == {name}


def test_pod_with_two_budgets_is_reported_and_evicted_once_it_has_one(budgeted: Budgeted) -> None:
    budgeted.workload("web", 3)
    budgeted.budget("first", "web", minAvailable=1)
    budgeted.budget("second", "web", minAvailable=0)
    budgeted.comes_to("first", (2, 3, 1, 3))
    budgeted.comes_to("second", (3, 3, 0, 3))
    pods = budgeted.pods("web")
    name = name_of(pods[0])
    budgeted.cluster.merge(PODS, make_key("default", name), {"metadata": {"labels": {"touched": "yes"}}})
    budgeted.cluster.run_for(1.0)
    assert name in budgeted.events("MultiplePodDisruptionBudgets")
    status, answer = budgeted.evict(name)
    assert (status, answer["status"], answer["code"]) == (201, "Failure", 500)
    assert len(budgeted.pods("web")) == 3
    assert (budgeted.counted("first")[0], budgeted.counted("second")[0]) == (2, 3)
    budgeted.cluster.delete(POD_DISRUPTION_BUDGETS, "default/first")
    assert budgeted.evict(name)[1]["status"] == "Success"
    assert set(budgeted.status("second")["disruptedPods"]) == {name}


def test_changed_labels_move_a_pod_to_another_budget(budgeted: Budgeted) -> None:
    for number in range(2):
        budgeted.pod(f"p{number}", "a")
    budgeted.budget("a", minAvailable=1)
    budgeted.budget("b", minAvailable=0)
    budgeted.comes_to("a", (1, 2, 1, 2))
    budgeted.comes_to("b", (0, 0, 0, 0))
    budgeted.cluster.merge(PODS, "default/p0", {"metadata": {"labels": {"app": "b"}}})
    budgeted.comes_to("a", (0, 1, 1, 1))
    budgeted.comes_to("b", (1, 1, 0, 1))


@pytest.mark.parametrize("crash", [False, True])
def test_stale_disruption_target_is_reset_after_two_minutes(budgeted: Budgeted, crash: bool) -> None:
    budgeted.pod("a", "a")
    budgeted.cluster.run_for(SOON)

    def target() -> Object:
        pod = budgeted.cluster.get(PODS, "default/a") or {}
        return find_condition(pod["status"]["conditions"], "DisruptionTarget") or {}

    conditions = (budgeted.cluster.get(PODS, "default/a") or {})["status"]["conditions"]
    now = format_time(budgeted.cluster.clock.now())
    stale = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "lastTransitionTime": now}
    marked = {"status": {"conditions": [*conditions, stale]}}
    budgeted.cluster.merge(PODS, "default/a", marked, subresource="status")
    budgeted.cluster.run_for(TIMEOUT / 2)
    if crash:
        budgeted.cluster.crash("manager")
        budgeted.cluster.start_again("manager")
    budgeted.cluster.run_for(TIMEOUT / 2 - 2.0)
    assert target()["status"] == "True"
    assert budgeted.cluster.run_until(lambda: target()["status"] == "False", within=SOON)
    assert "reason" not in target()


@pytest.mark.parametrize("text", ["etcd is full", "etcd is full: {}"], ids=["the same", "another"])
def test_own_status_writes_do_not_cause_immediate_retries(
    budgeted: Budgeted, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Each failure has another text and changes the status: its event caused a sync at once, 600 times in 30 s."""
    serve = budgeted.cluster.network.serve
    counted: list[str] = []
    fails = True

    def failing(request: Request) -> Response:
        if fails and request.method == "PUT" and request.path.endswith("poddisruptionbudgets/web/status"):
            written = find_condition(orjson.loads(request.body)["status"].get("conditions"), DISRUPTION_ALLOWED) or {}
            if written.get("reason") != SYNC_FAILED:
                counted.append(text.format(len(counted)))
                status = {"kind": "Status", "message": counted[-1], "reason": "InternalError", "code": 500}
                return Response(status=500, body=encode_object(status))
        return serve(request)

    monkeypatch.setattr(budgeted.cluster.network, "serve", failing)
    budgeted.workload("web", 3)
    budgeted.budget("web", minAvailable=1)
    budgeted.cluster.run_for(60.0)
    condition = find_condition(budgeted.status("web")["conditions"], DISRUPTION_ALLOWED) or {}
    assert condition["reason"] == SYNC_FAILED
    assert condition["message"].endswith(counted[-1])
    assert 10 <= len(counted) <= 20  # after 5 ms, 10 ms, … and with the pods
    fails = False
    budgeted.cluster.merge(POD_DISRUPTION_BUDGETS, "default/web", {"spec": {"minAvailable": 2}})
    budgeted.comes_to("web", (1, 3, 2, 3), within=1.0)  # a write by another client enqueues the budget


def test_failure_of_uncountable_budget_is_recorded_as_often_as_upstream(log: FilteringBoundLogger) -> None:
    scene = Budgeted(log)
    owner = scene.cluster.create(CONFIGMAPS, {"metadata": {"name": "owner"}})  # a kind without a scale
    scene.pod("web-0", "web", {**owner, "apiVersion": "v1", "kind": "ConfigMap"})
    scene.cluster.run_for(SOON)
    scene.budget("web", maxUnavailable=1)
    scene.cluster.run_for(300.0)
    failures = [event for event in scene.cluster.list(EVENTS) if event["reason"] == "CalculateExpectedPodCountFailed"]
    # Upstream syncs when the budget is created and when its status was written.
    assert [event["count"] for event in failures] == [2]


def test_equal_failures_are_recorded_once_a_minute_while_only_pods_change(log: FilteringBoundLogger) -> None:
    """An event storm, seed 7700038 of swarm: a budget of a DaemonSet's pods got 26 events within its first second."""
    scene = Budgeted(log)
    owner = scene.cluster.create(CONFIGMAPS, {"metadata": {"name": "owner"}})  # a kind without a scale
    scene.budget("web", maxUnavailable=1)
    scene.cluster.run_for(SOON)

    def failures_after_more_pods(names: str) -> list[int]:
        for name in names:
            scene.pod(f"web-{name}", "web", {**owner, "apiVersion": "v1", "kind": "ConfigMap"})
            scene.cluster.run_for(2.0)
        events = scene.cluster.list(EVENTS)
        return [event["count"] for event in events if event["reason"] == "CalculateExpectedPodCountFailed"]

    assert failures_after_more_pods("abcdefghij") == [2]
    scene.cluster.run_for(60.0)
    assert failures_after_more_pods("k") == [3]
