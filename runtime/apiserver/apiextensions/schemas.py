"""Access to a JSONSchemaProps in its JSON form, where an absent field and the zero value of its type mean the same.

Source: apiextensions-apiserver pkg/apis/apiextensions/types_jsonschema.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
RULES = "x-kubernetes-validations"

META_FIELDS = ("apiVersion", "kind", "metadata")
JUNCTORS = ("allOf", "anyOf", "oneOf")


def items_of(schema: Schema) -> Schema | None:
    """Return the schema of a list's items; None if there is none, or a list of schemas, which is forbidden."""
    items = schema.get("items")
    return items if isinstance(items, dict) else None


def properties_of(schema: Schema) -> Mapping[str, Schema]:
    return schema.get("properties") or {}


def additional_of(schema: Schema) -> Schema | None:
    """Return the schema of a map's values; None if additionalProperties is absent or a boolean."""
    additional = schema.get("additionalProperties")
    return additional if isinstance(additional, dict) else None


def parts_of(schema: Schema) -> Iterator[Schema]:
    """Yield the schemas directly inside a schema, including those in forbidden fields."""
    items = schema.get("items")
    yield from [items] if isinstance(items, dict) else items or ()
    for junctor in JUNCTORS:
        yield from schema.get(junctor) or ()
    if schema.get("not") is not None:
        yield schema["not"]
    for field in ("properties", "patternProperties", "definitions", "dependencies"):
        yield from (inner for inner in (schema.get(field) or {}).values() if isinstance(inner, dict))
    yield from (
        inner
        for inner in (schema.get("additionalProperties"), schema.get("additionalItems"))
        if isinstance(inner, dict)
    )


def all_schemas(schema: Schema) -> Iterator[Schema]:
    """Yield a schema and all schemas inside it."""
    yield schema
    for part in parts_of(schema):
        yield from all_schemas(part)


def types_of(schema: Schema) -> tuple[str, ...]:
    """Return the allowed types of values; empty if every type is allowed."""
    if schema.get(INT_OR_STRING):
        return "integer", "string"
    return (schema["type"],) if schema.get("type") else ()
