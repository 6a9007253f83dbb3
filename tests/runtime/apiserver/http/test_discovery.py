from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.presentation.discovery import aggregated_discovery, aggregated_json, discovery
from kcm.runtime.apiserver.registry.definitions import Registry, ResourceDefinition
from kcm.runtime.apiserver.registry.version_ranks import version_rank
from tests.runtime.apiserver.http.served import Served, run

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ADDRESS = "127.0.0.1:6443"
PODS = ResourceDefinition(
    plural="pods", kind="Pod", short_names=("po",), categories=("all",), subresources=("status", "binding", "eviction")
)
NODES = ResourceDefinition(plural="nodes", kind="Node", namespaced=False, verbs=("get", "list"))
DEPLOYMENTS = ResourceDefinition(group="apps", plural="deployments", kind="Deployment", subresources=("scale",))
AUTOSCALERS = [
    ResourceDefinition(
        group="autoscaling", version=v, plural="horizontalpodautoscalers", kind="HorizontalPodAutoscaler"
    )
    for v in ("v1", "v2", "v2beta1")
]
REGISTRY = Registry([PODS, NODES, DEPLOYMENTS, *AUTOSCALERS])


def found(path: str) -> dict[str, Any]:
    document = discovery(REGISTRY, path, address=ADDRESS)
    assert document is not None
    return document


@pytest.mark.parametrize(
    "worse, better",
    [
        ("v1", "v2"),
        ("v1beta1", "v1"),
        ("v1beta1", "v1beta2"),
        ("v2alpha1", "v1beta1"),
        ("v1", "v10"),
        ("x1", "v1alpha1"),
    ],
)
def test_stable_and_newer_versions_are_preferred(worse: str, better: str) -> None:
    assert version_rank(better) < version_rank(worse)


def test_core_discovery_has_versions_and_server_address() -> None:
    document = found("/api")
    assert document["versions"] == ["v1"]
    assert document["serverAddressByClientCIDRs"] == [{"clientCIDR": "0.0.0.0/0", "serverAddress": ADDRESS}]


