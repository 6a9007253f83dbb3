import re
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from kcm.runtime.apiserver.presentation.openapi.descriptions import installed_descriptions
from kcm.runtime.apiserver.presentation.openapi.documents import OpenApi
from kcm.runtime.apiserver.registry.definitions import Registry, ResourceDefinition
from kcm.runtime.schema.api_types import built_in_types

DEPLOYMENTS = ResourceDefinition(
    group="apps", plural="deployments", kind="Deployment", subresources=("status", "scale")
)
NAMESPACES = ResourceDefinition(plural="namespaces", kind="Namespace", namespaced=False)
WIDGETS = ResourceDefinition(group="example.com", plural="widgets", kind="Widget", dynamic=True)


@pytest.fixture(scope="module")
def apps() -> dict[str, Any]:
    return document(openapi_of(DEPLOYMENTS), "apis/apps/v1")


def openapi_of(*definitions: ResourceDefinition) -> OpenApi:
    return openapi_with(Registry(definitions))


def openapi_with(registry: Registry) -> OpenApi:
    return OpenApi(registry, built_in_types(), installed_descriptions())


def document(openapi: OpenApi, path: str) -> dict[str, Any]:
    made = openapi.document(path)
    assert made is not None
    found: dict[str, Any] = orjson.loads(made[1])
    return found


def schema(found: dict[str, Any], name: str) -> dict[str, Any]:
    result: dict[str, Any] = found["components"]["schemas"][name]
    return result


def test_the_index_names_a_document_for_each_group_and_version() -> None:
    index = openapi_of(DEPLOYMENTS, NAMESPACES, WIDGETS).index()
    assert set(index["paths"]) == {"api/v1", "apis/apps/v1", "apis/example.com/v1"}
    url = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
    assert re.fullmatch(r"/openapi/v3/apis/apps/v1\?hash=[0-9a-f]{32}", url)


def test_a_document_and_its_hash_change_with_what_is_served() -> None:
    registry = Registry([DEPLOYMENTS])
    openapi = openapi_with(registry)
    before, paths = openapi.index()["paths"]["apis/apps/v1"], document(openapi, "apis/apps/v1")["paths"]
    assert openapi.document("apis/apps/v1") is openapi.document("apis/apps/v1")
    registry.add(ResourceDefinition(group="apps", plural="replicasets", kind="ReplicaSet"))
    assert openapi.index()["paths"]["apis/apps/v1"] != before
    assert set(paths) < set(document(openapi, "apis/apps/v1")["paths"])


def test_only_served_resources_are_documented() -> None:
    assert openapi_of(DEPLOYMENTS).document("apis/batch/v1") is None


def test_every_reference_leads_to_a_schema(apps: dict[str, Any]) -> None:
    names = set(re.findall(rb'"#/components/schemas/([^"]+)"', orjson.dumps(apps)))
    assert len(names) > 100
    assert {name.decode() for name in names} <= set(apps["components"]["schemas"])


def test_kinds_are_found_by_group_version_and_kind(apps: dict[str, Any]) -> None:
    found = {
        (kind["group"], kind["version"], kind["kind"])
        for definition in apps["components"]["schemas"].values()
        for kind in definition.get("x-kubernetes-group-version-kind", ())
    }
    assert found == {("apps", "v1", "Deployment"), ("apps", "v1", "DeploymentList"), ("autoscaling", "v1", "Scale")}


def test_a_schema_has_types_descriptions_and_required_fields(apps: dict[str, Any]) -> None:
    spec = schema(apps, "io.k8s.api.apps.v1.DeploymentSpec")
    assert spec["required"] == ["selector", "template"]
    assert spec["properties"]["replicas"]["type"] == "integer"
    assert spec["properties"]["strategy"] == {
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}],
        "default": {},
        "description": "The deployment strategy to use to replace existing pods with new ones.",
        "x-kubernetes-patch-strategy": "retainKeys",
    }
    assert spec["properties"]["minReadySeconds"]["format"] == "int32"
    limits = schema(apps, "io.k8s.api.core.v1.ResourceRequirements")["properties"]["limits"]
    assert limits["additionalProperties"] == {
        "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"
    }


@pytest.mark.parametrize(
    "type_, field, strategy, key",
    [
        ("io.k8s.api.core.v1.PodSpec", "containers", "merge", "name"),
        ("io.k8s.api.core.v1.PodSpec", "volumes", "merge,retainKeys", "name"),
        ("io.k8s.api.core.v1.PodSpec", "tolerations", None, None),
        ("io.k8s.api.core.v1.Container", "ports", "merge", "containerPort"),
        ("io.k8s.api.core.v1.Container", "args", None, None),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers", "merge", None),
        ("io.k8s.api.apps.v1.DeploymentStatus", "conditions", "merge", "type"),
    ],
)
def test_list_schema_has_merge_strategy_and_key(
    apps: dict[str, Any], type_: str, field: str, strategy: str | None, key: str | None
) -> None:
    found = schema(apps, type_)["properties"][field]
    assert found.get("x-kubernetes-patch-strategy") == strategy
    assert found.get("x-kubernetes-patch-merge-key") == key


def test_writes_have_parameters_for_validation_and_dry_run(apps: dict[str, Any]) -> None:
    path_item = apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    assert set(path_item) == {"get", "put", "patch", "delete"}
    assert {"dryRun", "fieldValidation"} <= {parameter["name"] for parameter in path_item["patch"]["parameters"]}
    assert "application/strategic-merge-patch+json" in path_item["patch"]["requestBody"]["content"]
    scale = apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]
    assert scale["put"]["x-kubernetes-group-version-kind"]["kind"] == "Scale"


def test_cluster_scoped_resources_have_no_namespace_in_their_paths() -> None:
    paths = document(openapi_of(NAMESPACES), "api/v1")["paths"]
    assert set(paths) == {"/api/v1/namespaces", "/api/v1/namespaces/{name}"}


def test_custom_resources_accept_any_field_and_no_strategic_merge_patch() -> None:
    found = document(openapi_of(WIDGETS), "apis/example.com/v1")
    assert schema(found, "com.example.v1.Widget")["x-kubernetes-preserve-unknown-fields"] is True
    patch = found["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]


def test_another_build_has_other_hashes() -> None:
    """Clients cache a document by its hash without expiry, so another build of the server needs other hashes."""
    registry = Registry([DEPLOYMENTS])
    first, other = (OpenApi(registry, built_in_types(), installed_descriptions(), build=build) for build in ("1", "2"))
    assert first.index() != other.index()


def test_custom_kind_has_descriptions_of_common_fields() -> None:
    widgets = replace(WIDGETS, schema={"type": "object", "properties": {"spec": {"type": "object"}}})
    properties = schema(document(openapi_of(widgets), "apis/example.com/v1"), "com.example.v1.Widget")["properties"]
    described = {name: property.get("description", "") for name, property in properties.items()}
    assert described["apiVersion"].startswith("APIVersion defines")
    assert described["kind"].startswith("Kind is a string")
    assert described["metadata"].startswith("Standard object's metadata")
    assert described["spec"] == ""
