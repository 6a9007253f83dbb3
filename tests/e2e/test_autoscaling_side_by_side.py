"""Autoscalers of every kind with the real kube-controller-manager and with ours, on one kube-apiserver: the same sizes,
conditions, metrics and events. No controller acts on the scaled StatefulSets; the test creates their pods.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Api, Kubectl, Object
from tests.e2e.manifests import pod
from tests.e2e.metrics_backend import metrics_backend
from tests.e2e.programs import CONTROLLERS, managing, until
from tests.e2e.real_server import RealServer, real_manager
from tests.e2e.snapshots import Snapshot, differences, normalised

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(400)]

NAME = "horizontal-pod-autoscaler-controller"
HPAS = "autoscaling/v2/horizontalpodautoscalers"
PERIOD = 3.0
FLAGS = (
    f"--horizontal-pod-autoscaler-sync-period={PERIOD:g}s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
)
BUSY, IDLE = {"cpu": "100m", "memory": "3Mi"}, {"cpu": "10m", "memory": "1Mi"}
USAGE = {
    "busy-0": BUSY,
    "busy-1": BUSY,
    "idle-0": IDLE,
    "idle-1": IDLE,
    "part-0": {"cpu": "80m", "memory": "1536Ki"},
    "twice-0": {"cpu": "50m", "memory": "1Mi"},
    "slow-0": BUSY,
    "mixed-0": BUSY,
    "whole-0": BUSY,
}
PODS = (*USAGE, "part-1", "part-2")
SIZES = {
    "busy": 2,
    "idle": 4,
    "part": 3,
    "over": 9,
    "under": 1,
    "zero": 0,
    "twice": 1,
    "slow": 1,
    "mixed": 1,
    "whole": 1,
}


def resource(name: str, **target: Any) -> Object:
    type_ = "Utilization" if "averageUtilization" in target else "AverageValue"
    return {"type": "Resource", "resource": {"name": name, "target": {"type": type_, **target}}}


def of_container(container: str, percent: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": container, "target": target}}


CPU = resource("cpu", averageUtilization=50)
VALUE, AVERAGE = {"type": "Value", "value": "5"}, {"type": "AverageValue", "averageValue": "5"}
SELECTED = {
    "name": "m",
    "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]},
}
SERVICE = {"apiVersion": "v1", "kind": "Service", "name": "s"}
INGRESS = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "i"}
AT_ONCE = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 1800}]}


def autoscaler(name: str, *metrics: Object, of: str = "", kind: str = "apps/v1/StatefulSet", **spec: Any) -> Object:
    version, _, kind = kind.rpartition("/")
    target = {"kind": kind, "name": of or name, **({"apiVersion": version} if version else {})}
    whole = {"scaleTargetRef": target, "maxReplicas": 6, "metrics": list(metrics) or [CPU], **spec}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": whole,
    }


AUTOSCALERS = (
    autoscaler("busy"),
    autoscaler("idle"),
    autoscaler("part", CPU, resource("memory", averageValue="1Mi")),
    autoscaler("over"),
    autoscaler("under", minReplicas=3),
    autoscaler("zero"),
    autoscaler("one", of="twice"),
    autoscaler("slow", of_container("c", 20), behavior={"scaleUp": AT_ONCE, "scaleDown": AT_ONCE}),
    autoscaler("mixed", CPU, {"type": "External", "external": {"metric": SELECTED, "target": AVERAGE}}),
    autoscaler("whole", of_container("other", 20), resource("memory", averageUtilization=50)),
    autoscaler("absent"),
    autoscaler("unserved", kind="example.com/v1/Thing"),
    autoscaler("unscaled", kind="apps/v1/DaemonSet"),
    autoscaler("pods", {"type": "Pods", "pods": {"metric": SELECTED, "target": AVERAGE}}, of="idle2"),
    autoscaler(
        "object",
        *(
            {"type": "Object", "object": {"describedObject": of, "metric": {"name": "m"}, "target": target}}
            for of, target in ((SERVICE, VALUE), (INGRESS, AVERAGE))
        ),
        of="idle3",
    ),
)

LATER = (
    autoscaler("two", of="twice"),
    autoscaler("external", {"type": "External", "external": {"metric": {"name": "m"}, "target": VALUE}}, of="idle"),
)


def owner(name: str, replicas: int) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, "serviceName": "s"}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


def requesting_pod(name: str) -> Object:
    return pod(name, requests={"cpu": "100m"}, labels={"app": name.partition("-")[0]})


def scene(kubectl: Kubectl) -> Snapshot:
    owners = {**SIZES, "idle2": 2, "idle3": 2}
    kubectl.apply(*(owner(name, replicas) for name, replicas in owners.items()), *map(requesting_pod, PODS))
    kubectl.until_pods(len(PODS))
    for some in (AUTOSCALERS, LATER):  # of two with the same pods the first is looked at alone once
        kubectl.apply(*some)
        until(
            lambda: all(autoscaler.get("status", {}).get("conditions") for autoscaler in kubectl.items(HPAS)),
            "all were looked at",
        )
    before = left(kubectl)
    for _ in range(20):
        time.sleep(2.5 * PERIOD)
        now = left(kubectl)
        if now == before:
            return now
        before = now
    raise AssertionError(f"there is no end to the changes\n{kubectl.state()}")


def left(kubectl: Kubectl) -> Snapshot:
    events = {
        (event["type"], event["reason"], event["involvedObject"]["name"], event["message"])
        for event in kubectl.items("events")
        if event["source"].get("component") == "horizontal-pod-autoscaler"
    }
    found = {
        "autoscalers": [
            json.dumps({"name": autoscaler["metadata"]["name"], **_in_order(autoscaler["status"])}, sort_keys=True)
            for autoscaler in kubectl.items(HPAS)
        ],
        "events": [f"{kind} {reason} of {of}: {text}" for kind, reason, of, text in events],
        "sizes": [
            f"{stateful_set['metadata']['name']}: {stateful_set['spec'].get('replicas')}"
            for stateful_set in kubectl.items("apps/v1/statefulsets")
        ],
    }
    words = {what: normalised(list({*map(_sorted, lines)}), kubectl.namespace, {}) for what, lines in found.items()}
    return {what: sorted(lines) for what, lines in words.items()}


def _in_order(status: Object) -> Object:
    return {
        **status,
        "conditions": [
            [condition[f] for f in ("type", "status", "reason", "message")] for condition in status["conditions"]
        ],
    }


def _sorted(text: str) -> str:
    """The real one names the autoscalers of the same pods in any order."""
    return re.sub(r"HPAs: \[([^\]]*)\]", lambda found: f"HPAs: [{' '.join(sorted(found[1].split()))}]", text)


@pytest.fixture(scope="module")
def measured(real: RealServer) -> Iterator[RealServer]:
    with metrics_backend(Api(real.kubeconfig), real.directory, USAGE):
        yield real


def test_autoscalers_are_the_same_as_with_kube_controller_manager(measured: RealServer) -> None:
    flags = (f"--controllers={','.join((*CONTROLLERS, NAME))}", *FLAGS)
    with real_manager(measured, *flags):
        theirs = scene(in_namespace(measured.kubeconfig, "autoscaling-real"))
    ours_alone = (f"--kubeconfig={measured.kubeconfig}", "--leader-elect=false", *flags)
    with managing(measured.directory / "autoscaling.log", *ours_alone):
        ours = scene(in_namespace(measured.kubeconfig, "autoscaling-ours"))
    found = differences(theirs, ours)
    if found:
        pytest.fail(found, pytrace=False)
    assert any('"ValidMetricFound"' in text for text in theirs["autoscalers"])
