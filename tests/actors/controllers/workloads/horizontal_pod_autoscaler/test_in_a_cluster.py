"""Horizontal pod autoscaler, workloads and metrics in a simulated cluster.

Source of the rules: kubernetes v1.36 pkg/controller/podautoscaler/horizontal_test.go.
"""

from __future__ import annotations

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.protocols.objects import Object
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS, PODS, Resource
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scaled import (
    AT_ONCE,
    CPU,
    THINGS,
    Scaled,
    external,
)


@pytest.fixture
def scaled(log: FilteringBoundLogger) -> Scaled:
    return Scaled(log)


def test_busy_workload_is_scaled_up_within_its_maximum(scaled: Scaled) -> None:
    scaled.workload("web", 2)
    scaled.run(2)
    scaled.autoscaler("web", maxReplicas=6)
    scaled.run()
    assert scaled.replicas() == 2  # evaluated a period after its creation
    scaled.run()
    assert scaled.replicas() == 4
    assert scaled.status()["desiredReplicas"] == 4
    assert scaled.condition("AbleToScale") == ("True", "SucceededRescale")
    assert scaled.condition("ScalingActive") == ("True", "ValidMetricFound")
    assert scaled.condition("ScalingLimited") == ("False", "DesiredWithinRange")
    why = "cpu resource utilization (percentage of request) above target"
    assert scaled.events() == [("SuccessfulRescale", f"New size: 4; reason: {why}")]
    scaled.run(4)
    assert scaled.replicas() == 6
    assert scaled.condition("ScalingLimited") == ("True", "TooManyReplicas")
    (metric,) = scaled.status()["currentMetrics"]
    assert metric["resource"] == {"name": "cpu", "current": {"averageUtilization": 100, "averageValue": "100m"}}


def test_workload_is_scaled_down_after_the_stabilization_window(log: FilteringBoundLogger) -> None:
    scaled = Scaled(log, "--horizontal-pod-autoscaler-downscale-stabilization=2m")
    scaled.use("10m")
    scaled.workload("web", 5)
    scaled.autoscaler("web", minReplicas=2)
    scaled.run(8)
    assert scaled.replicas() == 5
    assert scaled.condition("AbleToScale") == ("True", "ScaleDownStabilized")
    scaled.run(3)
    assert scaled.replicas() == 2
    assert scaled.condition("ScalingLimited") == ("True", "TooFewReplicas")
    assert ("SuccessfulRescale", "New size: 2; reason: All metrics below target") in scaled.events()


def test_size_follows_changing_usage(scaled: Scaled) -> None:
    scaled.use("steps(50m, 2m: 100m)")
    scaled.workload("web", 2)
    scaled.autoscaler("web", maxReplicas=4)
    scaled.run(7)
    assert scaled.replicas() == 2
    scaled.run(3)
    assert scaled.replicas() == 4


def test_nothing_is_written_without_changes(scaled: Scaled) -> None:
    scaled.use("50m")
    scaled.workload("web", 3)
    scaled.run(2)
    scaled.autoscaler("web")
    scaled.run(3)
    before = scaled.cluster.server.revision
    version = scaled.cluster.get(HORIZONTAL_POD_AUTOSCALERS, "default/web")
    scaled.run(4)
    assert scaled.cluster.get(HORIZONTAL_POD_AUTOSCALERS, "default/web") == version, before


@pytest.mark.parametrize(
    ("replicas", "end", "why"), [(9, 6, "above Spec.MaxReplicas"), (1, 3, "below Spec.MinReplicas")]
)
def test_bounds_are_enforced_without_metrics(scaled: Scaled, replicas: int, end: int, why: str) -> None:
    scaled.metrics.absent.add("metrics.k8s.io")
    scaled.workload("web", replicas)
    scaled.autoscaler("web", minReplicas=3, maxReplicas=6)
    scaled.run(2)
    assert scaled.replicas() == end
    assert ("SuccessfulRescale", f"New size: {end}; reason: Current number of replicas {why}") in scaled.events()


def test_target_at_zero_is_not_scaled(scaled: Scaled) -> None:
    scaled.workload("web", 0)
    scaled.autoscaler("web")
    scaled.run(3)
    assert scaled.replicas() == 0
    assert scaled.condition("ScalingActive") == ("False", "ScalingDisabled")
    assert scaled.events() == []


