"""The schemas in an OpenAPI v3 document: the types of models, and how their lists merge.

Source: api/openapi-spec/v3 (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.subresources import subresource_of
from runtime.apiserver.schema.merge_schemas import merge_schema_of
from runtime.apiserver.schema.models import QUANTITY_MAPS, Field, FieldType, Model, ModelName, Models, model_of
from runtime.apiserver.schema.strategic_merge import MergeField, MergeSchema

GROUP_VERSION_KIND = "x-kubernetes-group-version-kind"

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_SHARED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "time": (f"{_META}.Time", {"type": "string", "format": "date-time"}),
    "micro_time": (f"{_META}.MicroTime", {"type": "string", "format": "date-time"}),
    "quantity": (_QUANTITY, {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "int_or_string": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "object": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
}
_UNNAMED = MergeField()
# Where a client that makes a patch must say which fields of a union stay.
_RETAIN_KEYS = {
    (ModelName("core_v1", "PodSpec"), "volumes"),
    (ModelName("core_v1", "PodSpec"), "resourceClaims"),
    (ModelName("apps_v1", "DeploymentSpec"), "strategy"),
}


def kind_of(definition: ResourceDefinition, subresource: str = "") -> dict[str, str]:
    other = subresource_of(subresource).kind if subresource else None
    if other is not None:
        return other._asdict()
    return {"group": definition.group, "version": definition.version, "kind": definition.kind}


def schemas_of(definitions: Sequence[ResourceDefinition], models: Models) -> dict[str, Any]:
    """Schema name → schema, of the kinds of these resources and of all that is in them."""
    schemas: dict[str, Any] = {name: dict(schema) for name, schema in _SHARED.values()}
    roots: dict[ModelName, dict[str, str]] = {}
    strategies: dict[tuple[ModelName, str], dict[str, str]] = {}
    for definition in definitions:
        own = kind_of(definition)
        for kind in (
            own,
            own | {"kind": definition.list_kind},
            *(kind_of(definition, s) for s in definition.subresources),
        ):
            name = model_of(**kind)
            if models.find(name) is not None:
                roots[name] = kind
            else:
                schemas[foreign_name(kind)] = _foreign_schema(kind)
        strategies.update(_strategies(models, models.find(model_of(**own)), merge_schema_of(definition.kind)))
    for model in models.closure(roots):
        schemas[schema_name(model.name)] = _schema(model, roots.get(model.name), strategies)
    return schemas


def foreign_name(kind: Mapping[str, str]) -> str:
    return ".".join([*reversed(kind["group"].split(".")), kind["version"], kind["kind"]])


def _foreign_schema(kind: Mapping[str, str]) -> dict[str, Any]:
    """Of a custom resource, or of a built-in one that the models lack: any fields."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, GROUP_VERSION_KIND: [dict(kind)]}


def schema_name(name: ModelName) -> str:
    group, _, version = name.module.rpartition("_")
    package = {
        "meta": "io.k8s.apimachinery.pkg.apis.meta",
        "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    }.get(group, f"io.k8s.api.{group}")
    return f"{package}.{version}.{name.name}"


def _schema(
    model: Model, kind: Mapping[str, str] | None, strategies: Mapping[tuple[ModelName, str], Mapping[str, str]]
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if model.description:
        schema["description"] = model.description
    if model.fields:
        schema["properties"] = {
            field.name: {
                **_property(field, model.describe(field.name)),
                **strategies.get((model.name, field.name), {}),
            }
            for field in model.fields.values()
        }
    required = sorted(field.name for field in model.fields.values() if field.required)
    if required:
        schema["required"] = required
    if kind is not None:
        schema[GROUP_VERSION_KIND] = [dict(kind)]
    return schema


def _property(field: Field, description: str) -> dict[str, Any]:
    found = _type(field)
    if field.type.many:
        found = {"type": "array", "items": found}
    elif "$ref" in found:
        found = {"allOf": [found]}  # beside a $ref nothing else counts, a description neither
    if description:
        found["description"] = description
    return found


def _type(field: Field) -> dict[str, Any]:
    type_: FieldType = field.type
    if type_.model is not None:
        return reference(schema_name(type_.model))
    if type_.kind in _SHARED:
        return reference(_SHARED[type_.kind][0])
    if type_.kind == "map":
        of = reference(_QUANTITY) if field.name in QUANTITY_MAPS else {"type": "string"}
        return {"type": "object", "additionalProperties": of}
    return {} if type_.kind == "any" else {"type": type_.kind}


def reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _strategies(
    models: Models, model: Model | None, schema: MergeSchema
) -> Iterator[tuple[tuple[ModelName, str], dict[str, str]]]:
    """How the fields of a type, and of the types in it, merge: what clients that make strategic patches must know."""
    if model is None:
        return
    for name, field in model.fields.items():
        merge = schema.fields.get(name, _UNNAMED)
        words = ["merge"] if merge.merge else ["replace"] if merge.replace else []
        if (model.name, name) in _RETAIN_KEYS:
            words.append("retainKeys")
        if words:
            found = {"x-kubernetes-patch-strategy": ",".join(words)}
            if merge.merge_key:
                found["x-kubernetes-patch-merge-key"] = merge.merge_key
            yield (model.name, name), found
        if name in schema.fields and field.type.model is not None:
            yield from _strategies(models, models.find(field.type.model), merge.schema)
