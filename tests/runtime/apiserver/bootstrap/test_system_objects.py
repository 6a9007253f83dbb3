from __future__ import annotations

from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.runtime_config import served_kinds
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.kinds.printers import cells
from tests.runtime.apiserver.stores import KeptStore

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def test_every_served_version_has_an_available_api_service(api: Api) -> None:
    api.server.publish_address("127.0.0.1", 6443)
    found = {service["metadata"]["name"]: service for service in api.send("GET", SERVICES).obj["items"]}
    served = {f"{definition.version}.{definition.group}" for definition in BUILT_IN}
    assert set(found) == served - {"v1.apiregistration.k8s.io"}  # served by the aggregator itself
    assert {service["status"]["conditions"][0]["reason"] for service in found.values()} == {"Local"}
    parts = {part: found["v1.apps"][part] for part in ("spec", "status")}
    assert cells("apiregistration.k8s.io/v1", "APIService", **parts)[1:3] == ["Local", "True"]
    assert found["v2.autoscaling"]["spec"] == {
        "group": "autoscaling",
        "version": "v2",
        "groupPriorityMinimum": 17_500,
        "versionPriority": 30,
    }


def test_the_range_of_cluster_ips_and_the_classes_of_the_system_exist(api: Api) -> None:
    api.server.publish_address("127.0.0.1", 6443)
    cidr = api.send("GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes").obj
    assert cidr["spec"] == {"cidrs": ["10.96.0.0/16"]}
    (ready,) = cidr["status"]["conditions"]
    assert (ready["type"], ready["message"]) == ("Ready", "Kubernetes default Service CIDR is ready")
    node = api.get("priorityclasses", "system-node-critical").obj
    assert (node["value"], node["preemptionPolicy"]) == (2_000_001_000, "PreemptLowerPriority")


def test_deleted_api_service_is_recreated_at_startup_and_others_are_unchanged(api: Api) -> None:
    api.server.publish_address("127.0.0.1", 6443)
    before = api.send("GET", f"{SERVICES}/v1.apps").obj
    api.send("DELETE", f"{SERVICES}/v1.batch")
    api.server.publish_address("127.0.0.1", 6443)
    assert api.send("GET", f"{SERVICES}/v1.apps").obj == before
    assert api.send("GET", f"{SERVICES}/v1.batch").status == 200


def test_a_custom_group_has_an_api_service_for_each_served_version(api: Api) -> None:
    api.server.publish_address("127.0.0.1", 6443)
    first, second = ({"name": name, "served": True, "storage": name == "v1", "schema": ANY} for name in ("v1", "v2"))
    made = api.create("customresourcedefinitions", custom_definition(first, second))
    assert made.status == 201
    found = api.send("GET", f"{SERVICES}/v2.example.com").obj
    assert found["spec"] == {
        "group": "example.com",
        "version": "v2",
        "groupPriorityMinimum": 1000,
        "versionPriority": 100,
    }
    assert found["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
    assert found["status"]["conditions"][0]["reason"] == "Local"

    api.patch("customresourcedefinitions", "things.example.com", {"spec": {"versions": [first]}})
    assert api.send("GET", f"{SERVICES}/v2.example.com").status == 404
    api.send("DELETE", f"{SERVICES}/v1.example.com")
    assert api.send("GET", f"{SERVICES}/v1.example.com").status == 200  # it exists again

    api.delete("customresourcedefinitions", "things.example.com")
    assert api.send("GET", f"{SERVICES}/v1.example.com").status == 404


def test_api_service_created_by_a_user_is_kept(api: Api) -> None:
    api.server.publish_address("127.0.0.1", 6443)
    spec = {"group": "example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    assert api.send("POST", SERVICES, {"metadata": {"name": "v1.example.com"}, "spec": spec}).status == 201
    version = {"name": "v1", "served": True, "storage": True, "schema": ANY}
    api.create("customresourcedefinitions", custom_definition(version))
    api.delete("customresourcedefinitions", "things.example.com")
    assert api.send("GET", f"{SERVICES}/v1.example.com").obj["spec"] == spec


ANY = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


def custom_definition(*versions: dict[str, object]) -> dict[str, object]:
    names = {"plural": "things", "kind": "Thing"}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }


def test_api_service_of_an_unserved_version_is_removed() -> None:
    store = KeptStore()
    Api(store).server.publish_address("127.0.0.1", 6443)
    api = Api(store, resources=served_kinds())
    api.server.publish_address("127.0.0.1", 6443)
    assert api.send("GET", f"{SERVICES}/v1beta1.certificates.k8s.io").status == 404
    assert api.send("GET", f"{SERVICES}/v1.certificates.k8s.io").status == 200
