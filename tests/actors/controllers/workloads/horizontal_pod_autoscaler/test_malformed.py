"""Malformed autoscalers, scales and pods, which a current server rejects.

A malformed autoscaler is not evaluated, and the error contains the field. Errors of one metric, a pod or the scale are
reported in the conditions, and the other metrics are evaluated.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scaled import CPU, external
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scene import QUEUE, Scene, autoscaler, pod


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"maxReplicas": "10"}, "spec.maxReplicas is a number from 0 on, got '10'"),
        ({"scaleTargetRef": "web"}, "spec.scaleTargetRef is a map, got 'web'"),
        ({"metrics": [None]}, "spec.metrics[0] is a map, got None"),
        (
            {"metrics": [CPU, external({"value": "NaN"})]},
            "spec.metrics[1].external.target.value is a quantity, got 'NaN'",
        ),
        (
            {"behavior": {"scaleUp": {"policies": [{"value": "4"}]}}},
            "spec.behavior.scaleUp.policies[0].value is a number from 0 on, got '4'",
        ),
        ({"behavior": {"scaleDown": {"tolerance": "x"}}}, "spec.behavior.scaleDown.tolerance is a quantity, got 'x'"),
    ],
)
def test_malformed_autoscaler_is_not_evaluated(spec: dict[str, Any], text: str) -> None:
    driven = Scene(autoscaler(**spec)).look(raises=ValueError)
    assert driven.commands == []
    assert str(driven.error) == text


NO_QUANTITY = "not a quantity: 'NaN'; expected a number and a suffix such as m, k, Mi or e3"
ZERO = "the target of a metric must be greater than 0"


@pytest.mark.parametrize(
    ("metric", "reason", "text"),
    [
        ({"type": "Resource"}, "FailedGetResourceMetric", "invalid metric source: resource is missing"),
        (
            {"type": "Pods", "pods": {"metric": {"name": "m"}}},
            "FailedGetPodsMetric",
            "invalid pods metric source: no average value target was set",
        ),
        (external({"averageValue": "0"}), "FailedGetExternalMetric", ZERO),
        (external({"value": "-1"}), "FailedGetExternalMetric", ZERO),
        (
            {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 0}}},
            "FailedGetResourceMetric",
            f"failed to get cpu utilization: {ZERO}",
        ),
        ({"type": "Odd"}, "InvalidMetricSourceType", 'unknown metric source type "Odd"'),
    ],
)
def test_invalid_metric_is_reported_and_the_others_scale_up(metric: Object, reason: str, text: str) -> None:
    scene = Scene(autoscaler(metric, QUEUE))
    assert ("Warning", reason, text) in scene.look().events
    assert scene.status["desiredReplicas"] == 3
    scene = Scene(autoscaler(metric))
    scene.look()
    message = f"the HPA was unable to compute the replica count: {text}"
    assert scene.condition("ScalingActive") == ("False", reason, message)


@pytest.mark.parametrize(
    ("container", "text"),
    [
        ({"resources": "x"}, "Pod default/p: spec.containers[0].resources is a map, got 'x'"),
        (
            {"resources": {"requests": {"cpu": "NaN"}}},
            f"failed to get cpu utilization: the request for cpu in container c of Pod p: {NO_QUANTITY}",
        ),
    ],
)
def test_error_names_the_malformed_pod(container: dict[str, Any], text: str) -> None:
    scene = Scene(autoscaler(CPU, QUEUE), pod(**container))
    assert ("Warning", "FailedGetResourceMetric", text) in scene.look().events
    assert scene.status["desiredReplicas"] == 3


def test_malformed_scale_is_reported() -> None:
    scene = Scene(autoscaler(), scale={"spec": {"replicas": "many"}})
    text = "the scale of deployments default/web: spec.replicas is a number from 0 on, got 'many'"
    assert scene.look().events == [("Warning", "FailedGetScale", text)]
    assert scene.condition("AbleToScale")[:2] == ("False", "FailedGetScale")