ASKED = (
    "failed to get cpu utilization: unable to get metrics for resource cpu: "
    "unable to fetch metrics from resource metrics API: "
)
CUSTOM = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
EXTERNAL = (
    "unable to fetch metrics from external metrics API: "
    "the server could not find the requested resource (get queue.external.metrics.k8s.io)"
)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("absent", "the server could not find the requested resource (get pods.metrics.k8s.io)"),
        ("down", "the server is currently unable to handle the request (get pods.metrics.k8s.io)"),
    ],
)
def test_unavailable_metrics_are_reported(scaled: Scaled, state: str, text: str) -> None:
    getattr(scaled.metrics, state).add("metrics.k8s.io")
    scaled.workload("web", 2)
    scaled.autoscaler("web")
    scaled.run(2)
    assert scaled.replicas() == 2
    assert scaled.condition("ScalingActive") == ("False", "FailedGetResourceMetric")
    assert scaled.message("ScalingActive") == f"the HPA was unable to compute the replica count: {ASKED}{text}"
    first = (
        f"invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {ASKED}{text}"
    )
    assert scaled.events() == [("FailedComputeMetricsReplicas", first), ("FailedGetResourceMetric", f"{ASKED}{text}")]
    assert scaled.status()["currentMetrics"] == [{"type": ""}]


def test_missing_target_is_reported(scaled: Scaled) -> None:
    scaled.autoscaler("web")
    scaled.autoscaler("odd", target=THINGS)
    scaled.run(2)
    text = 'deployments.apps "web" not found'
    assert scaled.events() == [("FailedGetScale", text)]
    assert scaled.message("AbleToScale") == f"the HPA controller was unable to get the target's current scale: {text}"
    assert scaled.events("odd") == [("FailedGetScale", 'no matches for kind "Thing" in group "example.com"')]


def test_two_autoscalers_of_the_same_pods_do_not_scale(scaled: Scaled) -> None:
    scaled.workload("web", 2)
    scaled.run(2)
    scaled.autoscaler("one", of="web")
    scaled.autoscaler("two", of="web")
    scaled.run(4)
    assert scaled.condition("ScalingActive", "one") == ("False", "AmbiguousSelector")
    text = "pods by selector app=web are controlled by multiple HPAs: [default/one default/two]"
    assert scaled.message("ScalingActive", "two") == text
    assert ("AmbiguousSelector", text) in scaled.events("two")
    scaled.cluster.delete(HORIZONTAL_POD_AUTOSCALERS, "default/one")
    scaled.run(2)
    assert scaled.condition("ScalingActive", "two") == ("True", "ValidMetricFound")


def test_custom_object_and_external_metrics_are_read(scaled: Scaled) -> None:
    scaled.metrics.of_pods["requests"] = lambda _pod: "20"
    scaled.metrics.of_objects["hits"] = {"services web": "60", "namespaces default": "10"}
    scaled.metrics.external["queue"] = ["20", "10"]
    scaled.workload("web", 3)
    scaled.run(2)
    average, service = (
        {"type": "AverageValue", "averageValue": "20"},
        {"apiVersion": "v1", "kind": "Service", "name": "web"},
    )
    described = {"describedObject": service, "metric": {"name": "hits"}, "target": {"type": "Value", "value": "60"}}
    here = {"describedObject": {"kind": "Namespace", "name": "x", "apiVersion": "v1"}, "metric": {"name": "hits"}}
    scaled.autoscaler(
        "web",
        {"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": average}},
        {"type": "Object", "object": described},
        {"type": "Object", "object": {**here, "target": {"type": "AverageValue", "averageValue": "10"}}},
        external({"averageValue": "5"}, selector={"matchLabels": {"q": "a"}}),
    )
    scaled.run(2)
    assert scaled.replicas() == 6
    name = "queue(&LabelSelector{MatchLabels:map[string]string{q: a,},MatchExpressions:[]LabelSelectorRequirement{},})"
    assert scaled.events() == [("SuccessfulRescale", f"New size: 6; reason: external metric {name} above target")]
    pods, value, share, queue = scaled.status()["currentMetrics"]
    assert pods["pods"] == {"metric": {"name": "requests"}, "current": {"averageValue": "20"}}
    assert value["object"] == {"describedObject": service, "metric": {"name": "hits"}, "current": {"value": "60"}}
    assert share["object"]["current"] == {"averageValue": "3334m"}
    assert queue["external"]["current"] == {"averageValue": "10"}


