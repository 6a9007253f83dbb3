"""Disruption reconciler: cases of upstream's pkg/controller/disruption/disruption_test.go, and failures."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.workloads.disruption.events import unmanaged_pods
from kcm.actors.controllers.workloads.disruption.pod_counts import DELETION_TIMEOUT, CannotCountError
from kcm.actors.controllers.workloads.disruption.reconciler import RECHECK_QUEUE
from kcm.actors.reconciliation import Enqueue, RequeueAfter, Retry
from kcm.actors.simulation.driver import bodies, drive_steps
from kcm.protocols.conditions import find_condition
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Get, Update
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Outcome, Refused, ServerFailure
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    STATEFULSETS,
    Resource,
)
from kcm.protocols.times import format_time
from tests.actors.controllers.workloads.disruption.scene import (
    KEY,
    LABELS,
    NOW,
    Scene,
    a_budget,
    a_pod,
    an_owner,
    written,
)

THINGS = Resource(group="custom.k8s.io", version="v1", plural="customs", kind="Custom")


def served(resource: Resource, *, scale: str = "autoscaling/v1", namespaced: bool = True) -> ServedResource:
    return ServedResource(
        group=resource.group,
        version=resource.version,
        plural=resource.plural,
        kind=resource.kind,
        namespaced=namespaced,
        scale=scale,
    )


def test_budget_without_pods_allows_nothing() -> None:
    scene = Scene(budgets=[a_budget(minAvailable=3)])
    driven = scene.sync()
    assert scene.counts() == (0, 0, 3, 0)
    assert driven.events == [("Normal", "NoPods", "No matching pods found")]
    scene.bench.show(PODS, a_pod("one"))
    scene.sync()
    assert scene.counts() == (0, 1, 3, 1)


def test_unready_pod_is_not_healthy() -> None:
    pods = [a_pod(f"p{i}") for i in range(4)]
    scene = Scene(budgets=[a_budget(minAvailable=3)], pods=pods)
    scene.sync()
    assert scene.counts() == (1, 4, 3, 4)
    scene.bench.show(PODS, a_pod("p0", ready=False))
    scene.sync()
    assert scene.counts() == (0, 3, 3, 4)


def test_unchanged_budget_is_not_written() -> None:
    scene = Scene(budgets=[a_budget(minAvailable=1)], pods=[a_pod("p")])
    assert len(written(scene.sync())) == 1
    assert scene.sync().commands == []


def test_scale_is_read_in_every_sync() -> None:
    owner = an_owner(REPLICASETS, "rs", 7)
    scene = Scene(budgets=[a_budget(maxUnavailable=2)], pods=[a_pod("p", owner)], owners=[(REPLICASETS, owner)])
    scene.sync()
    assert scene.counts() == (0, 1, 5, 7)
    scene.bench.show(REPLICASETS, an_owner(REPLICASETS, "rs", 5))
    scene.sync()
    assert scene.counts() == (0, 1, 3, 5)


@pytest.mark.parametrize("resource", [REPLICATION_CONTROLLERS, STATEFULSETS, REPLICASETS])
def test_percentage_is_of_the_scale_of_the_controller(resource: Resource) -> None:
    owner = an_owner(resource, "o", 3)
    pods = [a_pod(f"p{i}", owner) for i in range(3)]
    scene = Scene(budgets=[a_budget(minAvailable="34%")], pods=pods, owners=[(resource, owner)])
    scene.sync()
    assert scene.counts() == (1, 3, 2, 3)


def test_replica_sets_of_one_deployment_are_counted_once() -> None:
    deployment = an_owner(DEPLOYMENTS, "web", 5)
    old, new = (an_owner(REPLICASETS, name, size, deployment) for name, size in (("old", 3), ("new", 4)))
    pods = [a_pod("p0", old), a_pod("p1", new)]
    owners = [(DEPLOYMENTS, deployment), (REPLICASETS, old), (REPLICASETS, new)]
    scene = Scene(budgets=[a_budget(maxUnavailable=1)], pods=pods, owners=owners)
    scene.sync()
    assert scene.counts() == (0, 2, 4, 5)


def test_scales_of_several_controllers_are_added() -> None:
    both = [an_owner(REPLICATION_CONTROLLERS, name, 11) for name in ("a", "b")]
    pods = [a_pod(f"{owner['metadata']['name']}-{i}", owner) for owner in both for i in range(11)]
    scene = Scene(
        budgets=[a_budget(minAvailable="28%")], pods=pods, owners=[(REPLICATION_CONTROLLERS, owner) for owner in both]
    )
    scene.sync()
    assert scene.counts() == (15, 22, 7, 22)


def test_pod_without_a_controller_is_reported_and_only_counts_as_healthy() -> None:
    owner = an_owner(REPLICATION_CONTROLLERS, "rc", 3)
    pods = [a_pod("rogue"), *(a_pod(f"p{i}", owner) for i in range(3))]
    scene = Scene(budgets=[a_budget(minAvailable="34%")], pods=pods, owners=[(REPLICATION_CONTROLLERS, owner)])
    driven = scene.sync()
    assert scene.counts() == (2, 4, 2, 3)
    assert driven.events == [("Warning", "UnmanagedPods", unmanaged_pods({"matchLabels": LABELS}))]


def test_percentage_allows_nothing_for_pods_without_controllers() -> None:
    scene = Scene(budgets=[a_budget(minAvailable="28%")], pods=[a_pod("naked")])
    scene.sync()
    assert scene.counts() == (0, 1, 0, 0)


def test_absolute_number_needs_no_scale() -> None:
    owner = an_owner(THINGS, "unknown", 1)
    scene = Scene(budgets=[a_budget(minAvailable=1)], pods=[a_pod("p", owner), a_pod("naked")])
    driven = scene.sync()
    assert scene.counts() == (1, 2, 1, 2)
    assert driven.events == []


@pytest.mark.parametrize(
    ("name", "uid"), [("gone", "ReplicaSet-rs"), ("rs", "another")], ids=["not there", "another of its name"]
)
def test_missing_owner_cannot_be_counted(name: str, uid: str) -> None:
    there = an_owner(REPLICASETS, "rs", 3)
    owner = {**there, "metadata": {**there["metadata"], "name": name, "uid": uid}}
    scene = Scene(
        budgets=[a_budget(maxUnavailable=1)],
        pods=[a_pod("p", owner)],
        owners=[(REPLICASETS, there)],
        served=[served(REPLICASETS)],
    )

    def answer(command: Command) -> Outcome:
        return NotFound("no") if isinstance(command, Get) else scene.bench.accept(command)

    driven = scene.sync(answer, raises=CannotCountError)
    why = 'found no controllers for pod "p"'
    text = f"Failed to calculate the number of expected pods: {why}"
    assert driven.events == [("Warning", "CalculateExpectedPodCountFailed", text)]
    (status,) = written(driven)
    condition = find_condition(status["conditions"], "DisruptionAllowed")
    assert condition is not None
    assert (condition["reason"], condition["message"]) == ("SyncFailed", why)
    assert scene.sync(answer, raises=CannotCountError).of(Update) == [], "the failure is written once"


def scaled(replicas: int, uid: str) -> Done:
    body: Object = {"metadata": {"name": "c", "namespace": "default", "uid": uid}, "spec": {"replicas": replicas}}
    return Done(encode_object(body))


def live(scene: Scene, scale: Outcome) -> list[Command]:
    """Sync with this outcome of reading the scale. Returns the commands; the status contains the error."""

    def answer(command: Command) -> Outcome:
        return scale if isinstance(command, Get) else scene.bench.accept(command)

    return scene.sync(answer, raises=None).commands


def of_thing(kind: ServedResource | None) -> Scene:
    thing = an_owner(THINGS, "c", 10)
    pods = [a_pod(f"p{i}", thing) for i in range(4)]
    return Scene(budgets=[a_budget(maxUnavailable=5)], pods=pods, served=[] if kind is None else [kind])


def test_any_kind_with_a_scale_is_counted() -> None:
    scene = of_thing(served(THINGS))
    get, put = live(scene, scaled(10, "Custom-c"))
    assert get == Get("custom.k8s.io/v1/customs", "default/c", "scale")
    assert isinstance(put, Update)
    assert scene.counts() == (0, 4, 5, 10)


@pytest.mark.parametrize(
    ("kind", "answer", "why"),
    [
        (None, NotFound(), 'no matches for kind "Custom" in version "custom.k8s.io/v1"'),
        (served(THINGS), NotFound(), 'found no controllers for pod "p0"'),
        (served(THINGS), scaled(10, "another"), 'found no controllers for pod "p0"'),
        (served(THINGS), ServerFailure("it is down"), "it is down"),
        (served(THINGS, scale=""), NotFound(), "customs.custom.k8s.io does not implement the scale subresource"),
        (served(THINGS, scale="v3/v3"), NotFound(), "customs.custom.k8s.io does not implement the scale subresource"),
        (
            served(THINGS, scale="", namespaced=False),
            scaled(10, "Custom-c"),
            "customs.custom.k8s.io does not implement the scale subresource",
        ),
    ],
)
def test_unreadable_scale_is_reported(kind: ServedResource | None, answer: Outcome, why: str) -> None:
    scene = of_thing(kind)
    with pytest.raises(CannotCountError, match=why):
        live(scene, answer)
    status = (scene.tables[POD_DISRUPTION_BUDGETS].get(KEY) or {})["status"]
    assert status["disruptionsAllowed"] == 0
    assert status["conditions"][0]["message"] == why


def test_budget_waits_for_discovery() -> None:
    thing = an_owner(THINGS, "c", 10)
    scene = Scene(budgets=[a_budget(maxUnavailable=5)], pods=[a_pod("p", thing)], served=None)
    driven = scene.sync(raises=Retry)
    assert driven.commands == []
    assert driven.events == []


def test_replica_set_of_deleted_deployment_is_counted_by_its_own_scale() -> None:
    gone = an_owner(DEPLOYMENTS, "gone", 9)
    left = an_owner(REPLICASETS, "left", 4, gone)
    scene = Scene(
        budgets=[a_budget(maxUnavailable=1)],
        pods=[a_pod("p", left)],
        owners=[(REPLICASETS, left)],
        served=[served(REPLICASETS)],
    )
    live(scene, scaled(4, "ReplicaSet-left"))
    assert scene.counts() == (0, 1, 3, 4)


@pytest.mark.parametrize(
    "spec",
    [
        {"selector": {"matchExpressions": [{"key": "app", "operator": "Maybe"}]}},
        {"selector": {"matchLabels": {"app": "/"}}},
        {"selector": "app=web"},
    ],
)
def test_invalid_selector_allows_nothing(spec: Object) -> None:
    scene = Scene(budgets=[a_budget(status={"disruptionsAllowed": 2}, minAvailable=1, **spec)], pods=[a_pod("p")])
    driven = scene.sync(raises=CannotCountError)
    ((kind, reason, message),) = driven.events
    assert (kind, reason) == ("Warning", "NoPods")
    assert message.startswith("Failed to get pods: ")
    assert written(driven)[0]["disruptionsAllowed"] == 0


@pytest.mark.parametrize(
    "budget",
    [
        a_budget(minAvailable="ten"),
        a_budget(maxUnavailable=[1]),
        a_budget(minAvailable=1, status={"disruptedPods": {"p": "yesterday"}}),
    ],
)
def test_malformed_budget_allows_nothing(budget: Object) -> None:
    scene = Scene(budgets=[budget], pods=[a_pod("p")])
    driven = scene.sync(raises=CannotCountError)
    assert written(driven)[0]["disruptionsAllowed"] == 0


def test_evicted_pod_is_not_healthy_and_rechecked_later() -> None:
    status: Object = {"disruptedPods": {"p0": format_time(NOW - 30), "other": format_time(NOW)}}
    scene = Scene(budgets=[a_budget(status=status, minAvailable=1)], pods=[a_pod(f"p{i}") for i in range(3)])
    driven = scene.sync()
    assert scene.counts() == (1, 2, 1, 3)
    assert written(driven)[0]["disruptedPods"] == {"p0": format_time(NOW - 30)}
    assert driven.enqueued == [Enqueue(RECHECK_QUEUE, KEY, after=DELETION_TIMEOUT)]
    again = drive_steps(scene.reconciler.recheck(KEY), scene.bench.accept, tables=scene.tables)
    assert again.enqueued == [Enqueue("disruption", KEY)]


def test_eviction_is_kept_until_a_late_table_shows_its_pod() -> None:
    """The table shows neither the pod nor its eviction, then the pod, then its deletion."""
    scene = Scene(pods=[a_pod("p0"), a_pod("p1")])
    status: Object = {"disruptedPods": {"new": format_time(NOW)}}
    scene.bench.show(POD_DISRUPTION_BUDGETS, a_budget(status=status, minAvailable=1))
    driven = scene.sync()
    assert written(driven)[0]["disruptedPods"] == status["disruptedPods"]
    assert driven.enqueued == [Enqueue(RECHECK_QUEUE, KEY, after=DELETION_TIMEOUT)]
    scene.bench.show(PODS, a_pod("new"))
    scene.sync()
    assert scene.counts() == (1, 2, 1, 3)
    scene.bench.hide(PODS, "default/new")
    assert "disruptedPods" not in written(scene.sync())[0]
    assert scene.counts() == (1, 2, 1, 2)


def test_eviction_is_forgotten_with_its_pod_after_an_own_write() -> None:
    """The controller has written the budget meanwhile, and no other pod changes."""
    scene = Scene(pods=[a_pod("p0"), a_pod("new")])
    status: Object = {"disruptedPods": {"new": format_time(NOW)}}
    scene.bench.show(POD_DISRUPTION_BUDGETS, a_budget(status=status, minAvailable=1))
    scene.sync()
    scene.bench.hide(PODS, "default/new")
    budget = scene.tables[POD_DISRUPTION_BUDGETS].get(KEY)
    assert budget is not None
    meta = {name: value for name, value in budget["metadata"].items() if name != "resourceVersion"}
    scene.bench.show(POD_DISRUPTION_BUDGETS, {**budget, "metadata": meta})
    assert "disruptedPods" not in written(scene.sync())[0]


def test_eviction_of_unseen_pod_is_forgotten_after_two_minutes() -> None:
    scene = Scene(pods=[a_pod("p0")])
    status: Object = {"disruptedPods": {"new": format_time(NOW)}}
    scene.bench.show(POD_DISRUPTION_BUDGETS, a_budget(status=status, minAvailable=0))
    scene.sync()
    scene.bench.clock.advance(DELETION_TIMEOUT)
    assert "disruptedPods" not in written(scene.sync())[0]


def test_pod_that_was_not_deleted_is_counted_again() -> None:
    """Two minutes after the eviction was observed, on the controller's clock."""
    status: Object = {"disruptedPods": {"p0": format_time(NOW - 3600)}}
    scene = Scene(budgets=[a_budget(status=status, minAvailable=1)], pods=[a_pod(f"p{i}") for i in range(3)])
    scene.sync()
    assert scene.counts() == (1, 2, 1, 3)
    scene.bench.clock.advance(DELETION_TIMEOUT)
    driven = scene.sync()
    assert scene.counts() == (2, 3, 1, 3)
    assert "disruptedPods" not in written(driven)[0]
    text = "Pod was expected by PDB default/budget to be deleted but it wasn't"
    assert driven.events == [("Warning", "NotDeleted", text)]


