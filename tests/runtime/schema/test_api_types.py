from __future__ import annotations

import pytest

from kcm.runtime.schema.api_types import META, ApiTypes, Field, built_in_types

CORE, APPS, NETWORKING = "io.k8s.api.core.v1", "io.k8s.api.apps.v1", "io.k8s.api.networking.v1"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


@pytest.fixture(scope="module")
def types() -> ApiTypes:
    return built_in_types()


def field(types: ApiTypes, type_: str, name: str) -> Field:
    found = types.find(type_)
    assert found is not None
    return found.fields[name]


@pytest.mark.parametrize(
    "group, version, kind, name",
    [
        ("", "v1", "Pod", "io.k8s.api.core.v1.Pod"),
        ("", "v1", "PodList", "io.k8s.api.core.v1.PodList"),
        ("apps", "v1", "Deployment", "io.k8s.api.apps.v1.Deployment"),
        ("rbac.authorization.k8s.io", "v1", "Role", "io.k8s.api.rbac.v1.Role"),
        ("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "io.k8s.api.flowcontrol.v1.FlowSchema"),
        (
            "internal.apiserver.k8s.io",
            "v1alpha1",
            "StorageVersion",
            "io.k8s.api.apiserverinternal.v1alpha1.StorageVersion",
        ),
        ("resource.k8s.io", "v1beta2", "ResourceSlice", "io.k8s.api.resource.v1beta2.ResourceSlice"),
    ],
)
def test_a_kind_is_found_by_group_and_version(types: ApiTypes, group: str, version: str, kind: str, name: str) -> None:
    assert types.name_of(group, version, kind) == name
    found = types.of_kind(group, version, kind)
    assert found is not None
    assert found.name == name
    assert found.go_name == ".".join(name.split(".")[-2:])


@pytest.mark.parametrize(
    "type_, name, expected",
    [
        (f"{APPS}.DeploymentSpec", "replicas", {"kind": "int32", "pointer": True, "number": (1,)}),
        (f"{APPS}.DeploymentSpec", "template", {"kind": "struct", "type": f"{CORE}.PodTemplateSpec", "required": True}),
        (f"{APPS}.DeploymentSpec", "template", {"pointer": False, "default": {}}),
        (f"{APPS}.DeploymentSpec", "strategy", {"patch_strategy": ("retainKeys",)}),
        (f"{CORE}.PodSpec", "containers", {"kind": "struct", "type": f"{CORE}.Container", "form": "list"}),
        (f"{CORE}.PodSpec", "containers", {"required": True, "patch_merge_key": "name", "list_map_keys": ("name",)}),
        (f"{CORE}.PodSpec", "nodeSelector", {"kind": "string", "form": "map", "map_type": "atomic"}),
        (f"{CORE}.Container", "args", {"kind": "string", "form": "list", "list_type": "atomic", "required": False}),
        (f"{CORE}.ContainerPort", "protocol", {"default": "TCP", "pointer": False}),
        (f"{CORE}.PodSpec", "hostNetwork", {"kind": "boolean", "pointer": False, "number": (11,)}),
        (f"{CORE}.PodSpec", "terminationGracePeriodSeconds", {"kind": "int64", "pointer": True}),
        (f"{CORE}.ResourceRequirements", "limits", {"kind": "quantity", "type": QUANTITY, "form": "map"}),
        (f"{CORE}.ServicePort", "targetPort", {"kind": "int_or_string"}),
        (f"{CORE}.Event", "eventTime", {"kind": "micro_time"}),
        (f"{CORE}.Secret", "data", {"kind": "bytes", "form": "map"}),
        (f"{CORE}.Volume", "emptyDir", {"number": (2, 2), "pointer": True}),
        (f"{META}.ObjectMeta", "creationTimestamp", {"kind": "time"}),
        (f"{META}.ObjectMeta", "finalizers", {"list_type": "set", "patch_strategy": ("merge",)}),
        (f"{NETWORKING}.NetworkPolicyIngressRule", "from", {"kind": "struct", "form": "list", "required": False}),
        ("io.k8s.api.node.v1.Overhead", "podFixed", {"kind": "quantity", "form": "map"}),
        ("io.k8s.api.resource.v1.Device", "attributes", {"kind": "struct", "form": "map"}),
        ("io.k8s.api.authentication.v1.UserInfo", "extra", {"kind": "string", "form": "map of lists"}),
    ],
)
def test_facts_of_a_field(types: ApiTypes, type_: str, name: str, expected: dict[str, object]) -> None:
    found = field(types, type_, name)
    assert {fact: getattr(found, fact) for fact in expected} == expected


def test_every_type_can_be_read_and_refers_to_known_types(types: ApiTypes) -> None:
    names = set(types)
    assert len(names) > 700
    for name in names:
        found = types.find(name)
        assert found is not None
        assert {each.type for each in found.fields.values() if each.type} <= names
        assert all((each.kind in ("time", "quantity", "struct")) <= bool(each.type) for each in found.fields.values())
    assert set(types.kinds.values()) <= names


def test_types_with_their_own_encoding_are_distinguished_from_structs(types: ApiTypes) -> None:
    """A type that is new in a release needs an entry in the table, and a decoder."""
    for name in types:
        found = types.find(name)
        assert found is not None
        encodings = {
            each.kind
            for other in types
            if (holder := types.find(other)) is not None
            for each in holder.fields.values()
            if each.type == name
        }
        if found.schema not in (None, {"type": "object"}):
            assert "struct" not in encodings, name


def test_closure_contains_every_referenced_type(types: ApiTypes) -> None:
    names = {each.name for each in types.closure([f"{APPS}.Deployment"])}
    assert {f"{META}.ObjectMeta", f"{CORE}.Probe", f"{CORE}.EnvVarSource", QUANTITY} <= names
    for name in names:
        found = types.find(name)
        assert found is not None
        assert {each.type for each in found.fields.values() if each.type} <= names


@pytest.mark.parametrize("group", ["example.com", "apps", "apps.example.com"])
def test_types_undefined_upstream_are_absent(types: ApiTypes, group: str) -> None:
    assert types.of_kind(group, "v1", "Widget") is None
    assert group == "apps" or types.of_kind(group, "v1", "Deployment") is None
    assert types.find("io.k8s.api.core.v1.Widget") is None
