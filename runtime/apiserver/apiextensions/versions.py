"""Versions of a CustomResourceDefinition: their schemas, subresources, printer columns and selectable fields.

If all versions have equal schemas (or subresources, …), upstream moves them to the top of the spec before validation.
Its errors then name the place at the top, `spec.validation` instead of `spec.versions[0].schema`, and so do the errors
here.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, v1/conversion.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.apiextensions.defaults import validate_defaults
from kcm.runtime.apiserver.apiextensions.field_paths import FieldPathError, field_at
from kcm.runtime.apiserver.apiextensions.go_text import sorted_keys
from kcm.runtime.apiserver.apiextensions.openapi_rules import Leniency, validate_openapi
from kcm.runtime.apiserver.apiextensions.rule_sources import validate_rules
from kcm.runtime.apiserver.apiextensions.schemas import PRESERVE, RULES, Schema
from kcm.runtime.apiserver.apiextensions.structure import unsupported, validate_structural
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, forbidden, invalid, required

MOST_SELECTABLE_FIELDS = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
# Fields allowed at the root of a schema with a status subresource: name in Go → in JSON.
_AT_ROOT = {
    "Description": "description",
    "Type": "type",
    "Format": "format",
    "Title": "title",
    "Maximum": "maximum",
    "ExclusiveMaximum": "exclusiveMaximum",
    "Minimum": "minimum",
    "ExclusiveMinimum": "exclusiveMinimum",
    "MaxLength": "maxLength",
    "MinLength": "minLength",
    "Pattern": "pattern",
    "MaxItems": "maxItems",
    "MinItems": "minItems",
    "UniqueItems": "uniqueItems",
    "MultipleOf": "multipleOf",
    "Required": "required",
    "Items": "items",
    "Properties": "properties",
    "ExternalDocs": "externalDocs",
    "Example": "example",
    "XPreserveUnknownFields": PRESERVE,
    "XValidations": RULES,
}
_WITH_STATUS = "if the status subresource is enabled"


def schema_of(version: Object) -> Schema | None:
    schema: Schema | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def subresources_of(version: Object) -> Object:
    return version.get("subresources") or {}


def validate_versions(versions: Sequence[Object], lenient: Leniency) -> Iterator[FieldError]:
    """Validate each version, then the fields that must be equal in all versions."""
    alike = {field: _alike(versions, field) for field in _PARTS}
    for i, version in enumerate(versions):
        if schema_of(version) is None and (not alike["schema"] or schema_of(versions[0]) is None):
            yield required(f"spec.versions[{i}].schema.openAPIV3Schema")
    for i, version in enumerate(versions):
        path = f"spec.versions[{i}]"
        yield from _deprecation(version, f"{path}.deprecationWarning")
        for field, validate in _PARTS.items():
            if not alike[field]:
                yield from validate(version, f"{path}.{field}", lenient)


def validate_alike(versions: Sequence[Object], lenient: Leniency) -> Iterator[FieldError]:
    for field, validate in _PARTS.items():
        if versions and _alike(versions, field):
            with_status = any("status" in subresources_of(version) for version in versions)
            version = dict(versions[0])
            if field == "schema" and with_status:
                version["subresources"] = {"status": {}}
            yield from validate(version, f"spec.{'validation' if field == 'schema' else field}", lenient)


def _alike(versions: Sequence[Object], field: str) -> bool:
    return all((version.get(field) or None) == (versions[0].get(field) or None) for version in versions)


def _deprecation(version: Object, path: str) -> Iterator[FieldError]:
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not version.get("deprecated"):
        yield invalid(path, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > 256:
        yield invalid(path, text, "must be <= 256 characters long")
    if not text:
        yield invalid(path, text, "must not be an empty string")
    bad = next((i for i, character in enumerate(text) if not character.isprintable()), None)
    if bad is not None:
        index = len(text[:bad].encode())
        only = "must only contain printable UTF-8 characters"
        yield invalid(path, text, f"{only}; non-printable character found at index {index}")


# --- the schema


def _schema(version: Object, path: str, lenient: Leniency) -> Iterator[FieldError]:
    schema = schema_of(version)
    if schema is None:
        return
    here, errors = f"{path}.openAPIV3Schema", list[FieldError]()
    if "status" in subresources_of(version):
        errors += _at_root(schema, here)
    if schema.get("nullable"):
        errors.append(forbidden(f"{here}.nullable", "nullable cannot be true at the root"))
    why_not = unsupported(schema)
    if not why_not:
        structural = validate_structural(schema, here)
        errors += structural or validate_defaults(schema, here)
    errors += validate_openapi(schema, here, lenient)
    if not errors and not why_not:
        errors += validate_rules(schema, here)
    if why_not and not errors:
        errors.append(invalid(here, "", why_not))
    yield from errors


def _at_root(schema: Schema, path: str) -> Iterator[FieldError]:
    """Validate the root of a schema with a status subresource.

    Upstream validates the status by a schema of its own, so only some fields are allowed beside it at the root.
    """
    if schema.get("type") and schema["type"] != "object":
        only = f'only "object" is allowed as the type at the root of the schema {_WITH_STATUS}'
        yield invalid(f"{path}.type", schema["type"], only)
    elif any(value and field not in _AT_ROOT.values() and field != "nullable" for field, value in schema.items()):
        only = f"only [{' '.join(_AT_ROOT)}] fields are allowed at the root of the schema {_WITH_STATUS}"
        yield invalid(path, sorted_keys(schema), only)


# --- the rest


def _subresources(version: Object, path: str, _lenient: Leniency) -> Iterator[FieldError]:
    scale = subresources_of(version).get("scale")
    if scale is None:
        return
    for field, roots in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        place, value = f"{path}.scale.{field}", scale.get(field) or ""
        if not value:
            yield required(place)
        else:
            yield from _under(place, value, (roots,), f"should be a json path under {roots[:-1]}")
    selector = scale.get("labelSelectorPath")
    if selector:
        either = "should be a json path under either .spec or .status"
        yield from _under(f"{path}.scale.labelSelectorPath", selector, (".spec.", ".status."), either)


def _under(place: str, value: str, roots: tuple[str, ...], detail: str) -> Iterator[FieldError]:
    errors = list(_json_path(place, value))
    yield from errors
    if not errors and not value.startswith(roots):
        yield invalid(place, value, detail)


def _json_path(place: str, value: str) -> Iterator[FieldError]:
    if not value.startswith("."):
        yield invalid(place, value, "must be a simple json path starting with .")


def _columns(version: Object, path: str, _lenient: Leniency) -> Iterator[FieldError]:
    one_of_types = f"must be one of {','.join(_COLUMN_TYPES)}"
    for i, column in enumerate(version.get("additionalPrinterColumns") or ()):
        here, type_, format_ = f"{path}[{i}]", column.get("type") or "", column.get("format") or ""
        if not column.get("name"):
            yield required(f"{here}.name")
        if not type_:
            yield required(f"{here}.type", one_of_types)
        elif type_ not in _COLUMN_TYPES:
            yield invalid(f"{here}.type", type_, one_of_types)
        if format_ and format_ not in _COLUMN_FORMATS:
            yield invalid(f"{here}.format", format_, f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not column.get("jsonPath"):
            yield required(f"{here}.JSONPath")
        else:
            yield from _json_path(f"{here}.JSONPath", column["jsonPath"])


def _selectable_fields(version: Object, path: str, _lenient: Leniency) -> Iterator[FieldError]:
    fields, schema = version.get("selectableFields") or (), schema_of(version)
    if fields and schema is None:
        without = "may only be set when `version.schema.openAPIV3Schema` is not included"
        yield invalid(
            path, "", without if "versions" in path else "may only be set when validations.schema is included"
        )
        return
    seen: set[str] = set()
    for i, selectable in enumerate(fields):
        here, json_path = f"{path}[{i}].jsonPath", selectable.get("jsonPath") or ""
        if not json_path:
            yield required(here)
            continue
        try:
            field, found = field_at(json_path, schema or {}, brackets=False)
        except FieldPathError as err:
            yield invalid(here, json_path, f"is an invalid path: {err}")
            continue
        if field.partition(".")[0] == "metadata":
            yield invalid(here, json_path, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            allowed = "Enum string fields and strings with formats are allowed."
            yield invalid(here, json_path, f"must point to a field of type string, boolean or integer. {allowed}")
        if field in seen:
            yield duplicate(here, json_path)
        seen.add(field)
    if len(seen) > MOST_SELECTABLE_FIELDS:
        yield FieldError("FieldValueTooMany", path, len(seen), f"must have at most {MOST_SELECTABLE_FIELDS} items")


_PARTS: Mapping[str, Any] = {
    "schema": _schema,
    "subresources": _subresources,
    "additionalPrinterColumns": _columns,
    "selectableFields": _selectable_fields,
}
