"""Field paths of rules and selectable fields: `.spec.color`, `.spec.labels['a.b']`.

Source: apiextensions-apiserver pkg/apiserver/schema/cel/validation.go, ValidFieldPath (v1.36).
"""

from __future__ import annotations

import re

from kcm.runtime.apiserver.apiextensions.schemas import Schema, additional_of, properties_of

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
_NO_FIELD, _TOO_SHORT = "does not refer to a valid field", "unexpected end of JSON path"


class FieldPathError(ValueError):
    """The path is malformed, or leads to no field of the schema. The text is upstream's."""


def field_at(path: str, schema: Schema, *, brackets: bool = True) -> tuple[str, Schema]:
    """Return the canonical form of a field path, as errors name the field, and the schema of the field.

    brackets: whether the path may contain keys in brackets, as `['a.b']`.
    Raises FieldPathError.
    """
    tokens, field = iter(_TOKEN.findall(path)), ""
    for token in tokens:
        if token == "[":
            if not brackets:
                raise FieldPathError("array notation is not allowed")
            name = next(tokens, "")
            if not name:
                raise FieldPathError(_TOO_SHORT)
            if len(name) < 2 or name[0] != "'" or name[-1] != "'":
                raise FieldPathError(f"expected single quoted string but got {name}")
            field, schema = _step(field, schema, re.sub(r"\\(.)", r"\1", name[1:-1]))
            close = next(tokens, "")
            if close != "]":
                raise FieldPathError(f"expected ] but got {close}" if close else _TOO_SHORT)
        elif token == ".":
            name = next(tokens, "")
            if not name:
                raise FieldPathError(_TOO_SHORT)
            field, schema = _step(field, schema, name)
        else:
            raise FieldPathError(f"expected [ or . but got: {token}")
    return field, schema


def _step(field: str, schema: Schema, name: str) -> tuple[str, Schema]:
    properties, additional = properties_of(schema), additional_of(schema)
    if properties:
        if name not in properties:
            raise FieldPathError(_NO_FIELD)
        return f"{field}.{name}" if field else name, properties[name]
    if additional is None:
        raise FieldPathError(_NO_FIELD)
    return f"{field}[{name}]", additional