def test_conflict_is_retried_without_other_writes() -> None:
    scene = Scene(budgets=[a_budget(minAvailable=1)], pods=[a_pod("p")])
    driven = scene.sync(lambda _command: Conflict("later"), raises=CommandError)
    assert len(driven.of(Update)) == 1


def test_failed_status_write_is_followed_by_a_fail_safe_status() -> None:
    scene = Scene(budgets=[a_budget(status={"disruptionsAllowed": 1}, minAvailable=1)], pods=[a_pod("p")])
    outcomes = iter([ServerFailure("etcd is full")])

    def answer(command: Command) -> Outcome:
        return next(outcomes, None) or scene.bench.accept(command)

    driven = scene.sync(answer, raises=CommandError)
    first, second = written(driven)
    assert second["disruptionsAllowed"] == 0
    assert second["conditions"][0]["message"] == "etcd is full"
    assert "currentHealthy" in first


@pytest.mark.parametrize("outcome", [Refused("fenced"), NotFound("gone")])
def test_failed_fail_safe_status_ends_the_sync(outcome: Outcome) -> None:
    scene = Scene(budgets=[a_budget(minAvailable=1)], pods=[a_pod("p")])
    raises = CommandError if isinstance(outcome, Refused) else None
    assert len(scene.sync(lambda _command: outcome, raises=raises).commands) == 1


