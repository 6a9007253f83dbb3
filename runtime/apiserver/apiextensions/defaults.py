"""Validation of the defaults in a schema: they may contain no unknown fields, and must be valid themselves.

Source: apiextensions-apiserver pkg/apiserver/schema/defaulting/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from kcm.protocols.errors import aggregate
from kcm.runtime.apiserver.apiextensions.embedded import embedded_finder, problems, settle_embedded
from kcm.runtime.apiserver.apiextensions.go_text import sorted_keys
from kcm.runtime.apiserver.apiextensions.pruning_and_defaults import Meter, UnknownFields, settler
from kcm.runtime.apiserver.apiextensions.schemas import EMBEDDED, META_FIELDS, Schema, items_of, properties_of
from kcm.runtime.apiserver.apiextensions.validation_errors import explain
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid
from kcm.runtime.apiserver.schema.scalars import UnmarshalTypeError


def validate_defaults(schema: Schema, path: str, *, pruned: bool = True) -> Iterator[FieldError]:
    """Validate the defaults in the structural schema of an object.

    pruned: whether unknown fields in a default are errors.
    """
    yield from _validate(schema, path, pruned=pruned, in_metadata="", is_object=True)


def _validate(schema: Schema, path: str, *, pruned: bool, in_metadata: str, is_object: bool) -> Iterator[FieldError]:
    """Validate the defaults in a part of a schema.

    in_metadata: dotted path of the part below an object's metadata; "" for a part outside metadata.
    """
    if schema.get("default") is not None:
        yield from _of_default(schema, path, pruned=pruned, in_metadata=in_metadata)
    is_object = is_object or bool(schema.get(EMBEDDED))
    items = items_of(schema)
    if items is not None:
        yield from _validate(items, f"{path}.items", pruned=pruned, in_metadata=in_metadata, is_object=False)
    for name, property_ in properties_of(schema).items():
        inside = name if is_object and name in META_FIELDS else f"{in_metadata}.{name}" if in_metadata else ""
        place = f"{path}.properties[{name}]"
        yield from _validate(property_, place, pruned=pruned, in_metadata=inside, is_object=False)


def _of_default(schema: Schema, path: str, *, pruned: bool, in_metadata: str) -> Iterator[FieldError]:
    default, here = schema["default"], f"{path}.default"
    if in_metadata:
        wrong = _as_metadata(in_metadata, default)
        if wrong:
            detail = f"must result in valid metadata: {aggregate(map(str, wrong))}"
            yield invalid(here, sorted_keys(default), detail)
            return
    elif pruned and isinstance(default, dict | list):
        copy, unknown = orjson.loads(orjson.dumps(default)), UnknownFields()
        settler(schema, Meter(), is_root=bool(schema.get(EMBEDDED)), defaults=False)(copy, unknown, "")
        if unknown.paths:
            yield invalid(here, sorted_keys(default), "must not have unknown fields")
    if not in_metadata:
        errors = list(_as_embedded(schema, default, here))
        if errors:
            yield from errors
            return
    yield from explain(schema, default, under=here)


def _as_metadata(field: str, default: Any) -> list[FieldError]:
    """Validate the default of a metadata field, as part of an otherwise empty object.

    field: dotted path of the field, which begins with "metadata".
    """
    value = default
    for name in reversed(field.split(".")):
        value = {name: value}
    obj = {"apiVersion": "validation/v1", "kind": "Validation", **value}
    try:
        settle_embedded(obj, "")
    except UnmarshalTypeError as err:
        return [FieldError("FieldValueInvalid", "metadata", default, str(err))]
    return problems(obj, "")


def _as_embedded(schema: Schema, default: Any, path: str) -> Iterator[FieldError]:
    find = embedded_finder(schema)
    if find is None:
        return
    for obj, place in find(orjson.loads(orjson.dumps(default)), path):
        try:
            settle_embedded(obj, place)
        except UnmarshalTypeError as err:
            yield FieldError("FieldValueInvalid", place, sorted_keys(obj), str(err))
            return
        yield from problems(obj, place)
