from __future__ import annotations

from base64 import b64decode
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import orjson
import pytest

from tests.bench.__main__ import Result
from tests.bench.processes import ApiConnection, has_assets
from tests.bench.scale.etcd_store import PUTS, VALUES, batches
from tests.bench.scale.growth import SMALL, curve, exponent
from tests.bench.scale.plots import lines_of, svg, table
from tests.bench.scale.population import NODES, ORIGINALS, PODS, Copy, Population, copies
from tests.bench.scale.run import EMBEDDED, POPULATED, REAL, Scale, attempt
from tests.bench.workloads import must

POPULATION = Population(nodes=10, pods=100, namespaces=3, crowds={"crowd": 7})
EVENT_WITHIN = 30.0  # seconds


def figures() -> list[dict[str, object]]:
    rows = [{"benchmark": SMALL, "who": "kcm", "figure": "resident_mb", "values": [90.0, 80.0, 70.0]}]
    for size in (100, 200, 400, 800):
        values = [80.0 + 0.001 * size**1.5]
        rows.append({"benchmark": "growth by nodes", "who": str(size), "figure": "resident_mb", "values": values})
    return rows


def test_exponent_of_a_curve_is_that_of_its_growth_above_the_small_cluster() -> None:
    sizes, values = curve(figures(), "nodes", "resident_mb")
    assert sizes == [100, 200, 400, 800]
    assert exponent(sizes, values) == pytest.approx(1.5)


def test_plot_and_table_contain_each_line_with_its_exponent() -> None:
    lines = lines_of(figures(), "resident_mb")
    assert "nodes ~ n^1.50</text>" in svg("Memory", "MB", lines)
    assert table(figures(), "resident_mb", "MB").endswith("| nodes | 100: 1 | 200: 2.83 | 400: 8 | 800: 22.6 | 1.50 |")


def test_rarer_heartbeats_are_named_in_the_title_and_raise_the_grace_period() -> None:
    usual, rare = Scale(factor=0.02), Scale(factor=0.02, interval=40.0)
    assert usual.title == "100 nodes, 3000 pods"
    assert rare.title == "100 nodes, 3000 pods, heartbeats each 40 s"
    assert {*rare.flags(EMBEDDED)} - {*usual.flags(EMBEDDED)} == {"--node-monitor-grace-period=200s"}
    assert {*usual.flags(REAL)} - {*usual.flags(EMBEDDED)} == {"--node-monitor-grace-period=50s"}


def test_transactions_are_within_the_limits_of_etcd() -> None:
    small = [Copy(PODS, f"ns/pod-{number}", b"{}") for number in range(PUTS + 1)]
    large = [Copy(NODES, f"node-{number}", b"x" * (VALUES // 2)) for number in range(3)]
    assert [len(puts) for puts in batches(small)] == [PUTS, 1]
    assert [len(puts) for puts in batches(large)] == [2, 1]
    (puts,) = batches(small[:1])
    assert [(b64decode(put["key"]), b64decode(put["value"])) for put in puts] == [(b"/registry/pods/ns/pod-0", b"{}")]


def test_prototype_without_a_pod_is_rejected() -> None:
    with pytest.raises(LookupError, match="pods"):
        copies({storage: b"{}" for storage, _ in ORIGINALS if storage != PODS}, POPULATION)


def test_failed_scene_leaves_the_figures_of_the_others_in_the_file(tmp_path: Path) -> None:
    result = Result(tmp_path / "result.json", label="", rounds=1)
    with attempt(result.report, "first", logs=()):
        result.report.add("bench", "kcm", seconds=1.0)
        result.checkpoint()
    with attempt(result.report, "second", logs=()):
        raise TimeoutError
    result.checkpoint()
    written = orjson.loads((tmp_path / "result.json").read_bytes())
    assert written["figures"] == [{"benchmark": "bench", "who": "kcm", "figure": "seconds", "values": [1.0]}]
    assert written["failures"] == ["second"]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", POPULATED)
def test_populated_server_has_all_objects_and_a_manager_made_the_first_ones(tmp_path: Path, name: str) -> None:
    if name == REAL and not has_assets():
        pytest.skip("KUBEBUILDER_ASSETS names no directory with kube-apiserver")
    with POPULATED[name](tmp_path, POPULATION) as cluster, closing(ApiConnection(cluster)) as api:
        pods = orjson.loads(api.request("GET", "/api/v1/pods").body)["items"]
        nodes = orjson.loads(api.request("GET", "/api/v1/nodes").body)["items"]
        sets = orjson.loads(api.request("GET", "/apis/apps/v1/replicasets").body)["items"]
        changes = changes_of_a_copy(api, pods[0])
    assert len({pod["metadata"]["uid"] for pod in pods}) == len(pods) == 107
    assert {pod["spec"]["nodeName"] for pod in pods} == {node["metadata"]["name"] for node in nodes}
    owners = {replica_set["metadata"]["uid"]: replica_set["spec"]["replicas"] for replica_set in sets}
    assert sorted(owners.values()) == [7, 50, 50]
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} == owners.keys()
    assert changes == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]


def changes_of_a_copy(api: ApiConnection, pod: dict[str, Any]) -> list[str]:
    """Update and delete a pod, and return the types of the events that a watch shows."""
    meta = pod["metadata"]
    collection = f"/api/v1/namespaces/{meta['namespace']}/pods"
    seen: SimpleQueue[str] = SimpleQueue()

    def on_lines(lines: bytes) -> None:
        for event in map(orjson.loads, lines.splitlines()):
            if event["object"]["metadata"]["name"] == meta["name"]:
                seen.put(event["type"])

    with api.watching(collection, on_lines):
        types = [seen.get(timeout=EVENT_WITHIN)]
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"], "labels": {"changed": "true"}}}
        must(api, "PATCH", f"{collection}/{meta['name']}", patch)
        types.append(seen.get(timeout=EVENT_WITHIN))
        must(api, "DELETE", f"{collection}/{meta['name']}", {"gracePeriodSeconds": 0})
        # The first event of a deletion shows its deletionTimestamp, even without a grace period.
        return [*types, *(seen.get(timeout=EVENT_WITHIN) for _ in range(2))]
