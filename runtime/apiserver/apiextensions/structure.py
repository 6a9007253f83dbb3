"""Validation that a schema is structural.

In a structural schema, types are specified outside anyOf, allOf, oneOf and not, which only restrict values further.

Source: apiextensions-apiserver pkg/apiserver/schema/{validation,complete,convert}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from kcm.protocols.patterns import PatternError, matcher
from kcm.runtime.apiserver.apiextensions.schemas import (
    EMBEDDED,
    INT_OR_STRING,
    JUNCTORS,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    RULES,
    Schema,
    all_schemas,
    items_of,
    properties_of,
)
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, required

_ROOT, _ITEM, _FIELD = "at the root", "for specified array items", "for specified object fields"
_UNSUPPORTED = ("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions")
_INTEGER_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_MUST_BE_IMPLICIT = "must not specify anything other than name and generateName, but metadata is implicitly specified"


def unsupported(schema: Schema) -> str:
    """Return why a schema cannot be converted to a structural schema; "" if it can."""
    for inner in all_schemas(schema):
        for field in _UNSUPPORTED:
            if inner.get(field) if field != "additionalItems" else inner.get(field) is not None:
                return f"OpenAPIV3Schema '{field.removeprefix('$') if field == '$schema' else field}' is not supported"
        if isinstance(inner.get("items"), list) and inner["items"]:
            return "OpenAPIV3Schema 'items' must be a schema, but is an array"
        if inner.get(PRESERVE) is False:
            return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    return ""


def validate_structural(schema: Schema, path: str) -> list[FieldError]:
    """Return the errors of a schema, sorted by their texts as upstream. The schema must pass `unsupported`."""
    return sorted([*_invariants(schema, _ROOT, path), *_completeness(schema, schema, path, path)], key=str)


def _invariants(schema: Schema, level: str, path: str) -> Iterator[FieldError]:
    type_, items, additional = schema.get("type") or "", schema.get("items"), schema.get("additionalProperties")
    if type_ == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _invariants(items, _ITEM, f"{path}.items")
    for name, property_ in properties_of(schema).items():
        yield from _invariants(property_, _FIELD, f"{path}.properties[{name}]")
    if additional is not None:
        if level == _ROOT:
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict):
            yield from _invariants(additional, _FIELD, f"{path}.additionalProperties")
    for field in (PRESERVE, EMBEDDED):
        if schema.get(INT_OR_STRING) and schema.get(field):
            yield invalid(f"{path}.{field}", True, "must be false if x-kubernetes-int-or-string is true")
    first = (schema.get("allOf") or [{}])[0]
    yield from _demands(
        schema,
        path,
        skip_any_of=schema.get("anyOf") == _INTEGER_OR_STRING,
        skip_first_all_of=first.get("anyOf") == _INTEGER_OR_STRING,
    )
    yield from _of_type(schema, type_, level, path)
    yield from _of_metadata(schema, level, path)


def _of_type(schema: Schema, type_: str, level: str, path: str) -> Iterator[FieldError]:
    embedded = schema.get(EMBEDDED)
    if embedded and type_ != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", type_, detail) if type_ else required(f"{path}.type", detail)
    elif not type_ and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield required(f"{path}.type", f"must not be empty {level}")
    if embedded and schema.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(f"{path}.additionalProperties", detail)
    if level == _ROOT and type_ and type_ != "object":
        yield invalid(f"{path}.type", type_, "must be object at the root")
    if embedded and not schema.get(PRESERVE) and not properties_of(schema):
        without = "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield required(f"{path}.properties", f"must not be empty if {without}")


def _of_metadata(schema: Schema, level: str, path: str) -> Iterator[FieldError]:
    """Yield errors in the schema of metadata. Only its type, default, name and generateName may be specified."""
    properties = properties_of(schema)
    is_object = level == _ROOT or bool(schema.get(EMBEDDED))
    for name in ("kind", "apiVersion"):
        if is_object and name in properties and properties[name].get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", properties[name].get("type") or "", "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    here = f"{path}.properties[metadata]"
    if is_object and metadata.get("type") != "object":
        yield invalid(f"{here}.type", metadata.get("type") or "", "must be object")
    if level == _ROOT:
        named = {*properties_of(metadata)} and {*properties_of(metadata)} <= {"name", "generateName"}
        silent = {"type", "default", *(("properties",) if named else ())}
        if any(value for field, value in metadata.items() if field not in silent):
            yield forbidden(here, _MUST_BE_IMPLICIT)


def _demands(schema: Schema, path: str, *, skip_any_of: bool, skip_first_all_of: bool) -> Iterator[FieldError]:
    """Yield errors in anyOf, allOf, oneOf, not and pattern.

    skip_any_of: whether anyOf specifies int-or-string and may contain types.
    skip_first_all_of: whether the first schema of allOf does so.
    """
    for junctor in ("anyOf", "allOf", "oneOf"):
        for i, alternative in enumerate(schema.get(junctor) or ()):
            if junctor != "anyOf" or not skip_any_of:
                skip = junctor == "allOf" and i == 0 and skip_first_all_of
                yield from _nested(alternative, f"{path}.{junctor}[{i}]", skip_any_of=skip)
    if schema.get("not") is not None:
        yield from _nested(schema["not"], f"{path}.not")
    pattern = schema.get("pattern")
    if pattern:
        try:
            matcher(pattern)
        except PatternError as err:
            detail = f"must be a valid regular expression, but isn't: {err}"
            yield invalid(f"{path}.pattern", pattern, detail)


def _nested(schema: Schema, path: str, *, skip_any_of: bool = False) -> Iterator[FieldError]:
    yield from _demands(schema, path, skip_any_of=skip_any_of, skip_first_all_of=False)
    items = items_of(schema)
    if items is not None:
        yield from _nested(items, f"{path}.items")
    for name, property_ in properties_of(schema).items():
        yield from _nested(property_, f"{path}.properties[{name}]")
    for field, must in (
        ("type", "empty"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        (PRESERVE, "false"),
        (EMBEDDED, "false"),
        (INT_OR_STRING, "false"),
        (LIST_KEYS, "empty"),
        (LIST_TYPE, "undefined"),
        (MAP_TYPE, "undefined"),
        (RULES, "empty"),
    ):
        if schema.get(field) is not None if must == "undefined" else schema.get(field):
            yield forbidden(f"{path}.{field}", f"must be {must} to be structural")
    if schema.get("additionalProperties"):
        yield forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    if "metadata" in properties_of(schema):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(demands: Schema, schema: Schema | None, path: str, nested_path: str) -> Iterator[FieldError]:
    """Yield errors for fields that are restricted without being specified.

    demands: the schema itself, or a schema in its anyOf, allOf, oneOf or not.
    """
    for junctor in JUNCTORS:
        for i, alternative in enumerate(demands.get(junctor) or ()):
            yield from _nested_completeness(alternative, schema, path, f"{nested_path}.{junctor}[{i}]")
    if demands.get("not") is not None:
        yield from _nested_completeness(demands["not"], schema, path, f"{nested_path}.not")


def _nested_completeness(demands: Schema, schema: Schema | None, path: str, nested_path: str) -> Iterator[FieldError]:
    if schema is None:
        yield required(path, f"because it is defined in {nested_path}")
        return
    yield from _completeness(demands, schema, path, nested_path)
    items = items_of(demands)
    if items is not None:
        yield from _nested_completeness(items, items_of(schema), f"{path}.items", f"{nested_path}.items")
    for name, property_ in properties_of(demands).items():
        place = f"properties[{name}]"
        specified = properties_of(schema).get(name)
        yield from _nested_completeness(property_, specified, f"{path}.{place}", f"{nested_path}.{place}")