@pytest.mark.parametrize(
    ("metric", "reason", "text"),
    [
        (
            {
                "type": "Pods",
                "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}},
            },
            "FailedGetPodsMetric",
            f"unable to get metric m: {CUSTOM}",
        ),
        (
            {
                "type": "Object",
                "object": {
                    "describedObject": {"kind": "Service", "name": "s", "apiVersion": "v1"},
                    "metric": {"name": "m"},
                    "target": {"type": "Value", "value": "1"},
                },
            },
            "FailedGetObjectMetric",
            f"unable to get metric m: Service on default s/{CUSTOM}",
        ),
        (
            external({"value": "1"}),
            "FailedGetExternalMetric",
            f"unable to get external metric default/queue/nil: {EXTERNAL}",
        ),
    ],
)
def test_metric_without_an_adapter_is_reported(scaled: Scaled, metric: Object, reason: str, text: str) -> None:
    scaled.metrics.absent.update(("custom.metrics.k8s.io", "external.metrics.k8s.io"))
    scaled.workload("web", 2)
    scaled.autoscaler("web", metric)
    scaled.run(2)
    assert scaled.condition("ScalingActive") == ("False", reason)
    assert (reason, text) in scaled.events()


@pytest.mark.parametrize(("cpu", "end", "active"), [("100m", 4, "True"), ("10m", 3, "False")])
def test_failed_metric_prevents_scaling_down_only(scaled: Scaled, cpu: str, end: int, active: str) -> None:
    scaled.use(cpu)
    scaled.workload("web", 2 if end == 4 else 3)
    scaled.run(2)
    scaled.autoscaler("web", CPU, external({"value": "1"}), behavior={"scaleDown": AT_ONCE})
    scaled.run(2)
    assert scaled.replicas() == end
    assert scaled.condition("ScalingActive")[0] == active


def test_policies_limit_the_scaling_rate(scaled: Scaled) -> None:
    scaled.metrics.external["queue"] = ["100"]
    scaled.workload("web", 1)
    policies = [{"type": "Pods", "value": 2, "periodSeconds": 60}]
    behavior = {"scaleUp": {"policies": policies}, "scaleDown": AT_ONCE}
    scaled.autoscaler("web", external({"averageValue": "10"}), behavior=behavior)
    sizes: list[int] = []
    for _ in range(10):
        scaled.run()
        sizes.append(scaled.replicas())
    assert sizes == [1, 3, 3, 3, 3, 5, 5, 5, 5, 7]
    assert scaled.condition("ScalingLimited") == ("True", "ScaleUpLimit")
    scaled.metrics.external["queue"] = ["10"]
    scaled.run()
    assert scaled.replicas() == 1


def test_custom_resource_is_scaled_by_its_subresource(log: FilteringBoundLogger) -> None:
    scaled = Scaled(log)
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    scale = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"scale": scale},
    }
    crds = Resource(
        group="apiextensions.k8s.io",
        version="v1",
        plural="customresourcedefinitions",
        kind="CustomResourceDefinition",
        namespaced=False,
    )
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    scaled.cluster.create(crds, {"metadata": {"name": "things.example.com"}, "spec": spec})
    scaled.cluster.run_for(15.0)
    scaled.cluster.create(
        THINGS, {"metadata": {"name": "web"}, "spec": {"size": 2}, "status": {"size": 2, "selector": "a=b"}}
    )
    scaled.metrics.external["queue"] = ["50"]
    scaled.autoscaler("web", external({"averageValue": "10"}), target=THINGS)
    scaled.run(2)
    thing = scaled.cluster.get(THINGS, "default/web")
    assert thing is not None
    assert thing["spec"]["size"] == 4  # at most twice as many at once
    assert scaled.events() == [("SuccessfulRescale", "New size: 4; reason: external metric queue(nil) above target")]


def test_starting_pods_and_missing_samples_limit_scaling_up(scaled: Scaled) -> None:
    scaled.workload("web", 4)
    scaled.run(2)
    scaled.use("none", *scaled.cluster.list(PODS)[2:])
    scaled.autoscaler("web")
    scaled.run(3)
    assert scaled.replicas() == 4
    assert scaled.status()["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 100
