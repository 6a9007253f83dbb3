"""Metrics and status of evaluations.

Source of the cases: kubernetes v1.36 pkg/controller/podautoscaler/horizontal_test.go (TestReconciliation…,
TestMultipleHPAs, TestBuildQuantity).
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler import metrics as of
from kcm.actors.simulation.driver import drive_steps
from kcm.protocols.objects import Object
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.cases import (
    DESCRIBED,
    Case,
    Metric,
    about_other,
    about_other_each,
    cpu,
    each,
    outside,
    outside_each,
    scene_of,
    used,
)

UP = Case("it scales up", cpu(30), (300, 500, 700), end=5)
UNKNOWN = Case("it measures nothing", cpu(100), size=4, end=4)
ALONE = Case("it does nothing", cpu(100), (1010, 1030, 1020), requests=(900, 1000, 1100), bounds=(1, 5))


@pytest.mark.parametrize(
    ("case", "action", "fault"), [(UP, "scale_up", "none"), (UNKNOWN, "none", "internal"), (ALONE, "none", "none")]
)
def test_each_evaluation_is_counted_and_timed(case: Case, action: str, fault: str) -> None:
    scene = scene_of(case)
    scene.look()
    assert scene.shown(of.RECONCILIATIONS) == scene.shown(of.RECONCILIATION_SECONDS) == {(action, fault): 1}
    computed = {(action, fault, "Resource"): 1}
    assert scene.shown(of.COMPUTATIONS) == scene.shown(of.COMPUTATION_SECONDS) == computed


def test_evaluations_accumulate() -> None:
    scene = scene_of(ALONE)
    for _ in range(3):
        scene.look()
    assert scene.shown(of.RECONCILIATIONS) == scene.shown(of.RECONCILIATION_SECONDS) == {("none", "none"): 3}
    assert scene.shown(of.COMPUTATIONS) == {("none", "none", "Resource"): 3}


@pytest.mark.parametrize(("case", "wanted"), [(UP, 5), (ALONE, 3)])
def test_desired_replicas_are_exported(case: Case, wanted: int) -> None:
    scene = scene_of(case)
    scene.look()
    assert scene.shown(of.DESIRED_REPLICAS) == {("default", "web"): wanted}


def test_existing_autoscalers_are_counted() -> None:
    scene = scene_of(UP)
    keys = ["default/web", *(f"default/web-{number}" for number in range(1, 10))]
    shown = scene.bench.tables[HORIZONTAL_POD_AUTOSCALERS].get(keys[0])
    assert shown is not None
    for key in keys:
        name = key.removeprefix("default/")
        meta = {"name": name, "namespace": "default", "uid": name}
        scene.bench.show(HORIZONTAL_POD_AUTOSCALERS, {**shown, "metadata": meta})
        drive_steps(scene.autoscaling.schedule(key), scene.bench.accept, tables=scene.bench.tables)
    assert scene.shown(of.AUTOSCALERS) == {(): 10}
    scene.bench.hide(HORIZONTAL_POD_AUTOSCALERS, keys[3])
    drive_steps(scene.autoscaling.schedule(keys[3]), scene.bench.accept, tables=scene.bench.tables)
    assert scene.shown(of.AUTOSCALERS) == {(): 9}


ALL = {"name": "qps", "selector": {}}


@pytest.mark.parametrize(
    ("metric", "shown"),
    [
        (cpu(30), {"resource": {"name": "cpu", "current": {"averageUtilization": 50, "averageValue": "500m"}}}),
        (
            cpu(30, "a"),
            {
                "containerResource": {
                    "name": "cpu",
                    "container": "a",
                    "current": {"averageUtilization": 50, "averageValue": "250m"},
                }
            },
        ),
        (each("15"), {"pods": {"metric": {"name": "qps"}, "current": {"averageValue": "500m"}}}),
        (
            about_other("15"),
            {"object": {"describedObject": DESCRIBED, "metric": {"name": "qps"}, "current": {"value": "300m"}}},
        ),
        (
            about_other_each("15"),
            {"object": {"describedObject": DESCRIBED, "metric": {"name": "qps"}, "current": {"averageValue": "100m"}}},
        ),
        (outside("15"), {"external": {"metric": ALL, "current": {"value": "1500m"}}}),
        (outside_each("15"), {"external": {"metric": ALL, "current": {"averageValue": "500m"}}}),
    ],
)
def test_measured_values_are_exported(metric: Metric, shown: Object) -> None:
    scene = scene_of(replace(UP, metrics=metric))
    scene.look()
    assert scene.status["currentMetrics"] == [{"type": metric.spec["type"], **shown}]


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("memory", 1000, "1"),
        ("memory", 1_000_000, "1k"),  # less than 1024 is not
        ("memory", 1_048_576_000, "1Mi"),
        ("cpu", 100, "100m"),
        ("cpu", 500, "500m"),
        ("cpu", 1, "1m"),
        ("custom-resource", 200, "200m"),
        ("custom-resource", 300, "300m"),
    ],
)
def test_memory_is_formatted_in_powers_of_two(resource: str, value: int, text: str) -> None:
    scene = scene_of(replace(UP, metrics=used(resource, "1"), values=(value,) * 3))
    scene.look()
    (shown,) = scene.status["currentMetrics"]
    assert shown["resource"]["current"] == {"averageValue": text}
