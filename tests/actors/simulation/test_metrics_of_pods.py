"""Metrics of hollow pods in a simulated cluster: what docs/autoscaling.md shows of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from actors.simulation import SimulatedCluster
from protocols.resources import PODS
from runtime.apiserver.kinds.aggregated import AGGREGATED

PAGE = Path(__file__).parents[3] / "docs" / "autoscaling.md"
PODS_OF_ALL = "/apis/metrics.k8s.io/v1beta1/pods"


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
