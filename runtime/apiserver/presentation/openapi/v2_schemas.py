"""Definitions of the OpenAPI v2 document: the schemas of v3, reduced to the keywords of v2.

Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go, pkg/controller/openapi/v2/conversion.go
(v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.runtime.apiserver.presentation.openapi.descriptions import Descriptions
from kcm.runtime.apiserver.presentation.openapi.schemas import (
    GROUP_VERSION_KIND,
    PREFIX,
    common_fields,
    custom_type_name,
    kind_of,
    schema_of,
    schemas_of,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.schema.api_types import META, OBJECT_META, ApiTypes

# Types of requests and discovery, which are not the kind of a resource.
STATUS, PATCH, WATCH_EVENT = f"{META}.Status", f"{META}.Patch", f"{META}.WatchEvent"
DELETE_OPTIONS, INFO = f"{META}.DeleteOptions", "io.k8s.apimachinery.pkg.version.Info"
_OTHER_TYPES = (
    *(STATUS, PATCH, WATCH_EVENT, DELETE_OPTIONS, INFO),
    *(f"{META}.{name}" for name in ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions")),
)
_OF_ALL_GROUPS = (DELETE_OPTIONS, WATCH_EVENT)
_TEXT_OR_NUMBER = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
}
_ONLY_IN_V3 = frozenset({"allOf", "oneOf", "anyOf", "not", "default", "nullable", "example", "externalDocs"})
_PRESERVE, _EMBEDDED = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"


def reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/definitions/{name}"}


def schemas(
    definitions: Sequence[ResourceDefinition], types: ApiTypes, descriptions: Descriptions
) -> dict[str, dict[str, Any]]:
    """Return the schemas of all resources and of request types such as DeleteOptions, by OpenAPI name."""
    found = schemas_of(definitions, types, descriptions)
    for type_ in types.closure(_OTHER_TYPES):
        found[type_.name] = schema_of(type_, descriptions.of(type_.name)) | _kinds(found.get(type_.name, {}))
    for kind, name in types.kinds.items():
        if name in _OTHER_TYPES and name not in _OF_ALL_GROUPS:
            found[name][GROUP_VERSION_KIND] = [_split(kind)]
    of_all = sorted({(definition.group, definition.version) for definition in definitions})
    for name in _OF_ALL_GROUPS:
        kind = name.rpartition(".")[2]
        found[name][GROUP_VERSION_KIND] = [_group_version_kind(group, version, kind) for group, version in of_all]
    shown = {name: _built_in(schema) for name, schema in found.items()}
    for name, words in _TEXT_OR_NUMBER.items():
        description = shown[name].get("description")
        shown[name] = {**words, **({"description": description} if description else {})}
    for definition in definitions:
        if definition.schema is not None:
            shown[custom_type_name(kind_of(definition))] = _custom_kind(definition, definition.schema, descriptions)
    return shown


def _kinds(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {GROUP_VERSION_KIND: schema[GROUP_VERSION_KIND]} if GROUP_VERSION_KIND in schema else {}


def _split(place: str) -> dict[str, str]:
    api_version, _, kind = place.rpartition("/")
    group, _, version = api_version.rpartition("/")
    return _group_version_kind(group, version, kind)


def _group_version_kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "kind": kind, "version": version}


def _built_in(schema: Any) -> Any:
    """Convert the schema of a built-in type to v2: without defaults and without allOf around a single reference."""
    match schema:
        case {"allOf": [{"$ref": str()} as single], **rest}:
            return _built_in({**single, **rest})
        case {"properties": properties, **rest}:
            return {
                **_built_in(rest),
                "properties": {name: _built_in(property_) for name, property_ in properties.items()},
            }
        case dict():
            return {word: _built_in(value) for word, value in schema.items() if word != "default"}
        case list():
            return [_built_in(item) for item in schema]
        case str():
            return schema.replace(PREFIX, "#/definitions/", 1) if schema.startswith(PREFIX) else schema
    return schema


def _custom_kind(
    definition: ResourceDefinition, schema: Mapping[str, Any], descriptions: Descriptions
) -> dict[str, Any]:
    kind = {GROUP_VERSION_KIND: [kind_of(definition)]}
    if schema.get(_PRESERVE):
        return {"type": "object", **kind}  # A client that sees some fields rejects all others.
    shown = custom_schema(schema)
    own = common_fields(reference(OBJECT_META), descriptions)
    return {**shown, "properties": {**shown.get("properties", {}), **own}, **kind}


def custom_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the schema of a custom resource to v2, without the keywords that v2 clients reject.

    v2 clients reject null values and, in a schema with known fields, unknown fields.
    """
    shown = {word: value for word, value in schema.items() if word not in _ONLY_IN_V3}
    if schema.get("nullable"):
        for word in ("type", "items", "properties"):
            shown.pop(word, None)
    if schema.get(_PRESERVE):
        for word in ("items", "properties"):
            shown.pop(word, None)
    without_items = shown.get("type") == "array" and "items" not in shown
    if without_items or (shown.get("type") == "object" and schema.get(_PRESERVE)):
        del shown["type"]
    additional = shown.get("additionalProperties")
    nullable = {name for name, property_ in shown.get("properties", {}).items() if property_.get("nullable")}
    required = [name for name in shown.pop("required", ()) if name not in nullable]
    if required and not (isinstance(additional, dict) and additional.get("nullable")):
        shown["required"] = required
    if "properties" in shown:
        shown["properties"] = {name: custom_schema(property_) for name, property_ in shown["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(shown.get(word), dict):
            shown[word] = custom_schema(shown[word])
    return _with_embedded(shown) if schema.get(_EMBEDDED) and not schema.get(_PRESERVE) else shown


def _with_embedded(shown: dict[str, Any]) -> dict[str, Any]:
    own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": reference(OBJECT_META)}
    required = [*shown.get("required", ())]
    required += [name for name in ("kind", "apiVersion") if name not in required]
    return {**shown, "properties": {**shown.get("properties", {}), **own}, "required": required}
