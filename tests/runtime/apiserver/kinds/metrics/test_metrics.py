"""Metrics API (metrics.k8s.io) of hollow pods and their nodes, in the format of metrics-server."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.aggregated import AGGREGATED
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from tests.runtime.apiserver.conftest import Api

METRICS = "/apis/metrics.k8s.io/v1beta1"
PODS, NODES = f"{METRICS}/namespaces/default/pods", f"{METRICS}/nodes"
CPU, MEMORY = "hollow.kcm.dev/cpu-usage", "hollow.kcm.dev/memory-usage"
STARTED = "2001-09-09T01:46:40Z"  # start of the server's clock; the next sample is due in 5 s
WARNED = "is not a quantity: expected an amount"


@pytest.fixture
def api() -> Api:
    api = Api(resources=(*BUILT_IN, *AGGREGATED))
    api.create("nodes", {"metadata": {"name": "n", "labels": {"zone": "a"}}})
    report_ready(api, "True")
    return api


def report_ready(api: Api, ready: str) -> None:
    api.patch("nodes", "n", {"status": {"conditions": [{"type": "Ready", "status": ready}]}}, subresource="status")


def container(name: str, **requests: str) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": {"requests": requests}}


def running(name: str, started: str = STARTED) -> dict[str, Any]:
    return {"name": name, "state": {"running": {"startedAt": started}}, "ready": True, "image": "i", "imageID": ""}


def run(api: Api, name: str, *containers: dict[str, Any], phase: str = "Running") -> None:
    """Create a pod on the node "n" whose containers have started at STARTED."""
    spec = {"nodeName": "n", "containers": list(containers) or [container("c", cpu="100m", memory="64Mi")]}
    meta = {"name": name, "labels": {"app": name.partition("-")[0]}}
    assert api.create("pods", {"metadata": meta, "spec": spec}).status == 201
    statuses = [running(container_["name"]) for container_ in spec["containers"]]
    status = {"phase": phase, "startTime": STARTED, "containerStatuses": statuses}
    assert api.patch("pods", name, {"status": status}, subresource="status").status == 200


def annotate(api: Api, name: str, **annotations: str | None) -> Any:
    names = {"cpu": CPU, "memory": MEMORY}
    return api.patch("pods", name, {"metadata": {"annotations": {names[k]: v for k, v in annotations.items()}}})


def used(api: Api, name: str) -> dict[str, dict[str, str]]:
    """Return the usage in the PodMetrics of a pod, by container name."""
    return {
        container_["name"]: container_["usage"] for container_ in api.send("GET", f"{PODS}/{name}").obj["containers"]
    }


def test_a_pod_uses_a_tenth_of_what_it_requests(api: Api) -> None:
    run(api, "web", container("c", cpu="100m", memory="64Mi"), container("d"))
    api.advance(20)
    assert api.send("GET", f"{PODS}/web").obj == {
        "kind": "PodMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "creationTimestamp": "2001-09-09T01:47:00Z",
            "labels": {"app": "web"},
        },
        "timestamp": "2001-09-09T01:47:00Z",
        "window": "15s",
        "containers": [
            {"name": "c", "usage": {"cpu": "10m", "memory": "6554Ki"}},
            {"name": "d", "usage": {"cpu": "1m", "memory": "4Mi"}},
        ],
    }


def test_container_annotation_overrides_that_of_the_pod(api: Api) -> None:
    run(api, "web", container("c"), container("d"), container("e"))
    meta = {"annotations": {CPU: "250m", f"d.{CPU}": "1500u", MEMORY: "100M", f"d.{MEMORY}": "1500Ki"}}
    api.patch("pods", "web", {"metadata": meta})
    api.advance(20)
    both = {"cpu": "250m", "memory": "100000000"}  # in whole bytes, as in metrics-server
    assert used(api, "web") == {"c": both, "d": {"cpu": "1500u", "memory": "1500Ki"}, "e": both}


def test_usage_follows_the_time_since_the_pod_has_started(api: Api) -> None:
    run(api, "web")
    annotate(api, "web", cpu="steps(100m, 1m: 800m)", memory="ramp(0, 60Mi, 1m)")
    found = []
    for _ in range(5):
        api.advance(20)
        found.append(tuple(used(api, "web")["c"].values()))
    # Samples are taken 20, 35, 50, 80 and 95 s after the start.
    assert found == [
        ("100m", "20Mi"),
        ("100m", "35Mi"),
        ("100m", "50Mi"),
        ("800m", "60Mi"),
        ("800m", "60Mi"),
    ]


@pytest.mark.parametrize(
    ("seconds", "window"), [(0, None), (5, None), (19, None), (20, "15s"), (34, "15s"), (100, "15s")]
)
def test_metrics_exist_from_the_first_complete_sample(api: Api, seconds: float, window: str) -> None:
    run(api, "web")
    api.advance(seconds)
    found = api.send("GET", f"{PODS}/web")
    if window is None:
        assert (found.status, found.message) == (404, 'podmetrics.metrics.k8s.io "default/web" not found')
    else:
        assert found.obj["window"] == window


def test_window_of_a_new_container_is_the_time_since_its_start(api: Api) -> None:
    run(api, "web")
    restarted = running("c", "2001-09-09T01:47:48Z")
    api.patch("pods", "web", {"status": {"containerStatuses": [restarted]}}, subresource="status")
    api.advance(79)  # the last sample was taken at 01:47:45, before the start
    assert api.send("GET", f"{PODS}/web").status == 404
    api.advance(1)
    assert api.send("GET", f"{PODS}/web").obj["window"] == "12s"


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed", "Unknown"])
def test_only_running_pods_have_metrics(api: Api, phase: str) -> None:
    run(api, "web", phase=phase)
    api.advance(20)
    assert api.send("GET", PODS).names == []


def test_container_that_does_not_run_has_no_metrics(api: Api) -> None:
    run(api, "web", container("c"), container("d"))
    over = {**running("d"), "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    api.patch("pods", "web", {"status": {"containerStatuses": [running("c"), over]}}, subresource="status")
    api.advance(20)
    assert [*used(api, "web")] == ["c"]


def test_annotation_can_disable_metrics_of_a_pod(api: Api) -> None:
    run(api, "web")
    annotate(api, "web", cpu="none")
    api.advance(20)
    assert api.send("GET", PODS).names == []


def test_unreachable_node_and_its_pods_have_no_metrics(api: Api) -> None:
    run(api, "web")
    api.advance(20)
    report_ready(api, "Unknown")
    assert (api.send("GET", PODS).names, api.send("GET", NODES).names) == ([], [])
    assert api.send("GET", f"{NODES}/n").message == 'nodemetrics.metrics.k8s.io "n" not found'
    report_ready(api, "False")
    assert (api.send("GET", PODS).names, api.send("GET", NODES).names) == (["web"], ["n"])
    api.delete("nodes", "n")
    assert api.send("GET", PODS).names == []


def test_missing_pod_or_node_is_not_found(api: Api) -> None:
    assert api.send("GET", f"{PODS}/web").message == 'pods "web" not found'
    assert api.send("GET", f"{NODES}/m").message == 'nodes "m" not found'


def test_memory_on_a_curve_is_rounded_up_to_whole_kibibytes(api: Api) -> None:
    run(api, "web")
    annotate(api, "web", memory="ramp(0, 1Mi, 70s)")
    api.advance(20)
    assert used(api, "web")["c"]["memory"] == "293Ki"  # of 292.57


def test_usage_of_a_node_is_that_of_its_pods_plus_overhead(api: Api) -> None:
    run(api, "web-1")
    run(api, "web-2", container("c"), container("d"))
    for name in ("web-1", "web-2"):
        annotate(api, name, cpu="300m", memory="10Mi")
    api.advance(20)
    (node,) = api.send("GET", NODES).obj["items"]
    assert node["usage"] == {"cpu": "1", "memory": "286Mi"}
    assert (node["metadata"]["labels"], node["window"]) == ({"zone": "a"}, "15s")


def test_lists_select_by_namespace_labels_and_names(api: Api) -> None:
    for name in ("web-1", "web-2", "db-1"):
        run(api, name)
    api.advance(20)
    assert api.send("GET", f"{METRICS}/pods").names == ["db-1", "web-1", "web-2"]
    assert api.send("GET", f"{METRICS}/namespaces/other/pods").names == []
    assert api.send("GET", PODS, labelSelector="app=web", limit="1").names == ["web-1", "web-2"]
    assert api.send("GET", PODS, fieldSelector="metadata.name=web-2").names == ["web-2"]
    assert api.send("GET", NODES, labelSelector="zone=b").names == []
    assert api.send("GET", PODS).obj["metadata"] == {}
    wrong = api.send("GET", PODS, fieldSelector="spec.nodeName=n")
    assert (wrong.status, "spec.nodeName" in wrong.message) == (400, True)


def test_metrics_are_read_only(api: Api) -> None:
    run(api, "web")
    api.advance(20)
    assert {api.send(method, f"{PODS}/web", {}).status for method in ("PUT", "PATCH", "DELETE")} == {405}
    assert {api.send(method, PODS, {}).status for method in ("POST", "DELETE")} == {405}


def test_malformed_annotation_causes_a_warning_and_the_default(api: Api) -> None:
    run(api, "web")
    response = annotate(api, "web", cpu="lots")
    assert response.status == 200
    assert [WARNED in text and f"metadata.annotations[{CPU}]" in text for text in response.warnings] == [True]
    api.advance(20)
    found = api.send("GET", PODS)
    assert found.obj["items"][0]["containers"][0]["usage"]["cpu"] == "10m"
    assert [text.startswith("pod default/web: ") and WARNED in text for text in found.warnings] == [True]
    assert annotate(api, "web", cpu="1").warnings == ()


def test_malformed_annotation_of_a_template_causes_a_warning(api: Api) -> None:
    made = api.replicaset()
    made["spec"]["template"]["metadata"]["annotations"] = {f"c.{CPU}": "steps(1, 2)"}
    (warning,) = api.create("deployments", made).warnings
    assert warning.startswith(f'spec.template.metadata.annotations[c.{CPU}]: step "2" must have the form 60s: 800m')


def test_few_of_many_warnings_are_sent(api: Api) -> None:
    for number in range(12):
        run(api, f"web-{number}")
        annotate(api, f"web-{number}", cpu="lots")
    assert len(api.send("GET", PODS).warnings) == 10


def test_api_service_is_available_and_viewers_may_read_metrics(api: Api) -> None:
    api.server.publish_address("127.0.0.1", 6443)
    api.server.ensure_roles()
    service = api.send("GET", "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io").obj
    assert service["spec"]["service"] == {"name": "metrics-server", "namespace": "kube-system", "port": 443}
    (condition,) = service["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Passed")
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    role = api.send("GET", f"{roles}/system:aggregated-metrics-reader").obj
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert role["rules"][0]["resources"] == ["pods", "nodes"]


def test_metrics_are_not_served_by_default() -> None:
    api = Api()
    api.server.publish_address("127.0.0.1", 6443)
    assert api.send("GET", PODS).status == 404
    services = api.send("GET", "/apis/apiregistration.k8s.io/v1/apiservices").names
    assert "v1beta1.metrics.k8s.io" not in services


def test_usage_follows_the_clock_of_the_server(api: Api) -> None:
    run(api, "web")
    annotate(api, "web", cpu="sine(100m, 900m, 1m)")
    api.advance(50)
    assert used(api, "web")["c"]["cpu"] == "300m"  # 50 s after its start