def test_deleted_budget_is_ignored() -> None:
    assert Scene().sync().commands == []


# The condition DisruptionTarget.


def marked(seconds: float, **more: object) -> Object:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "m",
        "lastTransitionTime": format_time(NOW - seconds),
        **more,
    }
    pod = a_pod("p", generation=3)
    return {**pod, "status": {**pod["status"], "conditions": [*pod["status"]["conditions"], condition]}}


def test_stale_disruption_target_is_set_to_false() -> None:
    scene = Scene(pods=[marked(121)])
    driven = drive_steps(scene.reconciler.clear_stale_target("default/p"), scene.bench.accept, tables=scene.tables)
    (put,) = driven.of(Update)
    assert put.subresource == "status"
    ready, condition = bodies(driven, Update)[0]["status"]["conditions"]
    assert ready["type"] == "Ready"
    assert condition == {
        "type": "DisruptionTarget",
        "status": "False",
        "lastTransitionTime": format_time(NOW),
        "observedGeneration": 3,
    }
    again = drive_steps(scene.reconciler.clear_stale_target("default/p"), scene.bench.accept, tables=scene.tables)
    assert again.commands == []


ENDED = {**marked(500), "status": {**marked(500)["status"], "phase": "Failed"}}
DELETING = {**marked(500), "metadata": {**marked(500)["metadata"], "deletionTimestamp": format_time(NOW)}}


