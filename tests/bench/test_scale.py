from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.bench.processes import ApiConnection
from tests.bench.scale.growth import SMALL, curve, exponent
from tests.bench.scale.plots import lines_of, svg, table
from tests.bench.scale.population import Population, make_prototype, populate, server


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


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_populated_server_has_all_objects_and_a_manager_made_the_first_ones(tmp_path: Path) -> None:
    make_prototype(tmp_path / "prototype")
    population = Population(nodes=10, pods=100, namespaces=3, crowds={"crowd": 7})
    populate(tmp_path / "prototype", tmp_path / "server", population)
    with server(tmp_path / "server") as cluster:
        api = ApiConnection(cluster)
        try:
            pods = orjson.loads(api.request("GET", "/api/v1/pods").body)["items"]
            nodes = orjson.loads(api.request("GET", "/api/v1/nodes").body)["items"]
            sets = orjson.loads(api.request("GET", "/apis/apps/v1/replicasets").body)["items"]
        finally:
            api.close()
    assert len({pod["metadata"]["uid"] for pod in pods}) == len(pods) == 107
    assert {pod["spec"]["nodeName"] for pod in pods} == {node["metadata"]["name"] for node in nodes}
    owners = {replica_set["metadata"]["uid"]: replica_set["spec"]["replicas"] for replica_set in sets}
    assert sorted(owners.values()) == [7, 50, 50]
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} == owners.keys()
