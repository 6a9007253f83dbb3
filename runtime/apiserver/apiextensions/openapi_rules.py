"""Restrictions on the schemas in a CustomResourceDefinition that apply to all schemas, structural or not.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go,
ValidateCustomResourceDefinitionOpenAPISchema (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kcm.runtime.apiserver.apiextensions.field_paths import FieldPathError, field_at
from kcm.runtime.apiserver.apiextensions.go_text import sorted_keys
from kcm.runtime.apiserver.apiextensions.schemas import (
    EMBEDDED,
    JUNCTORS,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    META_FIELDS,
    PRESERVE,
    RULES,
    Schema,
    all_schemas,
    items_of,
    properties_of,
)
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_TWO_WAYS = "additionalProperties and properties are mutual exclusive"


class Place(NamedTuple):
    """Position of a subschema in a schema.

    no_default: why a default is forbidden there; None if it is allowed.
    in_metadata: whether the subschema is inside an object's metadata.
    """

    no_default: str | None = None
    in_metadata: bool = False


_ROOT = Place()


class Leniency(NamedTuple):
    """Violations that an update may keep, because the old definition has them."""

    types: bool = False
    item_types_of_sets: bool = False
    keys: bool = False


def leniency(schemas: list[Schema]) -> Leniency:
    """Return the violations that an update of a definition may keep. schemas: those of the stored definition."""
    every = [inner for schema in schemas for inner in all_schemas(schema)]
    return Leniency(
        types=any(schema.get("type") and schema["type"] not in TYPES for schema in every),
        item_types_of_sets=any(list(_set_items(schema, "")) for schema in every),
        keys=any(list(_keyed_items(schema, "")) for schema in every),
    )


def validate_openapi(
    schema: Schema, path: str, lenient: Leniency, *, place: Place = _ROOT, is_root: bool = True
) -> Iterator[FieldError]:
    yield from _fields(schema, path, place, lenient)
    additional, properties = schema.get("additionalProperties"), properties_of(schema)
    if additional is not None:
        if properties and (additional is False or isinstance(additional, dict)):
            yield forbidden(f"{path}.additionalProperties", _TWO_WAYS)
        if isinstance(additional, dict):
            reason = "inside additionalProperties applying to object metadata"
            inner = place._replace(no_default=reason) if place.in_metadata else place
            yield from validate_openapi(additional, f"{path}.additionalProperties", lenient, place=inner, is_root=False)
    for name, property_ in properties.items():
        inner = place
        if (is_root or schema.get(EMBEDDED)) and name in META_FIELDS:
            inner = Place(f"in top-level {name}" if is_root else place.no_default, in_metadata=True)
        yield from validate_openapi(property_, f"{path}.properties[{name}]", lenient, place=inner, is_root=False)
    for where, nested in _others(schema):
        yield from validate_openapi(nested, f"{path}.{where}", lenient, place=place, is_root=False)
    yield from _extensions(schema, path, lenient)
    yield from _rules(schema, f"{path}.{RULES}")


def _others(schema: Schema) -> Iterator[tuple[str, Schema]]:
    if schema.get("not") is not None:
        yield "not", schema["not"]
    for junctor in JUNCTORS:
        yield from ((f"{junctor}[{i}]", alternative) for i, alternative in enumerate(schema.get(junctor) or ()))
    for field in ("definitions", "dependencies"):
        yield from (
            (f"{field}[{name}]", inner) for name, inner in (schema.get(field) or {}).items() if isinstance(inner, dict)
        )
    items = schema.get("items")
    if isinstance(items, dict):
        yield "items", items
    else:
        yield from ((f"items[{i}]", item) for i, item in enumerate(items or ()))


def _fields(schema: Schema, path: str, place: Place, lenient: Leniency) -> Iterator[FieldError]:
    """Yield errors for fields with unsupported or forbidden values."""
    type_ = schema.get("type") or ""
    if type_ and type_ not in TYPES and not lenient.types:
        yield not_supported(f"{path}.type", type_, TYPES)
    if schema.get("default") is not None and place.no_default is not None:
        yield forbidden(f"{path}.default", f"must not be set {place.no_default}")
    for field in ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"):
        value = schema.get(field)
        if value or (value is not None and field in ("additionalItems", "dependencies", "$ref")):
            yield forbidden(f"{path}.{field}", f"{field} is not supported")
    if type_ == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list) and schema["items"]:
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.in_metadata and schema.get(EMBEDDED):
        yield forbidden(f"{path}.{EMBEDDED}", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", detail)


def _extensions(schema: Schema, path: str, lenient: Leniency) -> Iterator[FieldError]:
    type_, items = schema.get("type") or "", items_of(schema)
    list_type, map_type, keys = schema.get(LIST_TYPE), schema.get(MAP_TYPE), schema.get(LIST_KEYS) or []
    if schema.get(PRESERVE) is False:
        yield invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    if map_type is not None and type_ != "object":
        yield _of_another_type(path, type_, f"must be object if {MAP_TYPE} is specified")
    if map_type is not None and map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.{MAP_TYPE}", map_type, ("atomic", "granular"))
    if list_type is not None and type_ != "array":
        yield _of_another_type(path, type_, f"must be array if {LIST_TYPE} is specified")
    elif not lenient.item_types_of_sets:
        yield from _set_items(schema, path)
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.{LIST_TYPE}", list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        detail = f"must be map if {LIST_KEYS} is non-empty"
        field = f"{path}.{LIST_TYPE}"
        yield required(field, detail) if list_type is None else invalid(field, list_type, detail)
    if list_type == "map":
        yield from _keys(schema, items, keys, path)
    if not lenient.keys:
        yield from _keyed_items(schema, path)


def _of_another_type(path: str, type_: str, detail: str) -> FieldError:
    return invalid(f"{path}.type", type_, detail) if type_ else required(f"{path}.type", detail)


def _set_items(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield errors for the items of sets. They must be atomic, because they are compared as a whole."""
    items = items_of(schema)
    if schema.get(LIST_TYPE) != "set" or items is None:
        return
    detail, type_ = f"must be atomic as item of a list with {LIST_TYPE}=set", items.get("type")
    if type_ == "array" and items.get(LIST_TYPE) not in (None, "atomic"):
        yield invalid(f"{path}.items.{LIST_TYPE}", items.get(LIST_TYPE), detail)
    if type_ == "object" and items.get(MAP_TYPE) != "atomic":
        yield invalid(f"{path}.items.{MAP_TYPE}", items.get(LIST_TYPE), detail)


