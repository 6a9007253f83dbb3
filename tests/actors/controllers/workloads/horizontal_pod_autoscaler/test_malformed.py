"""Autoscalers, scales and pods as no server of today lets them in, and targets that are no targets.

An autoscaler that cannot be read is left alone, with an error that names the field. What is wrong with one metric, a
pod or the scale is said in its conditions, and the other metrics go on.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.controllers.shared.served_kinds import ServedKinds
from actors.controllers.workloads.horizontal_pod_autoscaler.metrics import Monitor
from actors.controllers.workloads.horizontal_pod_autoscaler.metrics_apis import MetricsApis
from actors.controllers.workloads.horizontal_pod_autoscaler.pods import Youth
from actors.controllers.workloads.horizontal_pod_autoscaler.reconciler import HorizontalPodAutoscaling, Settings
from actors.controllers.workloads.horizontal_pod_autoscaler.sources import Sources
from actors.simulation.driving import NOW, Bench, Driven, drive
from protocols.conditions import find_condition
from protocols.messages.commands import Command, Fetch, Get
from protocols.messages.discovery import ServedResource
from protocols.messages.outcomes import Done, Outcome
from protocols.objects import Object
from protocols.resources import HORIZONTAL_POD_AUTOSCALERS, PODS
from protocols.times import format_time
from runtime.logs.standard_log import quiet_log
from runtime.metrics.registry import Metrics
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scaled import CPU, external

PERIOD = 15.0
LONG_AGO = format_time(NOW - 1000)
SCALE = {"spec": {"replicas": 1}, "status": {"replicas": 1, "selector": "app=web"}}
QUEUE = external({"averageValue": "10"})  # 30 wait in it


def autoscaler(*metrics: Object, **spec: Any) -> Object:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    whole = {"scaleTargetRef": reference, "maxReplicas": 10, "metrics": list(metrics or [QUEUE]), **spec}
    return {"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": whole}


def pod(**container: Any) -> Object:
    meta = {"name": "p", "namespace": "default", "labels": {"app": "web"}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}
    status = {"phase": "Running", "startTime": LONG_AGO, "conditions": [ready]}
    resources = {"requests": {"cpu": "100m"}}
    return {
        "metadata": meta,
        "spec": {"containers": [{"name": "c", "resources": resources, **container}]},
        "status": status,
    }


def look(
    shown: Object, *pods: Object, scale: Object = SCALE, raises: type[Exception] | None = None
) -> tuple[Driven, Object]:
    """One look, and the status after it; pods use 100m."""
    bench = Bench({HORIZONTAL_POD_AUTOSCALERS: [shown], PODS: pods or [pod()]})
    served = ServedKinds()
    served.follow(
        [ServedResource(group="apps", version="v1", plural="deployments", kind="Deployment", namespaced=True)]
    )
    sources = Sources(
        pods=bench.tables[PODS],
        apis=MetricsApis(served=served, clock=bench.clock, period=PERIOD),
        clock=bench.clock,
        youth=Youth(300.0, 30.0),
        of_whole_pods=True,
    )
    autoscaling = HorizontalPodAutoscaling(
        tables=bench.tables,
        clock=bench.clock,
        log=quiet_log(),
        monitor=Monitor(Metrics()),
        settings=Settings(PERIOD, 300.0, 0.1, False, True),
        served=served,
        sources=sources,
    )
    used = {"metadata": {"name": "p"}, "timestamp": LONG_AGO, "containers": [{"name": "c", "usage": {"cpu": "100m"}}]}

    def answer(command: Command) -> Outcome:
        if isinstance(command, Fetch):
            items = [{"value": "30"}] if "external" in command.path else [used]
            return Done(orjson.dumps({"items": items}))
        if isinstance(command, Get) and command.subresource == "scale":
            return Done(orjson.dumps({"metadata": {"name": "web", "namespace": "default"}, **scale}))
        return bench.accept(command)

    driven = drive(autoscaling, "default/web", answer, tables=bench.tables, raises=raises)
    status = (bench.tables[HORIZONTAL_POD_AUTOSCALERS].get("default/web") or {}).get("status") or {}
    return driven, status


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
def test_a_malformed_autoscaler_is_left_alone(spec: dict[str, Any], text: str) -> None:
    driven, _ = look(autoscaler(**spec), raises=ValueError)
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
def test_one_metric_that_is_wrong_is_said_and_the_others_scale_up(metric: Object, reason: str, text: str) -> None:
    driven, status = look(autoscaler(metric, QUEUE))
    assert ("Warning", reason, text) in driven.events
    assert status["desiredReplicas"] == 3
    driven, status = look(autoscaler(metric))
    active = find_condition(status["conditions"], "ScalingActive") or {}
    assert (active["status"], active["reason"]) == ("False", reason)
    assert active["message"] == f"the HPA was unable to compute the replica count: {text}"


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
def test_a_malformed_pod_is_named(container: dict[str, Any], text: str) -> None:
    driven, status = look(autoscaler(CPU, QUEUE), pod(**container))
    assert ("Warning", "FailedGetResourceMetric", text) in driven.events
    assert status["desiredReplicas"] == 3


def test_a_malformed_scale_is_said() -> None:
    driven, status = look(autoscaler(), scale={"spec": {"replicas": "many"}})
    text = "the scale of deployments default/web: spec.replicas is a number from 0 on, got 'many'"
    assert driven.events == [("Warning", "FailedGetScale", text)]
    assert find_condition(status["conditions"], "AbleToScale") is not None
