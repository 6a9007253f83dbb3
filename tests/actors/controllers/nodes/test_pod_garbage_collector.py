"""Tests of the pod garbage collector in a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace
from structlog.testing import LogCapture

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.nodes.pod_garbage_collector import (
    FORCE_DELETION_ERRORS,
    FORCE_DELETIONS,
    SPEC,
    PodGarbageCollectorOptions,
    is_out_of_service,
)
from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, name_of
from kcm.protocols.resources import NODES, PODS
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.actors.controllers.nodes.objects import set_phase, set_taints, writes
from tests.support.objects import node, pod, taint

CLIENT = "pod-garbage-collector"
NAME = "controller:pod-garbage-collector-controller"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


def start(cluster: SimulatedCluster, threshold: int = 12500, *, qps: float = 20.0) -> ControllerSystem:
    options = Options().with_group(PodGarbageCollectorOptions(terminated_pod_threshold=threshold))
    limits = replace(options.client_limits, qps=qps)
    return cluster.manager(controllers=[SPEC], options=replace(options, client_limits=limits))


def sent(cluster: SimulatedCluster) -> list[str]:
    return [write.what for write in writes(cluster, client=CLIENT)]


def deleted(cluster: SimulatedCluster) -> list[str]:
    return [what.removeprefix("DELETE pods/") for what in sent(cluster) if what.startswith("DELETE")]


def left(cluster: SimulatedCluster) -> set[str]:
    return {name_of(pod) for pod in cluster.list(PODS, "default")}


# Surplus terminated pods.


@pytest.mark.parametrize(
    ("threshold", "phases", "expected"),
    [
        (1, {"a": "Failed", "b": "Succeeded", "c": "Failed"}, ["a", "b"]),
        (0, {"a": "Failed", "b": "Succeeded", "c": "Failed"}, []),
        (-1, {"a": "Failed", "b": "Succeeded"}, []),
        (1, {"a": "Running", "b": "Succeeded", "c": "Failed"}, ["b"]),
        (1, {"a": "Failed", "b": "Succeeded"}, ["a"]),
        (5, {"a": "Failed", "b": "Succeeded"}, []),
        (1, {"a": "Failed", "b": "Succeeded", "c": "Evicted"}, ["c", "a"]),
        (1, {"a": "Running", "b": "Succeeded", "c": "Evicted"}, ["c"]),
        (1, {"a": "Pending", "b": "Running", "c": "Unknown", "d": "Failed"}, []),
    ],
)
def test_surplus_terminated_pods_are_deleted_evicted_ones_first_then_by_age(
    cluster: SimulatedCluster, threshold: int, phases: dict[str, str], expected: list[str]
) -> None:
    cluster.create(NODES, node())
    for name, phase in phases.items():
        cluster.create(PODS, pod(name, node="n1"))
        if phase == "Evicted":
            set_phase(cluster, name, "Failed", reason="Evicted", message="too much memory")
        else:
            set_phase(cluster, name, phase, message='not "Evicted"')
        cluster.run_for(2.0)
    start(cluster, threshold)
    cluster.run_for(70.0)
    assert sent(cluster) == [f"DELETE pods/{name}" for name in expected], "terminated pods are not set to failed first"
    assert left(cluster) == phases.keys() - set(expected)


def test_pods_of_equal_age_are_deleted_by_name(cluster: SimulatedCluster) -> None:
    cluster.create(NODES, node())
    for name in ("b", "c", "a"):
        cluster.create(PODS, pod(name, node="n1"))
        set_phase(cluster, name, "Succeeded")
    start(cluster, 1)
    cluster.run_for(30.0)
    assert deleted(cluster) == ["a", "b"]


def test_oldest_half_of_a_thousand_terminated_pods_is_deleted(cluster: SimulatedCluster) -> None:
    cluster.create(NODES, node())
    names = [f"p{number * 7919 % 1000:03}" for number in range(1000)]  # not in the order of creation
    for name in names:
        cluster.create(PODS, pod(name, node="n1"))
        set_phase(cluster, name, "Succeeded")
        cluster.clock.advance_to(cluster.clock.monotonic() + 1.0)
    start(cluster, 500, qps=-1.0)
    cluster.run_for(60.0)
    assert deleted(cluster) == names[:500]
    assert left(cluster) == set(names[500:])


def test_pod_is_deleted_by_uid_without_grace_period_and_logged(cluster: SimulatedCluster, logs: LogCapture) -> None:
    cluster.create(NODES, node())
    for name in ("a", "b"):
        cluster.create(PODS, pod(name, node="n1"))
        set_phase(cluster, name, "Failed")
    first = cluster.get(PODS, "default/a")
    assert first is not None
    manager = start(cluster, 1)
    cluster.run_for(10.0)
    (deletion,) = writes(cluster, client=CLIENT)
    assert deletion.body["gracePeriodSeconds"] == 0
    assert deletion.body["preconditions"] == {"uid": first["metadata"]["uid"]}
    lines = [entry for entry in logs.entries if entry["event"].startswith("PodGC")]
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("PodGC is force deleting Pod: default:a", "info")
    ]
    assert manager.metrics.counter(FORCE_DELETIONS, "default", "terminated").value == 1


# Pods of deleted nodes.


def orphan(cluster: SimulatedCluster, name: str = "p1", *, on: str = "gone", phase: str = "Running") -> None:
    cluster.create(PODS, pod(name, node=on))
    set_phase(cluster, name, phase)


def test_pods_of_deleted_node_are_deleted_after_the_quarantine(cluster: SimulatedCluster) -> None:
    cluster.create(NODES, node("there"))
    cluster.create(NODES, node("gone"))
    start(cluster)
    for name, phase in {"failed": "Failed", "done": "Succeeded", "runs": "Running"}.items():
        orphan(cluster, name, phase=phase)
    orphan(cluster, "lucky", on="there")
    cluster.run_for(30.0)
    cluster.delete(NODES, "gone")
    cluster.run_for(39.0)
    assert sent(cluster) == []
    cluster.run_for(22.0)
    assert sorted(sent(cluster)) == [
        "DELETE pods/done",
        "DELETE pods/failed",
        "DELETE pods/runs",
        "PATCH pods/runs/status",
    ]
    assert left(cluster) == {"lucky"}


def test_running_pod_is_set_to_failed_with_a_condition(cluster: SimulatedCluster) -> None:
    start(cluster)
    orphan(cluster)
    cluster.run_for(70.0)
    marked, deletion = writes(cluster, client=CLIENT)
    assert (marked.what, deletion.what) == ("PATCH pods/p1/status", "DELETE pods/p1")
    status = marked.body["status"]
    status.pop("observedGeneration", None)
    (condition,) = status.pop("conditions")
    assert condition.pop("lastTransitionTime")
    condition.pop("observedGeneration", None)
    assert status == {"phase": "Failed"}
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
    }


def test_disruption_target_is_appended_to_the_conditions(cluster: SimulatedCluster) -> None:
    start(cluster)
    orphan(cluster)
    set_phase(cluster, "p1", "Running", conditions=[{"type": "Ready", "status": "True"}])
    cluster.merge(PODS, "default/p1", {"metadata": {"finalizers": ["test/hold"]}})
    cluster.run_for(70.0)
    held = cluster.get(PODS, "default/p1")
    assert held is not None
    assert [condition["type"] for condition in held["status"]["conditions"]] == ["Ready", "DisruptionTarget"]


def test_pods_of_node_that_reappears_in_quarantine_are_kept(cluster: SimulatedCluster) -> None:
    start(cluster)
    orphan(cluster, on="late")
    cluster.run_for(30.0)
    cluster.create(NODES, node("late"))
    cluster.run_for(200.0)
    assert sent(cluster) == []


def test_quarantine_restarts_when_the_node_is_missing_again(cluster: SimulatedCluster) -> None:
    start(cluster)
    orphan(cluster, on="flaps")
    cluster.run_for(10.0)
    cluster.create(NODES, node("flaps"))
    cluster.run_for(20.0)
    cluster.delete(NODES, "flaps")
    cluster.run_for(45.0)
    assert sent(cluster) == []
    cluster.run_for(30.0)
    assert deleted(cluster) == ["p1"]


def test_node_is_read_live_after_the_quarantine(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    late = Fault(kind=FaultKind.WATCH_LAGGING, start=2.0, until=300.0, resource="nodes", seconds=80.0)
    cluster = make_cluster(faults=[late])
    start(cluster)
    cluster.run_for(5.0)
    cluster.create(NODES, node("late"))
    orphan(cluster, on="late")
    orphan(cluster, "p2", on="gone")
    cluster.run_for(75.0)
    assert deleted(cluster) == ["p2"]
    paths = {request.path for _, who, request in cluster.transport.requests if who == CLIENT}
    assert {"/api/v1/nodes/late", "/api/v1/nodes/gone"} <= paths


def test_node_counts_as_existing_if_the_live_read_fails(make_cluster: Callable[..., SimulatedCluster]) -> None:
    broken = Fault(kind=FaultKind.COMMAND_ANSWERED, until=200.0, status=500, resource="nodes", object="gone")
    cluster = make_cluster(faults=[broken])
    start(cluster)
    orphan(cluster)
    cluster.run_for(195.0)
    assert sent(cluster) == []
    cluster.run_for(80.0)
    assert deleted(cluster) == ["p1"]


# Terminating pods without a kubelet that could delete them.


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("Failed", ["DELETE pods/p1"]),
        ("Succeeded", ["DELETE pods/p1"]),
        ("Running", ["PATCH pods/p1/status", "DELETE pods/p1"]),
    ],
)
def test_terminating_unscheduled_pod_is_deleted(cluster: SimulatedCluster, phase: str, expected: list[str]) -> None:
    cluster.create(NODES, node())
    cluster.create(PODS, pod("p1", metadata={"finalizers": ["test/hold"]}))
    cluster.create(PODS, pod("waits"))
    cluster.create(PODS, pod("bound", node="n1"))
    set_phase(cluster, "p1", phase)
    cluster.delete(PODS, "default/p1")
    cluster.delete(PODS, "default/bound")
    start(cluster)
    cluster.run_for(10.0)
    assert sent(cluster) == expected
    bodies = [write.body["status"] for write in writes(cluster, client=CLIENT) if write.what.startswith("PATCH")]
    assert all("conditions" not in status for status in bodies)


@pytest.mark.parametrize(
    ("ready", "taints", "expected"),
    [
        ("True", [taint(OUT_OF_SERVICE)], False),
        ("False", [], False),
        ("False", [taint("other")], False),
        ("False", [taint(OUT_OF_SERVICE)], True),
        ("Unknown", [taint(OUT_OF_SERVICE, "NoSchedule", value="nodeshutdown")], True),
        (None, [taint(OUT_OF_SERVICE)], True),
    ],
)
def test_terminating_pods_on_out_of_service_node_are_deleted(
    cluster: SimulatedCluster, ready: str | None, taints: Sequence[Object], expected: bool
) -> None:
    out = node(taints=taints, ready=ready)
    assert is_out_of_service(out) is expected
    cluster.create(NODES, out)
    if ready is not None:
        cluster.merge(NODES, "n1", {"status": out["status"]}, subresource="status")
    set_taints(cluster, "n1", *taints)
    for name, phase in {"going": "Running", "ended": "Succeeded", "stays": "Running"}.items():
        cluster.create(PODS, pod(name, node="n1"))
        set_phase(cluster, name, phase)
    for name in ("going", "ended"):
        cluster.delete(PODS, f"default/{name}")
    before = left(cluster)
    manager = start(cluster)
    cluster.run_for(10.0)
    assert before - left(cluster) == ({"going", "ended"} & before if expected else set())
    assert ("PATCH pods/going/status" in sent(cluster)) is expected
    assert "PATCH pods/ended/status" not in sent(cluster)
    assert manager.metrics.counter(FORCE_DELETIONS, "default", "out-of-service").value == len(deleted(cluster))


# Changes during a pass.


def with_lost_response(make_cluster: Callable[..., SimulatedCluster], *, since: float) -> SimulatedCluster:
    """Return a cluster that loses the response to the first write to pod "a", so that the pass waits for a timeout."""
    lost = Fault(kind=FaultKind.OUTCOME_LOST, start=since, resource="pods", object="default/a", most=1)
    return make_cluster(faults=[lost])


def test_pods_of_node_that_reappears_during_a_pass_are_kept(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cluster = with_lost_response(make_cluster, since=30.0)
    start(cluster)
    orphan(cluster, "a", on="back")
    orphan(cluster, "b", on="back", phase="Failed")
    orphan(cluster, "c", on="gone", phase="Failed")
    assert cluster.run_until(lambda: bool(sent(cluster)), within=60.0)
    assert sent(cluster) == ["PATCH pods/a/status"]
    cluster.create(NODES, node("back"))
    cluster.run_for(70.0)
    assert deleted(cluster) == ["c"]
    assert left(cluster) == {"a", "b"}


def test_pods_of_node_back_in_service_during_a_pass_are_kept(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    cluster = with_lost_response(make_cluster, since=0.5)
    for name in ("n1", "n2"):
        cluster.create(NODES, node(name))
        set_taints(cluster, name, taint(OUT_OF_SERVICE))
    for name, on, phase in (("a", "n1", "Running"), ("b", "n1", "Succeeded"), ("c", "n2", "Succeeded")):
        cluster.create(PODS, pod(name, node=on, metadata={"finalizers": ["test/hold"]}))
        set_phase(cluster, name, phase)
        cluster.delete(PODS, f"default/{name}")
    cluster.run_for(1.0)
    start(cluster)
    assert cluster.run_until(lambda: bool(sent(cluster)), within=5.0)
    assert sent(cluster) == ["PATCH pods/a/status"]
    set_taints(cluster, "n1")
    cluster.run_for(60.0)
    assert set(deleted(cluster)) == {"c"}


# Schedule and metrics of the pass.


def test_pass_runs_every_twenty_seconds(cluster: SimulatedCluster) -> None:
    manager = start(cluster)
    cluster.run_for(1.0)
    first = cluster.describe(manager, NAME)["reconciled"]
    cluster.run_for(60.5)
    assert (first, cluster.describe(manager, NAME)["reconciled"]) == (1, 4)


def test_pod_with_several_reasons_is_deleted_once_per_pass(cluster: SimulatedCluster) -> None:
    manager = start(cluster, 1)
    cluster.create(PODS, pod("a", node="gone", metadata={"finalizers": ["test/hold"]}))
    cluster.create(PODS, pod("b"))
    for name in ("a", "b"):
        set_phase(cluster, name, "Succeeded")
    cluster.delete(PODS, "default/a")
    cluster.run_for(50.0)
    assert deleted(cluster) == ["a"] * 3, "once in each of three passes; in the last one it is also orphaned"
    assert manager.metrics.counter(FORCE_DELETION_ERRORS, "default", "orphaned").value == 0


def test_failed_deletion_is_counted_logged_and_retried_in_the_next_pass(
    make_cluster: Callable[..., SimulatedCluster], logs: LogCapture
) -> None:
    broken = Fault(kind=FaultKind.COMMAND_ANSWERED, until=30.0, status=500, resource="pods", object="default/a")
    cluster = make_cluster(faults=[broken])
    cluster.create(NODES, node())
    for name in ("a", "b", "c"):
        cluster.create(PODS, pod(name, node="n1"))
        set_phase(cluster, name, "Failed")
        cluster.run_for(1.0)
    manager = start(cluster, 1)
    cluster.run_for(60.0)
    assert left(cluster) == {"c"}
    metrics = manager.metrics
    failed = metrics.counter(FORCE_DELETION_ERRORS, "default", "terminated").value
    assert failed >= 1
    assert metrics.counter(FORCE_DELETIONS, "default", "terminated").value == failed + 2
    assert any(entry["event"] == "pod not deleted" and entry["key"] == "default/a" for entry in logs.entries)


def test_deletion_of_missing_pod_succeeds(make_cluster: Callable[..., SimulatedCluster]) -> None:
    late = Fault(kind=FaultKind.WATCH_LAGGING, start=5.0, until=80.0, resource="pods", seconds=60.0)
    cluster = make_cluster(faults=[late])
    manager = start(cluster)
    orphan(cluster)
    orphan(cluster, "p2", phase="Failed")
    cluster.run_for(10.0)
    for name in ("p1", "p2"):
        cluster.delete(PODS, f"default/{name}", grace_seconds=0)
    cluster.run_for(40.0)
    assert sent(cluster) == ["PATCH pods/p1/status", "DELETE pods/p2"]
    assert manager.metrics.counter(FORCE_DELETION_ERRORS, "default", "orphaned").value == 0


def test_pod_that_cannot_be_set_to_failed_is_not_deleted(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cluster = make_cluster(
        faults=[Fault(kind=FaultKind.COMMAND_ANSWERED, start=30.0, until=50.0, status=500, resource="pods")]
    )
    start(cluster)
    orphan(cluster)
    cluster.run_for(49.0)
    assert sent(cluster) == ["PATCH pods/p1/status"]
    cluster.run_for(90.0)
    assert deleted(cluster) == ["p1"]


def test_rate_limiter_use_is_exported(cluster: SimulatedCluster) -> None:
    def use() -> float:
        values = {family.name: series for family, series in manager.metrics.collect()}
        ((_, gauge),) = values["gc_controller_rate_limiter_use"]
        return gauge.value

    cluster.create(NODES, node())
    for number in range(40):
        cluster.create(PODS, pod(f"p{number}", node="n1"))
        set_phase(cluster, f"p{number}", "Failed")
    manager = start(cluster, 1)
    assert use() == 0
    assert cluster.run_until(lambda: len(deleted(cluster)) >= 30)
    assert use() > 0.9
    cluster.run_for(15.0)
    assert use() == 0