@pytest.mark.parametrize(
    ("pod", "result"),
    [
        (marked(119), RequeueAfter(1.0)),
        (marked(-3600), RequeueAfter(120.0)),
        (DELETING, None),
        (ENDED, None),
        (marked(500, status="False"), None),
        (marked(500, reason="TerminationByKubelet"), None),
        (a_pod("p"), None),
    ],
)
def test_disruption_target_is_kept(pod: Object, result: RequeueAfter | None) -> None:
    scene = Scene(pods=[pod])
    driven = drive_steps(scene.reconciler.clear_stale_target("default/p"), scene.bench.accept, tables=scene.tables)
    assert (driven.commands, driven.result) == ([], result)


def test_pod_with_several_budgets_is_reported() -> None:
    other = {**a_budget(minAvailable=1), "metadata": {"name": "all", "namespace": "default"}}
    scene = Scene(budgets=[a_budget(minAvailable=1), other], pods=[a_pod("p")])
    driven = drive_steps(scene.reconciler.report_multiple_budgets("default/p"), scene.bench.accept, tables=scene.tables)
    text = 'Pod "default"/"p" matches multiple PodDisruptionBudgets.  Chose "all" arbitrarily.'
    assert driven.events == [("Warning", "MultiplePodDisruptionBudgets", text)]
    scene.bench.hide(POD_DISRUPTION_BUDGETS, "default/all")
    alone = drive_steps(scene.reconciler.report_multiple_budgets("default/p"), scene.bench.accept, tables=scene.tables)
    assert alone.events == []
