"""Metrics of hollow pods in a simulated cluster, as in docs/autoscaling.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.metrics_server import metrics_server
from kcm.protocols.objects import decode_object, name_of
from kcm.protocols.resources import PODS
from kcm.runtime.apiserver.kinds.aggregated import AGGREGATED
from kcm.runtime.client.api import Request

PAGE = Path(__file__).parents[3] / "docs" / "autoscaling.md"
PODS_OF_ALL = "/apis/metrics.k8s.io/v1beta1/pods"
PODS_OF_DEFAULT = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"


def test_the_test_of_the_page_passes(cluster: SimulatedCluster) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    names["test_a_busy_pod_is_seen"](cluster)
    assert cluster.get(PODS, "default/web")


def test_another_server_serves_them_too(cluster: SimulatedCluster) -> None:
    assert cluster.request("GET", PODS_OF_ALL).status == 404
    cluster.serve(*AGGREGATED)
    assert cluster.request("GET", PODS_OF_ALL).status == 200
    cluster.restart_server()
    assert cluster.request("GET", PODS_OF_ALL).status == 200


def test_cpu_usage_can_be_set_by_a_test(cluster: SimulatedCluster) -> None:
    cluster.create(PODS, {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    cluster.merge(PODS, "default/web", {"status": {"phase": "Running"}}, subresource="status")
    metrics = metrics_server(cluster)
    metrics.cpu = lambda pod: "250m" if name_of(pod) == "web" else None
    document = decode_object(metrics.answer(Request(method="GET", path=PODS_OF_DEFAULT)).body)
    assert [(item["metadata"]["name"], item["containers"]) for item in document["items"]] == [
        ("web", [{"name": "c", "usage": {"cpu": "250m"}}])
    ]
