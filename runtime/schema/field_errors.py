"""Fields of another type than upstream's, to name the field of a malformed object.

Controllers read most fields without checks. Only when that has failed is the object compared with the types of its
kind, so valid objects cost nothing. Unlike an API server (apiserver/schema/kind_checks.py), which replaces them by zero
values, null items and missing required fields are malformed too: the controller has read the object as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.field_types import FLAG, MAP, NUMBER, QUANTITY, TEXT, TIME, Kind
from kcm.protocols.resources import Resource
from kcm.runtime.schema.api_types import OBJECT_META, Field, Form, built_in_types

_KINDS: Mapping[str, Kind] = {
    "string": TEXT,
    "bytes": TEXT,
    "boolean": FLAG,
    "int32": NUMBER,
    "int64": NUMBER,
    "double": Kind("a number", lambda value: type(value) in (int, float)),
    "int_or_string": Kind("a number or a string", lambda value: type(value) in (int, str)),
    "time": TIME,
    "micro_time": TIME,
    "quantity": QUANTITY,
    "raw": MAP,
    "any": Kind("any value", lambda _: True),
}


def field_error(resource: Resource, obj: Any, *, metadata_only: bool = False) -> str:
    """Describe the first malformed field of an object: "spec.volumes is a list, got 3"; "" if there is none.

    A wrong type is described rather than a missing field. Of a custom resource only the metadata is checked.
    """
    name = None if metadata_only else built_in_types().name_of(resource.group, resource.version, resource.kind)
    if name is not None:
        found = list(_in_struct(name, obj, ""))
    elif isinstance(obj, dict):
        found = list(_in_struct(OBJECT_META, obj.get("metadata"), "metadata"))
    else:
        found = [(False, _wrong("", MAP.words, obj))]
    wrong = next((text for missing, text in found if not missing), "")
    return wrong or next((text for _, text in found), "")


def _wrong(path: str, words: str, value: Any) -> str:
    return f"{path or 'the object'} is {words}, got {value!r:.80}"


def _in_struct(name: str, value: Any, path: str) -> Iterator[tuple[bool, str]]:
    """Yield (is missing, description) of the malformed fields of a value. name: its OpenAPI type."""
    if not isinstance(value, dict):
        yield False, _wrong(path, MAP.words, value)
        return
    found = built_in_types().find(name)
    for field in found.fields.values() if found is not None else ():
        inner, at = value.get(field.name), f"{path}.{field.name}".removeprefix(".")
        if inner is not None:
            yield from _in_form(field, field.form, inner, at)
        elif field.required:
            yield True, f"{at} is missing"


def _in_form(field: Field, form: Form, value: Any, path: str) -> Iterator[tuple[bool, str]]:
    match form:
        case "one" if field.struct:
            yield from _in_struct(field.struct, value, path)
        case "one":
            kind = _KINDS[field.kind]
            if not kind.fits(value):
                yield False, _wrong(path, kind.words, value)
        case "list":
            if not isinstance(value, list):
                yield False, _wrong(path, "a list", value)
                return
            for number, item in enumerate(value):
                yield from _in_form(field, "one", item, f"{path}[{number}]")
        case "map" | "map of lists":
            if not isinstance(value, dict):
                yield False, _wrong(path, MAP.words, value)
                return
            for key, item in value.items():
                yield from _in_form(field, "one" if form == "map" else "list", item, f"{path}[{key!r}]")