def test_named_groups_have_a_preferred_version() -> None:
    assert [group["name"] for group in found("/apis")["groups"]] == ["apps", "autoscaling"]
    group = found("/apis/autoscaling")
    assert group["kind"] == "APIGroup"
    assert group["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}
    assert [version["version"] for version in group["versions"]] == ["v2", "v1", "v2beta1"]


def test_discovery_of_a_version_lists_resources_and_subresources() -> None:
    document = found("/api/v1")
    assert document["groupVersion"] == "v1"
    shown = {resource["name"]: resource for resource in document["resources"]}
    assert list(shown) == [
        "nodes",
        "nodes/proxy",
        "pods",
        *(
            f"pods/{name}"
            for name in ("attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status")
        ),
    ]
    served = ("nodes", "pods", "pods/binding", "pods/eviction", "pods/status")
    nodes, pods, binding, eviction, status = (shown[name] for name in served)
    assert (nodes["namespaced"], nodes["verbs"]) == (False, ("get", "list"))
    assert (pods["shortNames"], pods["categories"], pods["singularName"]) == (("po",), ("all",), "pod")
    assert (binding["kind"], binding["verbs"], "group" in binding) == ("Binding", ("create",), False)
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")
    assert (status["kind"], status["verbs"]) == ("Pod", ("get", "patch", "update"))


@pytest.mark.parametrize("path", ["/api/v2", "/apis/v1", "/apis/none", "/apis/apps/v2", "/api/v1/pods", "/apis//v1"])
def test_unknown_discovery_path_is_not_found(path: str) -> None:
    assert discovery(REGISTRY, path, address=ADDRESS) is None


def test_aggregated_discovery_contains_all_resources() -> None:
    core = aggregated_discovery(REGISTRY, "/api")
    named = aggregated_discovery(REGISTRY, "/apis")
    assert core is not None
    assert named is not None
    assert core["apiVersion"] == "apidiscovery.k8s.io/v2"
    (version,) = core["items"][0]["versions"]
    assert [resource["resource"] for resource in version["resources"]] == ["nodes", "pods"]
    assert version["resources"][0]["scope"] == "Cluster"
    assert [item["metadata"]["name"] for item in named["items"]] == ["apps", "autoscaling"]
    (deployments,) = named["items"][0]["versions"][0]["resources"]
    assert deployments["subresources"] == [
        {
            "subresource": "scale",
            "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
            "verbs": ("get", "patch", "update"),
        }
    ]


def test_both_discoveries_list_the_same_resources() -> None:
    plain = {
        (group_version, resource["name"])
        for group_version in ("apps/v1", "autoscaling/v2")
        for resource in found(f"/apis/{group_version}")["resources"]
        if "/" not in resource["name"]
    }
    named = aggregated_discovery(REGISTRY, "/apis")
    assert named is not None
    aggregated = {
        (f"{item['metadata']['name']}/{version['version']}", resource["resource"])
        for item in named["items"]
        for version in item["versions"]
        for resource in version["resources"]
    }
    assert plain <= aggregated


def test_added_resource_is_discovered() -> None:
    registry = Registry([PODS])
    registry.add(ResourceDefinition(group="example.com", version="v1", plural="widgets", kind="Widget", dynamic=True))
    assert discovery(registry, "/apis/example.com/v1", address=ADDRESS) is not None


def test_aggregated_document_is_built_again_after_each_change_of_definitions() -> None:
    registry = Registry([PODS, DEPLOYMENTS])
    widgets = ResourceDefinition(group="example.com", version="v1", plural="widgets", kind="Widget", dynamic=True)
    first = aggregated_json(registry, "/apis")
    assert aggregated_json(registry, "/apis") is first
    registry.add(widgets)
    assert b"widgets" in (aggregated_json(registry, "/apis") or b"")
    registry.serve_elsewhere("v1.example.com", ("example.com", "v1"))
    assert b"Stale" in (aggregated_json(registry, "/apis") or b"")
    registry.serve_elsewhere("v1.example.com", None)
    registry.remove(widgets)
    assert aggregated_json(registry, "/apis") == first


def test_only_root_paths_have_aggregated_discovery() -> None:
    assert aggregated_discovery(REGISTRY, "/apis/apps") is None
    assert aggregated_json(REGISTRY, "/apis/apps") is None


def test_another_servers_group_version_is_stale_in_discovery_and_unavailable() -> None:
    """The expected responses are those of kube-apiserver while the server of an APIService is down."""

    async def scenario(served: Served) -> None:
        spec = {"group": "x.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
        spec |= {"service": {"namespace": "default", "name": "x"}, "insecureSkipTLSVerify": True}
        body = {"metadata": {"name": "v1.x.io"}, "spec": spec}
        path = "/apis/apiregistration.k8s.io/v1/apiservices"
        assert (await served.ask("POST", path, json=body)).status == 201
        for place in ("/apis/x.io/v1", "/apis/x.io/v1/things", "/apis/x.io/v1/namespaces/a/things/b"):
            answer = await served.get(place)
            assert (answer.status, answer.raw) == (503, b"service unavailable\n")
            assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        version = {"groupVersion": "x.io/v1", "version": "v1"}
        group = {"name": "x.io", "versions": [version], "preferredVersion": version}
        assert group in (await served.get("/apis")).json["groups"]
        assert (await served.get("/apis/x.io")).json == {"kind": "APIGroup", "apiVersion": "v1", **group}
        aggregated = await served.get("/apis", headers={"Accept": AGGREGATED})
        (found,) = (item for item in aggregated.json["items"] if item["metadata"]["name"] == "x.io")
        assert found["versions"] == [{"version": "v1", "freshness": "Stale"}]

    run(scenario, resources=BUILT_IN)