def _keys(schema: Schema, items: Schema | None, keys: list[str], path: str) -> Iterator[FieldError]:
    of_keys = f"{path}.{LIST_KEYS}"
    if not keys:
        yield required(of_keys, f"must not be empty if {LIST_TYPE} is map")
    if schema.get("items") is None:
        yield required(f"{path}.items", f"must have a schema if {LIST_TYPE} is map")
    elif items is None:
        detail = f"must only have a single schema if {LIST_TYPE} is map"
        yield invalid(f"{path}.items", sorted_keys(schema["items"]), detail)
    elif items.get("type") != "object":
        detail = f"must be object if parent array's {LIST_TYPE} is map"
        yield invalid(f"{path}.items.type", items.get("type") or "", detail)
    else:
        properties = properties_of(items)
        seen: set[str] = set()
        for key in keys:
            if key not in properties:
                yield invalid(of_keys, keys, "entries must all be names of item properties")
            elif properties[key].get("type") in ("array", "object"):
                detail = f"must be a scalar type if parent array's {LIST_TYPE} is map"
                yield invalid(f"{path}.items.properties[{key}].type", items.get("type"), detail)
            if key in seen:
                yield invalid(of_keys, keys, "must not contain duplicate entries")
            seen.add(key)


def _keyed_items(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield errors for nullable items of sets and maps, and for optional map keys that have no default."""
    items, list_type = items_of(schema), schema.get(LIST_TYPE)
    if items is None or list_type not in ("set", "map"):
        return
    if items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when {LIST_TYPE} is {list_type}")
    if list_type != "map":
        return
    properties, needed = properties_of(items), items.get("required") or ()
    for key in schema.get(LIST_KEYS) or ():
        if key not in properties:
            continue
        here, why = f"{path}.items.properties[{key}]", f"this property is in {LIST_KEYS}, so it"
        if key not in needed and properties[key].get("default") is None:
            yield required(f"{here}.default", f"{why} must have a default or be a required property")
        if properties[key].get("nullable"):
            yield forbidden(f"{here}.nullable", f"{why} cannot be nullable")


def _rules(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield errors in x-kubernetes-validations, except in the CEL expressions, which rule_sources.py compiles."""
    rules: list[Mapping[str, Any]] = schema.get(RULES) or []
    for i, rule in enumerate(rules):
        here, text, message = f"{path}[{i}]", (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            yield required(f"{here}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{here}.message", message, "must be non-empty if specified")
        elif _has_line_breaks(message.strip()):
            yield invalid(f"{here}.message", message, "must not contain line breaks")
        elif _has_line_breaks(text) and not message.strip():
            yield required(f"{here}.message", "message must be specified if rule contains line breaks")
        expression, field = rule.get("messageExpression") or "", rule.get("fieldPath") or ""
        if expression and not expression.strip():
            yield required(f"{here}.messageExpression", "messageExpression must be non-empty if specified")
        if rule.get("reason") is not None and rule["reason"] not in _REASONS:
            yield not_supported(f"{here}.reason", rule["reason"], _REASONS)
        if field and not field.strip():
            yield invalid(f"{here}.fieldPath", field, "must be non-empty if specified")
        if _has_line_breaks(field):
            yield invalid(f"{here}.fieldPath", field, "must not contain line breaks")
        if field and not _leads_somewhere(field, schema):
            yield invalid(f"{here}.fieldPath", field, "must be a valid path")


def _leads_somewhere(path: str, schema: Schema) -> bool:
    try:
        field_at(path, schema)
    except FieldPathError:
        return False
    return True


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text
