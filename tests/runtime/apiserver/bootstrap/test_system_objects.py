from __future__ import annotations

from runtime.apiserver.kinds.built_in import BUILT_IN
from tests.runtime.apiserver.conftest import Api

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def test_every_served_version_has_an_available_api_service(api: Api) -> None:
    api.server.reached_at("127.0.0.1", 6443)
    found = {one["metadata"]["name"]: one for one in api.send("GET", SERVICES).obj["items"]}
    served = {f"{one.version}.{one.group}" for one in BUILT_IN}
    assert set(found) == served - {"v1.apiregistration.k8s.io"}  # the aggregator serves it itself
    assert {one["status"]["conditions"][0]["reason"] for one in found.values()} == {"Local"}
    assert found["v2.autoscaling"]["spec"] == {
        "group": "autoscaling",
        "version": "v2",
        "groupPriorityMinimum": 17_500,
        "versionPriority": 30,
    }


def test_the_range_of_cluster_ips_and_the_classes_of_the_system_exist(api: Api) -> None:
    api.server.reached_at("127.0.0.1", 6443)
    cidr = api.send("GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes").obj
    assert cidr["spec"] == {"cidrs": ["10.96.0.0/16"]}
    node = api.get("priorityclasses", "system-node-critical").obj
    assert (node["value"], node["preemptionPolicy"]) == (2_000_001_000, "PreemptLowerPriority")


def test_what_is_deleted_comes_back_with_the_next_start_and_nothing_else_changes(api: Api) -> None:
    api.server.reached_at("127.0.0.1", 6443)
    before = api.send("GET", f"{SERVICES}/v1.apps").obj
    api.send("DELETE", f"{SERVICES}/v1.batch")
    api.server.reached_at("127.0.0.1", 6443)
    assert api.send("GET", f"{SERVICES}/v1.apps").obj == before
    assert api.send("GET", f"{SERVICES}/v1.batch").status == 200
