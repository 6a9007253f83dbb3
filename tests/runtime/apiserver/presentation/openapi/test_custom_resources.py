"""Custom resources in OpenAPI documents and in field validation."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.presentation.openapi.descriptions import installed_descriptions
from kcm.runtime.apiserver.presentation.openapi.documents import OpenApi
from kcm.runtime.apiserver.schema.field_validation import STRICT, FieldValidator
from kcm.runtime.schema.api_types import built_in_types
from tests.runtime.apiserver.conftest import Api

PROPERTIES = {"spec": {"type": "object", "description": "What is wanted.", "properties": {"a": {"type": "string"}}}}
VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": {"type": "object", "properties": PROPERTIES}},
}
SPEC: dict[str, Any] = {
    "group": "example.com",
    "scope": "Namespaced",
    "names": {"plural": "things", "kind": "Thing"},
    "versions": [VERSION],
}


@pytest.fixture
def things(api: Api) -> Api:
    api.create("customresourcedefinitions", {"metadata": {"name": "things.example.com"}, "spec": SPEC})
    return api


def test_a_custom_kind_is_explained(things: Api) -> None:
    openapi = OpenApi(things.server.registry, built_in_types(), installed_descriptions())
    before = openapi.index()
    made = openapi.document("apis/example.com/v1")
    assert made is not None
    document = orjson.loads(made[1])
    schemas = document["components"]["schemas"]
    shown = schemas["com.example.v1.Thing"]
    assert shown["properties"]["spec"] == PROPERTIES["spec"]
    assert shown["properties"]["apiVersion"]["description"].startswith("APIVersion defines")
    assert shown["properties"]["metadata"]["description"].startswith("Standard object's metadata")
    assert shown["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Thing"}]
    assert "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" in schemas
    assert schemas["com.example.v1.ThingList"]["properties"]["items"]["items"] == {
        "$ref": "#/components/schemas/com.example.v1.Thing"
    }
    schema = {"openAPIV3Schema": {"type": "object"}}
    things.patch(
        "customresourcedefinitions", "things.example.com", {"spec": {"versions": [{**VERSION, "schema": schema}]}}
    )
    assert openapi.index() != before


def test_fields_missing_in_the_schema_are_reported(things: Api) -> None:
    definition = things.server.registry.find("example.com", "v1", "things")
    assert definition is not None
    body = b'{"metadata": {"name": "a", "x": 1}, "spec": {"a": "1", "b": 2, "a": "2"}, "other": 1}'

    def check(directive: str) -> list[str]:
        return FieldValidator(built_in_types()).check(
            body, group="example.com", version="v1", kind="Thing", directive=directive, settle=definition.settle
        )

    found = [
        'duplicate field "spec.a"',
        'unknown field "metadata.x"',
        'unknown field "other"',
        'unknown field "spec.b"',
    ]
    assert check("Warn") == found
    with pytest.raises(StatusError) as refused:
        check(STRICT)
    assert refused.value.message == (
        f'Thing in version "v1" cannot be handled as a Thing: strict decoding error: {", ".join(found)}'
    )
