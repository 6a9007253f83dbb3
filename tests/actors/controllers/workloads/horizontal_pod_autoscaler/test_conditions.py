"""Conditions and events of failed evaluations.

Source of the cases: kubernetes v1.36 pkg/controller/podautoscaler/horizontal_test.go (TestCondition…, …Invalid, …Empty,
…Missing, TestTooFewReplicas, TestTooManyReplicas, TestHPARescaleWithSuccessfulConflictRetry).
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kcm.protocols.messages.outcomes import Conflict
from kcm.protocols.objects import Object
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS, PODS
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.cases import (
    ODD,
    WENT_WRONG,
    Case,
    about_other,
    cpu,
    each,
    expected,
    looked,
    outside,
    scene_of,
)
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scene import autoscaler

RESOURCES, CUSTOM, EXTERNAL = "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"
META_OF_ANOTHER = {"name": "web-2", "namespace": "default", "uid": "u2"}
FIVE = (100, 300, 500, 250, 250)
ODD_TYPE = 'unknown metric source type "CheddarCheese"'
ODD_ONE = ("none", "spec", "CheddarCheese")
OF_RESOURCE = "failed to get cpu utilization: unable to get metrics for resource cpu: "
ALL_OF_IT = "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}"
FAILED_OUTSIDE = (
    f"unable to get external metric default/qps/{ALL_OF_IT}: "
    "unable to fetch metrics from external metrics API: something went wrong"
)


def unknown(type_: str) -> str:
    return f"SucceededGetScale FailedGet{type_}Metric"


def failed(*types: str) -> tuple[tuple[str, str, str], ...]:
    return tuple(("none", "internal", type_) for type_ in types)


UNKNOWN = [
    Case(
        "resource",
        cpu(10),
        (100, 200, 300),
        broken=(RESOURCES,),
        only=unknown("Resource"),
        computed=failed("Resource"),
        why=f"{OF_RESOURCE}unable to fetch metrics from resource metrics API: something went wrong",
    ),
    Case(
        "pods",
        each("15"),
        (100, 200, 300),
        broken=(CUSTOM,),
        only=unknown("Pods"),
        computed=failed("Pods"),
        why="unable to get metric qps: unable to fetch metrics from custom metrics API: something went wrong",
    ),
    Case(
        "an object",
        about_other("15"),
        (100,),
        broken=(CUSTOM,),
        only=unknown("Object"),
        computed=failed("Object"),
        why="unable to get metric qps: Deployment on default other/"
        "unable to fetch metrics from custom metrics API: something went wrong",
    ),
    Case(
        "external",
        outside("300m"),
        (100,),
        broken=(EXTERNAL,),
        only=unknown("External"),
        computed=failed("External"),
        why=FAILED_OUTSIDE,
    ),
    Case("no known type", ODD, only="SucceededGetScale InvalidMetricSourceType", computed=(ODD_ONE,), why=ODD_TYPE),
    Case(
        "no samples",
        cpu(100),
        size=4,
        end=4,
        only=unknown("Resource"),
        computed=failed("Resource"),
        why=f"{OF_RESOURCE}no metrics returned from resource metrics API",
    ),
    Case(
        "no pods",
        cpu(100),
        (200,),
        pods="-",
        size=1,
        end=1,
        bounds=(1, 5),
        only=unknown("Resource"),
        computed=failed("Resource"),
        why="failed to get cpu utilization: no pods returned by selector while calculating replica count",
    ),
    Case(
        "no known type, and less by the other",
        (cpu(50), ODD),
        FIVE,
        size=5,
        end=5,
        known=True,
        only="SucceededGetScale InvalidMetricSourceType",
        computed=(("scale_down", "none", "Resource"), ODD_ONE),
        why=ODD_TYPE,
    ),
    Case(
        "external, and less by the other",
        (cpu(50), outside("1")),
        FIVE,
        size=5,
        end=5,
        known=True,
        broken=(EXTERNAL,),
        only=unknown("External"),
        computed=(("scale_down", "none", "Resource"), *failed("External")),
        why=FAILED_OUTSIDE,
    ),
]


@pytest.mark.parametrize("case", UNKNOWN, ids=str)
def test_missing_or_invalid_information_is_reported(case: Case) -> None:
    reason = (case.only or "").split()[1]
    case = replace(case, fault="internal", warned=f"{reason} FailedComputeMetricsReplicas")
    assert looked(case) == expected(case)


SUMS = {
    "FailedGetResourceMetric": "failed to get cpu resource metric value: ",
    "FailedGetPodsMetric": "failed to get pods metric value: ",
    "FailedGetObjectMetric": "failed to get object metric value: ",
    "FailedGetExternalMetric": "failed to get qps external metric value: failed to get external metric qps: ",
    "InvalidMetricSourceType": "",
}


@pytest.mark.parametrize("case", UNKNOWN, ids=str)
def test_events_contain_the_error(case: Case) -> None:
    (_, reason, first), (_, _, second) = scene_of(case).look().events
    assert first == case.why
    number = f"1 invalid out of {len(case.listed)}"
    assert second == f"invalid metrics ({number}), first error is: {SUMS[reason]}{case.why}"


BEYOND = [
    Case("below the least", cpu(90), size=2, end=3, bounds=(3, 5)),
    Case("below the least, by a ReplicationController", cpu(80), size=1, end=2, kind="ReplicationController"),
    Case("above the most", cpu(90), size=10, end=5, bounds=(3, 5)),
    Case("above the most, busy", cpu(50), (8000, 9500, 1000), requests=(900, 1000, 1100), size=6, end=5, bounds=(2, 5)),
]


@pytest.mark.parametrize("case", BEYOND, ids=str)
def test_no_metric_is_read_outside_the_bounds(case: Case) -> None:
    case = replace(case, only="SucceededRescale", computed=())
    assert looked(case) == expected(case)


def test_unreadable_scale_is_reported() -> None:
    case = Case("", cpu(10), (100, 200, 300), requests=(100,), bounds=(1, 100), why="something went wrong")
    scene = scene_of(case)
    scene.scale = WENT_WRONG
    case = replace(case, only="FailedGetScale", warned="FailedGetScale", fault="internal", computed=())
    assert looked(case, scene) == expected(case)


def test_failed_scale_update_is_reported() -> None:
    case = Case("", cpu(100), (150, 150, 150), requests=(100,), bounds=(1, 5), why="something went wrong")
    scene = scene_of(case)
    scene.refusals["scale"] = WENT_WRONG
    found = looked(case, scene)
    computed = (("scale_up", "none", "Resource"),)
    case = replace(case, but="FailedUpdateScale", warned="FailedRescale", fault="internal", computed=computed)
    assert found == {**expected(case), "written": [5]}


def test_conflicting_scale_update_is_repeated() -> None:
    case = Case("", cpu(50), (600, 700, 800), end=5)
    scene = scene_of(case)
    scene.first["scale"] = [Conflict("newer", b'{"kind": "Status"}')]
    assert looked(case, scene) == {**expected(case), "written": [5, 5]}


def test_missing_selector_is_reported() -> None:
    case = Case("", cpu(10), (100, 200, 300), requests=(100,), bounds=(1, 100))
    scene = scene_of(case)
    scene.scale = {"spec": {"replicas": 3}, "status": {"replicas": 3}}
    case = replace(
        case,
        only="SucceededGetScale InvalidSelector",
        warned="SelectorRequired FailedComputeMetricsReplicas",
        fault="internal",
        computed=(),
        why="the HPA target's scale is missing a selector",
    )
    assert looked(case, scene) == expected(case)
    assert scene.status["currentMetrics"] is None


def test_malformed_selector_is_reported() -> None:
    """The message has upstream's prefix and the error of our parser."""
    case = Case("", cpu(10), (100, 200, 300), requests=(100,), bounds=(1, 100))
    scene = scene_of(case)
    scene.scale = {"spec": {"replicas": 3}, "status": {"replicas": 3, "selector": "cheddar cheese"}}
    why = (
        "couldn't convert selector into a corresponding internal selector object: label selector 'cheddar cheese', "
        "column 9: expected one of =, ==, !=, in, notin, >, <, found 'cheese'"
    )
    case = replace(
        case,
        only="SucceededGetScale InvalidSelector",
        warned="InvalidSelector FailedComputeMetricsReplicas",
        fault="internal",
        computed=(),
        why=why,
    )
    assert looked(case, scene) == expected(case)


