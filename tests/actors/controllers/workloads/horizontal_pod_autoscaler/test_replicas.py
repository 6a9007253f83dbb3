"""Replicas from the values of one metric. CPU requests are 1 each, the tolerance is 0.1.

Source: kubernetes v1.36 pkg/controller/podautoscaler/replica_calculator_test.go (TestGroupPods, TestCalculateRequests
and more); metrics/utilization_test.go. test_calculator.py contains the same cases with responses of the APIs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.pods import (
    CannotComputeError,
    CpuInitialization,
    PodGroups,
    PodState,
    group_pods,
    pod_requests_by_name,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.replicas import (
    MAX_REPLICAS,
    MAX_USAGE,
    Proposal,
    Tolerances,
    average_replicas,
    per_replica_replicas,
    total,
    utilization,
    utilization_replicas,
    value_replicas,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.samples import MetricSample
from kcm.protocols.objects import Object

NOW = 1_800_000_000.0
CPU_INITIALIZATION = CpuInitialization(initialization=120.0, readiness_delay=10.0)
TENTH = Tolerances(0.1, 0.1)
OTHERS = ("unready", "missing", "ignored")


def samples(*values: int | None) -> dict[str, MetricSample]:
    return {f"p{i}": MetricSample(value, NOW, 60.0) for i, value in enumerate(values) if value is not None}


def groups(pods: int, *, unready: str = "", missing: str = "", ignored: str = "") -> PodGroups:
    """Return groups of pods, which are identified by numbers."""
    named = [frozenset(f"p{number}" for number in text) for text in (unready, missing, ignored)]
    return PodGroups(pods - sum(map(len, named)), *named)


@pytest.mark.parametrize(
    ("values", "who", "target", "current", "end", "percent"),
    [
        ((300, 500, 700), {}, 30, 3, 5, 50),
        ((300, 500, 700), {"unready": "0"}, 30, 3, 4, 60),
        ((400, 500, 700), {"unready": "12"}, 30, 3, 3, 40),
        ((300, 500, 700), {"ignored": "2"}, 30, 2, 3, 40),
        ((100, 300, 500, 250, 250), {}, 50, 5, 3, 28),
        ((100, 300, 500, 250, 250), {"unready": "34"}, 50, 5, 2, 30),
        ((100, None, None, None, None), {"unready": "1234"}, 50, 5, 1, 10),
        ((1010, 1030, 1020), {}, 100, 3, 3, 102),
        ((1000, None), {"missing": "1"}, 100, 2, 2, 100),
        ((600, None), {"missing": "1"}, 100, 2, 2, 60),
        ((1900, None), {"missing": "1"}, 100, 2, 2, 190),
        ((400, 95, None, None), {"missing": "23"}, 100, 4, 3, 24),
        ((100, 100, None), {"missing": "2"}, 300, 3, 2, 10),
        ((100, 450, None), {"unready": "0", "missing": "2"}, 50, 3, 3, 45),
        ((100, 2000, None), {"unready": "0", "missing": "2"}, 50, 3, 4, 200),
        ((900, 900, None), {"missing": "2"}, 100, 2, 2, 90),
    ],
)
def test_replicas_for_a_target_utilization(
    values: tuple[int | None, ...],
    who: dict[str, str],
    target: int,
    current: int,
    end: int,
    percent: int,
) -> None:
    """Missing pods use all of their request when there are too many replicas, and nothing when there are too few."""
    requests = {f"p{i}": 1000 for i in range(len(values))}
    found = utilization_replicas(
        samples(*values), groups(len(values), **who), requests, target=target, current=current, tolerances=TENTH
    )
    assert (found.replicas, found.utilization) == (end, percent)


def test_samples_of_missing_pods_are_ignored() -> None:
    found = utilization_replicas(
        samples(4000, 9500, 3000, 7000, 3200, 2000),
        groups(4),
        {f"p{i}": 1000 for i in range(4)},
        target=100,
        current=4,
        tolerances=TENTH,
    )
    assert found == Proposal(24, 5875, 587)


@pytest.mark.parametrize(
    ("values", "who", "target", "current", "end", "usage"),
    [
        ((20_000, 10_000, 30_000), {}, 15_000, 3, 4, 20_000),
        ((5000, 10_000), {}, 10_000, 2, 2, 7500),
        ((50_000, 15_000, 30_000), {}, 15_000, 3, 7, 31_666),
        ((20_000, 10_000, 30_000), {"unready": "0"}, 15_000, 3, 3, 20_000),
        ((12_000, 12_000, 12_000, 12_000, 12_000), {}, 20_000, 5, 3, 12_000),
        ((20_000, 19_000, 21_000), {}, 20_000, 3, 3, 20_000),
        ((20_000, None), {"missing": "1"}, 20_000, 2, 2, 20_000),
        ((10_000, None), {"missing": "1"}, 20_000, 2, 2, 10_000),
        ((50_000, None), {"missing": "1"}, 20_000, 2, 3, 50_000),
    ],
)
def test_replicas_for_a_target_average(
    values: tuple[int | None, ...], who: dict[str, str], target: int, current: int, end: int, usage: int
) -> None:
    """Missing pods use exactly the target when there are too many replicas."""
    found = average_replicas(
        samples(*values), groups(len(values), **who), target=target, current=current, tolerances=TENTH
    )
    assert found == Proposal(end, usage)


@pytest.mark.parametrize(
    ("usage", "target", "current", "ready", "end"),
    [
        (50_000, 10_000, 3, 1, 5),
        (8600, 4400, 3, 1, 2),
        (12_000, 20_000, 5, 5, 3),
        (1050, 1000, 3, 3, 3),
        (10_000, 2000, 0, 0, 5),
        (0, 2000, 0, 0, 0),
        (MAX_USAGE, 1, 3, 3, MAX_REPLICAS),
    ],
)
def test_replicas_for_a_target_value(usage: int, target: int, current: int, ready: int, end: int) -> None:
    found = value_replicas(usage, target=target, current=current, ready=lambda: ready, tolerances=TENTH)
    assert found == Proposal(end, usage)


@pytest.mark.parametrize(
    ("usage", "target", "reported", "end", "average"),
    [
        (8600, 2150, 3, 4, 2867),
        (20_000, 5000, 3, 4, 6667),
        (8600, 2867, 3, 3, 2867),
        (60_000, 20_000, 0, 3, 60_000),
        (0, 20_000, 0, 0, 0),
        (MAX_USAGE, 1, 3, MAX_REPLICAS, MAX_USAGE),
    ],
)
def test_replicas_for_a_value_per_pod(usage: int, target: int, reported: int, end: int, average: int) -> None:
    assert per_replica_replicas(usage, target=target, reported=reported, tolerances=TENTH) == Proposal(end, average)


@pytest.mark.parametrize(
    ("tolerances", "values", "target", "current", "end"),
    [
        (Tolerances(0.36, 0.1), (650, 650, 650), 100, 3, 3),
        (Tolerances(0.34, 0.1), (650, 650, 650), 100, 3, 2),
        (Tolerances(0.1, 0.08), (1090, 1090, 1090), 100, 3, 4),
        (Tolerances(0.1, 0.1), (1090, 1090, 1090), 100, 3, 3),
        (Tolerances(0.0, 0.0), (1010, 1000, 1000), 100, 3, 3),
        (Tolerances(0.0, 0.0), (1030, 1000, 1000), 100, 3, 4),
    ],
)
def test_each_direction_has_its_own_tolerance(
    tolerances: Tolerances, values: tuple[int, ...], target: int, current: int, end: int
) -> None:
    requests = {f"p{i}": 1000 for i in range(3)}
    found = utilization_replicas(
        samples(*values), groups(3), requests, target=target, current=current, tolerances=tolerances
    )
    assert found.replicas == end


def test_missing_samples_raise() -> None:
    with pytest.raises(CannotComputeError, match="did not receive metrics for targeted pods"):
        average_replicas(samples(5), groups(1, unready="0"), target=1, current=1, tolerances=TENTH)
    with pytest.raises(CannotComputeError, match="no metrics returned matched known pods"):
        utilization({"a": 1}, {"b": 1000}, 50)
    with pytest.raises(CannotComputeError, match="no metrics returned matched known pods"):
        utilization({"a": 50, "b": 76}, {}, 50)


def test_sum_is_limited_to_64_bits() -> None:
    assert total([1, 2]) == 3
    assert total([MAX_USAGE, MAX_USAGE]) == MAX_USAGE


@pytest.mark.parametrize(
    ("pod", "resource", "sample", "group"),
    [
        ({"phase": "Succeeded"}, "memory", MetricSample(1, NOW, 60), "ready"),
        ({"phase": "Running"}, "cpu", MetricSample(1, NOW, 60), "unready"),
        ({"phase": "Running", "ready": "True"}, "cpu", MetricSample(1, NOW, 60), "unready"),
        ({"phase": "Running", "ready": "True", "started": 60, "changed": 30}, "cpu", MetricSample(1, NOW, 30), "ready"),
        (
            {"phase": "Running", "ready": "True", "started": 60, "changed": 30},
            "cpu",
            MetricSample(1, NOW, 60),
            "unready",
        ),
        (
            {"phase": "Running", "ready": "False", "started": 60, "changed": 30},
            "cpu",
            MetricSample(1, NOW, 1),
            "unready",
        ),
        (
            {"phase": "Running", "ready": "False", "started": 600, "changed": 594},
            "cpu",
            MetricSample(1, NOW, 1),
            "unready",
        ),
        (
            {"phase": "Running", "ready": "False", "started": 600, "changed": 540},
            "cpu",
            MetricSample(1, NOW, 1),
            "ready",
        ),
        (
            {"phase": "Running", "ready": "False", "started": 600, "changed": 590},
            "cpu",
            MetricSample(1, NOW, 1),
            "ready",
        ),
        (
            {"phase": "Running", "ready": "False", "started": 600, "changed": 594},
            "memory",
            MetricSample(1, NOW, 1),
            "ready",
        ),
        (
            {"phase": "Running", "ready": "True", "started": 180, "changed": 180},
            "cpu",
            MetricSample(1, NOW - 120, 60),
            "ready",
        ),
        ({"phase": "Succeeded", "started": 0}, "cpu", MetricSample(1, NOW, 60), "unready"),
        ({"phase": "Running", "ready": "True"}, "cpu", None, "missing"),
        ({"phase": "Pending"}, "cpu", MetricSample(1, NOW, 1), "unready"),
        ({"phase": "Pending"}, "", MetricSample(1, NOW, 1), "unready"),
        ({"phase": "Pending"}, "cpu", None, "unready"),
        ({"phase": "Pending", "deleting": True}, "cpu", MetricSample(1, NOW, 1), "ignored"),
        ({"phase": "Failed"}, "cpu", MetricSample(1, NOW, 1), "ignored"),
        ({"phase": "Running", "deleting": True}, "cpu", MetricSample(1, NOW, 1), "ignored"),
    ],
)
def test_pods_are_grouped_by_state_and_sample(
    pod: dict[str, Any], resource: str, sample: MetricSample | None, group: str
) -> None:
    """Pods are grouped by state and sample. started, changed: seconds ago."""
    times = {name: NOW - pod[name] for name in ("started", "changed") if name in pod}
    state = PodState(**{"name": "p", "deleting": False, **pod, **times})
    found = group_pods([state], {} if sample is None else {"p": sample}, resource, CPU_INITIALIZATION, now=NOW)
    assert found == PodGroups(int(group == "ready"), *(frozenset({"p"} if group == other else ()) for other in OTHERS))


def test_several_pods_are_grouped() -> None:
    young = PodState("young", "Running", deleting=False, started=NOW)
    ready = PodState("ready", "Running", deleting=False, ready="True", started=NOW - 180, changed=NOW - 180)
    silent = PodState("silent", "Running", deleting=False, started=NOW - 180)
    values = {"young": MetricSample(1, 0.0, 0.0), "ready": MetricSample(1, 0.0, 0.0)}
    found = group_pods([young, ready, silent], values, "cpu", CPU_INITIALIZATION, now=NOW)
    assert found == PodGroups(1, frozenset({"young"}), frozenset({"silent"}), frozenset())
    assert group_pods([], {}, "cpu", CPU_INITIALIZATION, now=NOW) == PodGroups(0, frozenset(), frozenset(), frozenset())


@pytest.mark.parametrize(
    ("values", "requests"),
    [
        ({"a": 50, "b": 76}, {"a": 100, "b": 100}),
        ({"a": 50, "b": 76, "without-request": 100}, {"a": 100, "b": 100}),
        ({"a": 50, "b": 76}, {"a": 100, "b": 100, "silent": 500}),
    ],
)
def test_ratio_includes_only_pods_with_sample_and_request(values: dict[str, int], requests: dict[str, int]) -> None:
    assert utilization(values, requests, 50) == (1.26, 63, 63)


def pod_of(*containers: Object, init: tuple[Object, ...] = (), whole: Object | None = None) -> Object:
    spec: Object = {"containers": list(containers), "initContainers": list(init)}
    if whole is not None:
        spec["resources"] = {"requests": whole}
    return {"metadata": {"name": "p"}, "spec": spec}


def container(name: str, **requests: str) -> Object:
    return {"name": name, "resources": {"requests": requests}}


SIDE = {**container("side", cpu="30m"), "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("pod", "of", "found"),
    [
        (pod_of(container("a", cpu="100m"), container("b", cpu="0.2")), "", 300),
        (pod_of(container("a", cpu="100m"), init=(SIDE, container("once", cpu="5"))), "", 130),
        (pod_of(container("a", cpu="100m"), container("b")), "a", 100),
        (pod_of(container("a"), init=(SIDE,)), "side", 30),
        (pod_of(container("a", cpu="100m"), whole={"cpu": "2"}), "", 2000),
        (pod_of(container("a"), container("b", cpu="50m"), whole={"cpu": "800m"}), "", 800),
        (pod_of(container("a", cpu="100m"), whole={"cpu": "2"}), "a", 100),
    ],
)
def test_requests_of_pods_are_summed(pod: Object, of: str, found: int) -> None:
    assert pod_requests_by_name([pod], "cpu", of) == {"p": found}
    assert pod_requests_by_name([], "cpu", of) == {}


def test_requests_of_containers_are_used_without_the_gate() -> None:
    pod = pod_of(container("a", cpu="100m"), container("b", cpu="50m"), whole={"cpu": "2"})
    assert pod_requests_by_name([pod], "cpu", pod_level_resources=False) == {"p": 150}


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (
            lambda: pod_requests_by_name([pod_of(container("a"))], "cpu"),
            "missing request for cpu in container a of Pod p",
        ),
        (lambda: pod_requests_by_name([pod_of(container("a"))], "cpu", "b"), "container b not found in Pod p"),
        (
            lambda: pod_requests_by_name([pod_of(container("a"), whole={"memory": "1"})], "cpu"),
            "missing pod-level request for cpu in Pod p",
        ),
    ],
)
def test_error_names_pods_without_requests(ask: Callable[[], object], text: str) -> None:
    with pytest.raises(CannotComputeError, match=text):
        ask()
