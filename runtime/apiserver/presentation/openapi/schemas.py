"""Schemas of OpenAPI v3 documents, built from api_types.json and the installed descriptions.

Source: api/openapi-spec/v3 (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.runtime.apiserver.presentation.openapi.descriptions import Descriptions, TypeDescription
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import subresource_of
from kcm.runtime.schema.api_types import META, OBJECT_META, ApiType, ApiTypes, Field

GROUP_VERSION_KIND = "x-kubernetes-group-version-kind"
PREFIX = "#/components/schemas/"

_SCALARS: Mapping[str, Mapping[str, str]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "boolean": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
}
LIST_META = f"{META}.ListMeta"
_ANY_KIND = "io.k8s.api.core.v1.ConfigMap"
_OF_TYPES = {"mapType": "x-kubernetes-map-type", "unions": "x-kubernetes-unions"}


def kind_of(definition: ResourceDefinition, subresource: str = "") -> dict[str, str]:
    other = subresource_of(subresource).kind if subresource else None
    if other is not None:
        return other._asdict()
    return {"group": definition.group, "version": definition.version, "kind": definition.kind}


def schemas_of(
    definitions: Sequence[ResourceDefinition], types: ApiTypes, descriptions: Descriptions
) -> dict[str, Any]:
    """Return the schemas of the kinds of these resources, and of all types that they refer to, by OpenAPI name."""
    schemas: dict[str, Any] = {}
    roots: dict[str, dict[str, str]] = {}
    for definition in definitions:
        own = kind_of(definition)
        lists = [own | {"kind": definition.list_kind}] if "list" in definition.verbs else []
        for kind in (own, *lists, *(kind_of(definition, s) for s in definition.subresources)):
            name = types.name_of(**kind)
            if name is not None:
                roots[name] = kind
            elif definition.schema is None:
                schemas[custom_type_name(kind)] = _any_fields_schema(kind)
            elif kind is own:
                schemas[custom_type_name(kind)] = _custom_schema(kind, definition.schema, descriptions)
            elif kind["kind"] == definition.list_kind:
                schemas[custom_type_name(kind)] = _custom_list_schema(kind, custom_type_name(own))
    parts = {OBJECT_META, LIST_META} if any(definition.schema is not None for definition in definitions) else set()
    for type_ in types.closure(sorted({*roots, *parts})):  # the same document in every process
        schemas[type_.name] = schema_of(type_, descriptions.of(type_.name))
        if type_.name in roots:
            schemas[type_.name][GROUP_VERSION_KIND] = [roots[type_.name]]
    return schemas


def custom_type_name(kind: Mapping[str, str]) -> str:
    """Return the OpenAPI name of a kind without a built-in type, such as "com.example.v1.Widget"."""
    return ".".join([*reversed(kind["group"].split(".")), kind["version"], kind["kind"]])


def _any_fields_schema(kind: Mapping[str, str]) -> dict[str, Any]:
    """Return a schema that permits any fields, for a kind whose schema is unknown."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, GROUP_VERSION_KIND: [dict(kind)]}


def common_fields(metadata: Mapping[str, Any], descriptions: Descriptions) -> dict[str, dict[str, Any]]:
    """Return the schemas of the fields that all objects have: apiVersion, kind and metadata.

    metadata: schema of the field metadata
    """
    words = descriptions.of(_ANY_KIND)
    fields = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": metadata}
    return {
        name: {**schema, **({"description": text} if (text := words.of_field(name)) else {})}
        for name, schema in fields.items()
    }


def _custom_schema(kind: Mapping[str, str], schema: Mapping[str, Any], descriptions: Descriptions) -> dict[str, Any]:
    """Return the schema of a custom resource: the schema in its definition, and the fields that all objects have."""
    given = schema.get("properties") or {}
    own = common_fields({"allOf": [reference(OBJECT_META)], "default": {}}, descriptions)
    properties = {**own, **_without_meta(given)}
    return {**schema, "type": "object", "properties": properties, GROUP_VERSION_KIND: [dict(kind)]}


def _without_meta(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: property_ for name, property_ in properties.items() if name not in ("apiVersion", "kind", "metadata")}


def _custom_list_schema(kind: Mapping[str, str], name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": reference(LIST_META),
            "items": {"type": "array", "items": reference(name)},
        },
        GROUP_VERSION_KIND: [dict(kind)],
    }


def schema_of(type_: ApiType, description: TypeDescription) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"} if type_.schema is None else dict(type_.schema)
    if description.text:
        schema["description"] = description.text
    if type_.fields:
        schema["properties"] = {
            field.name: _property(field, description.of_field(field.name)) for field in type_.fields.values()
        }
    required = sorted(field.name for field in type_.fields.values() if field.required)
    if required:
        schema["required"] = required
    return schema | {_OF_TYPES[word]: value for word, value in type_.extensions.items()}


def _property(field: Field, description: str) -> dict[str, Any]:
    rest = {
        "default": field.default,
        "description": description,
        "x-kubernetes-list-map-keys": list(field.list_map_keys),
        "x-kubernetes-list-type": field.list_type,
        "x-kubernetes-map-type": field.map_type,
        "x-kubernetes-patch-merge-key": field.patch_merge_key,
        "x-kubernetes-patch-strategy": ",".join(field.patch_strategy),
    }
    beside = {word: value for word, value in rest.items() if value or (word == "default" and value is not None)}
    found = _with_form(field)
    if beside and "$ref" in found:
        found = {"allOf": [found]}  # keywords beside a $ref are ignored
    return found | beside


def _with_form(field: Field) -> dict[str, Any]:
    schema = reference(field.type) if field.type else dict(_SCALARS[field.kind])
    match field.form:
        case "list":
            return {"type": "array", "items": schema}
        case "map":
            return {"type": "object", "additionalProperties": schema}
        case "map of lists":
            return {"type": "object", "additionalProperties": {"type": "array", "items": schema}}
    return schema


def reference(name: str) -> dict[str, Any]:
    return {"$ref": f"{PREFIX}{name}"}