BOTH = "pods by selector app=web are controlled by multiple HPAs: [default/web default/web-2]"


@pytest.mark.parametrize(
    ("selector", "labels", "ambiguous"),
    [
        ("cheddar=cheese", {"app": "web"}, False),
        ("app=web", {"app": "web"}, True),
        ("cheddar=cheese", {"app": "web", "cheddar": "cheese"}, True),
    ],
)
def test_pods_selected_by_two_autoscalers_are_reported(selector: str, labels: Object, ambiguous: bool) -> None:
    """The selectors of evaluated autoscalers are known. selector: of the other autoscaler's target."""
    case = Case("", cpu(30), (300, 500, 700), end=5)
    scene = scene_of(case)
    pods = scene.bench.tables[PODS]
    for found in [pods.object_of(entry) for entry in pods.entries("default")]:
        scene.bench.show(PODS, {**found, "metadata": {**found["metadata"], "labels": labels}})
    ours, scene.scale = scene.scale, {"spec": {"replicas": 1}, "status": {"selector": selector}}
    scene.bench.show(HORIZONTAL_POD_AUTOSCALERS, {**autoscaler(), "metadata": META_OF_ANOTHER})
    scene.look("default/web-2")
    scene.scale = ours
    scene.registry.clear()
    if ambiguous:
        case = replace(
            case,
            end=3,
            only="SucceededGetScale AmbiguousSelector",
            warned="AmbiguousSelector FailedComputeMetricsReplicas",
            fault="internal",
            computed=(),
            why=BOTH,
        )
    assert looked(case, scene) == expected(case)
