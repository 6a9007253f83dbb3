"""Requests for metrics.k8s.io over HTTP, as sent by kubectl and a controller manager."""

from __future__ import annotations

from kcm.runtime.apiserver.kinds.aggregated import AGGREGATED
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from tests.runtime.apiserver.http.served import PODS, Served, run

METRICS = "/apis/metrics.k8s.io/v1beta1"
MERGE = {"Content-Type": "application/merge-patch+json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
OF_GO = {"Accept": "application/vnd.kubernetes.protobuf,application/json"}
STARTED = "2026-01-02T03:00:00Z"


async def with_a_pod(served: Served, annotation: str = "250m") -> None:
    await served.ask("POST", "/api/v1/nodes", json={"metadata": {"name": "n"}})
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await served.ask("PATCH", "/api/v1/nodes/n/status", json=ready, headers=MERGE)
    meta = {"name": "web", "annotations": {"hollow.kcm.dev/cpu-usage": annotation}}
    spec = {"nodeName": "n", "containers": [{"name": name, "image": "i"} for name in ("c", "d")]}
    await served.ask("POST", PODS, json={"metadata": meta, "spec": spec})
    state = {"running": {"startedAt": STARTED}}
    statuses = [{"name": name, "state": state, "ready": True, "image": "i", "imageID": ""} for name in ("c", "d")]
    status = {"phase": "Running", "startTime": STARTED, "containerStatuses": statuses}
    changed = await served.ask("PATCH", f"{PODS}/web/status", json={"status": status}, headers=MERGE)
    assert changed.status == 200, changed.raw
    served.clock.time += 20


def test_kubectl_get_shows_a_table_of_all_containers_together() -> None:
    async def scenario(served: Served) -> None:
        await with_a_pod(served)
        for path in ("pods", "namespaces/default/pods/web"):
            table = (await served.get(f"{METRICS}/{path}", headers=TABLE)).json
            assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "cpu", "memory", "Window"]
            assert [row["cells"] for row in table["rows"]] == [["web", "500m", "8Mi", "15s"]]
        table = (await served.get(f"{METRICS}/nodes/n", headers=TABLE)).json
        assert [row["cells"] for row in table["rows"]] == [["n", "600m", "264Mi", "15s"]]

    run(scenario, resources=(*BUILT_IN, *AGGREGATED))


def test_client_that_prefers_protobuf_gets_json() -> None:
    async def scenario(served: Served) -> None:
        await with_a_pod(served)
        found = await served.get(f"{METRICS}/pods", headers=OF_GO)
        assert found.headers["Content-Type"] == "application/json"
        assert [item["metadata"]["name"] for item in found.json["items"]] == ["web"]

    run(scenario, resources=(*BUILT_IN, *AGGREGATED))


def test_metrics_are_in_discovery_and_openapi() -> None:
    async def scenario(served: Served) -> None:
        found = {resource["name"]: resource for resource in (await served.get(METRICS)).json["resources"]}
        assert {name: (resource["kind"], resource["verbs"]) for name, resource in found.items()} == {
            "nodes": ("NodeMetrics", ["get", "list"]),
            "pods": ("PodMetrics", ["get", "list"]),
        }
        document = (await served.get(f"/openapi/v3{METRICS}")).json
        schemas = document["components"]["schemas"]
        assert "containers" in schemas["io.k8s.metrics.v1beta1.PodMetrics"]["properties"]

    run(scenario, resources=(*BUILT_IN, *AGGREGATED))


def test_invalid_annotation_returns_a_warning_with_the_metrics() -> None:
    async def scenario(served: Served) -> None:
        await with_a_pod(served, "much")
        found = await served.get(f"{METRICS}/pods")
        assert "pod default/web: metadata.annotations[hollow.kcm.dev/cpu-usage]" in found.headers["Warning"]

    run(scenario, resources=(*BUILT_IN, *AGGREGATED))
