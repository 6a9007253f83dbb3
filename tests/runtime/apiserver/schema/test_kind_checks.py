"""The type of a field depends on its struct, not only on its name."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.schema.kind_checks import built_in_type_checks
from kcm.runtime.apiserver.schema.scalars import UnmarshalTypeError

RUNTIME_CLASSES = ResourceDefinition(group="node.k8s.io", plural="runtimeclasses", kind="RuntimeClass")
RESOURCE_SLICES = ResourceDefinition(group="resource.k8s.io", plural="resourceslices", kind="ResourceSlice")
CONFIG_MAPS = ResourceDefinition(plural="configmaps", kind="ConfigMap")
PODS = ResourceDefinition(plural="pods", kind="Pod")
BUDGETS = ResourceDefinition(group="policy", plural="poddisruptionbudgets", kind="PodDisruptionBudget")
REVIEWS = ResourceDefinition(group="authorization.k8s.io", plural="subjectaccessreviews", kind="SubjectAccessReview")

DEFINITIONS = ResourceDefinition(
    group="apiextensions.k8s.io", plural="customresourcedefinitions", kind="CustomResourceDefinition"
)


def checked(definition: ResourceDefinition, obj: dict[str, Any]) -> dict[str, Any]:
    obj = {"apiVersion": definition.api_version, "kind": definition.kind, "metadata": {}, **obj}
    built_in_type_checks().check(definition, obj)
    return obj


def test_overhead_of_a_runtime_class_may_be_numbers() -> None:
    made = checked(RUNTIME_CLASSES, {"handler": "runc", "overhead": {"podFixed": {"cpu": 1, "memory": "1024Mi"}}})
    assert made["overhead"] == {"podFixed": {"cpu": "1", "memory": "1Gi"}}


def test_devices_have_attributes_and_capacity() -> None:
    device = {
        "name": "gpu-0",
        "attributes": {"example.com/model": {"string": "a100"}, "cores": {"int": 8}, "stray": {"x": 1}},
        "capacity": {
            "memory": {"value": 1024, "requestPolicy": {"default": "1024Mi", "validValues": [1, "1024Mi", None]}}
        },
    }
    made = checked(RESOURCE_SLICES, {"spec": {"devices": [device]}})
    allowed = {"default": "1Gi", "validValues": ["1", "1Gi", "0"]}
    assert made["spec"]["devices"] == [
        {
            "name": "gpu-0",
            "attributes": {"example.com/model": {"string": "a100"}, "cores": {"int": 8}, "stray": {}},
            "capacity": {"memory": {"value": "1024", "requestPolicy": allowed}},
        }
    ]


def test_map_of_strings_is_not_converted_to_quantities() -> None:
    assert checked(CONFIG_MAPS, {"data": {"cpu": "1000m"}})["data"] == {"cpu": "1000m"}


@pytest.mark.parametrize(
    "definition, obj, error",
    [
        (
            RESOURCE_SLICES,
            {"spec": {"devices": [{"attributes": {"a": {"int": "8"}}}]}},
            (
                "json: cannot unmarshal string into Go struct field DeviceAttribute.spec.devices.attributes.int "
                "of type int64"
            ),
        ),
        (
            RUNTIME_CLASSES,
            {"overhead": {"podFixed": []}},
            "json: cannot unmarshal array into Go struct field Overhead.overhead.podFixed of type v1.ResourceList",
        ),
        (
            BUDGETS,
            {"status": {"disruptedPods": {"web": 7}}},
            (
                "json: cannot unmarshal number into Go struct field PodDisruptionBudgetStatus.status.disruptedPods "
                "of type string"
            ),
        ),
        (
            REVIEWS,
            {"spec": {"extra": {"scopes": "a"}}},
            "json: cannot unmarshal string into Go struct field SubjectAccessReviewSpec.spec.extra of type []string",
        ),
    ],
)
def test_values_inside_a_map_are_validated(definition: ResourceDefinition, obj: dict[str, Any], error: str) -> None:
    with pytest.raises(UnmarshalTypeError) as refused:
        checked(definition, obj)
    assert str(refused.value) == error


def test_nulls_in_lists_and_maps_become_zero_values() -> None:
    made = checked(CONFIG_MAPS, {"data": {"a": None}, "binaryData": {"b": None}, "immutable": None})
    assert {field: made.get(field) for field in ("data", "binaryData", "immutable")} == {
        "data": {"a": ""},
        "binaryData": {"b": ""},
        "immutable": None,
    }
    pod = checked(PODS, {"spec": {"containers": [None, {"name": "a", "command": [None]}]}})
    assert pod["spec"]["containers"] == [{}, {"name": "a", "command": [""]}]


def definition_with(schema: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}


@pytest.mark.parametrize(
    "given, kept",
    [
        ({"additionalProperties": False, "items": {"no": 1}}, {"additionalProperties": False, "items": {}}),
        ({"items": [{"type": "string"}, None]}, {"items": [{"type": "string"}, {}]}),
        ({"dependencies": {"a": ["b"], "c": {"no": 1}}}, {"dependencies": {"a": ["b"], "c": {}}}),
        ({"items": 5}, {"items": None}),
    ],
)
def test_schema_in_fields_of_several_types_is_pruned(given: dict[str, Any], kept: dict[str, Any]) -> None:
    assert checked(DEFINITIONS, definition_with(given))["spec"] == definition_with(kept)["spec"]


@pytest.mark.parametrize(
    "schema", [{"additionalProperties": ["a", 5]}, {"additionalProperties": {"type": 5}}, {"items": [7]}]
)
def test_a_schema_of_another_type_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(UnmarshalTypeError):
        checked(DEFINITIONS, definition_with(schema))
