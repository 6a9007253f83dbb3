"""Encoder of OpenAPI v2 documents in gnostic's protobuf format, which kubectl and client-go request.

Source: github.com/google/gnostic-models openapiv2/OpenAPIv2.proto, and OpenAPIv2.go for the conversion from JSON.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from kcm.protocols.protobuf_wire import BYTES, FIXED64, VARINT, field_tag, varint

Encode = Callable[[Any], bytes]


def encoded(document: Mapping[str, Any]) -> bytes:
    """Encode an OpenAPI v2 document. Supports only the keywords that Kubernetes uses."""
    return _message(document, _DOCUMENT)


# --- wire format


def _field(number: int, data: bytes) -> bytes:
    return b"".join((field_tag(number, BYTES), varint(len(data)), data))


def _string(number: int) -> Encode:
    return lambda value: _field(number, value.encode())


def _strings(number: int) -> Encode:
    return lambda values: b"".join(_field(number, value.encode()) for value in values)


def _boolean(number: int) -> Encode:
    return lambda value: field_tag(number, VARINT) + b"\1" if value else b""


def _integer(number: int) -> Encode:
    return lambda value: field_tag(number, VARINT) + varint(value) if value else b""


def _double(number: int) -> Encode:
    return lambda value: field_tag(number, FIXED64) + struct.pack("<d", value) if value else b""


def _nested(number: int, content: Encode) -> Encode:
    return lambda value: _field(number, content(value))


def _repeated(number: int, content: Encode) -> Encode:
    return lambda values: b"".join(_field(number, content(value)) for value in values)


def _mapping(number: int, content: Encode) -> Encode:
    """Return an encoder that writes a mapping as a repeated field of messages with name and value.

    number: number of the repeated field
    content: encoder of a value
    """

    def encode(entries: Mapping[str, Any]) -> bytes:
        return b"".join(
            _field(number, _field(1, name.encode()) + _field(2, content(value))) for name, value in entries.items()
        )

    return encode


def _message(value: Mapping[str, Any], fields: Mapping[str, Encode], extensions: int = 0) -> bytes:
    """Encode a message.

    fields: encoders by JSON name, in the order of the field numbers
    extensions: number of the field for x- extensions, which must be the last; 0 if the message has none
    """
    parts = [encode(value[name]) for name, encode in fields.items() if name in value]
    if extensions:
        parts += [_extension(extensions, name, value[name]) for name in value if name.startswith("x-")]
    return b"".join(parts)


# --- values of any type, encoded in YAML


def _extension(number: int, name: str, value: Any) -> bytes:
    return _field(number, _field(1, name.encode()) + _field(2, _any(value)))


def _any(value: Any) -> bytes:
    return _field(2, ("\n".join(_yaml(value)) + "\n").encode())


def _yaml(value: Any) -> list[str]:
    """Return the lines of a value in YAML."""
    match value:
        case dict() if value:
            return [line for name, inner in value.items() for line in _entry(_scalar(name), inner)]
        case list() if value:
            return [f"{'  ' if i else '- '}{line}" for inner in value for i, line in enumerate(_yaml(inner))]
    return [_scalar(value)]


def _entry(name: str, value: Any) -> list[str]:
    lines = _yaml(value)
    if isinstance(value, dict | list) and value:
        return [f"{name}:", *(f"  {line}" for line in lines)]
    return [f"{name}: {lines[0]}"]


def _scalar(value: Any) -> str:
    """Format a YAML scalar. A string is quoted if YAML would read it as another type."""
    if not isinstance(value, str) or value.lower() in _NOT_STRINGS or _NUMBER.match(value) or not value.isprintable():
        return json.dumps(value, ensure_ascii=False)
    return value if _WORD.fullmatch(value) else "'" + value.replace("'", "''") + "'"


_NOT_STRINGS = frozenset({"", "y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"})
_NUMBER = re.compile(r"[-+.]?[0-9]")
_WORD = re.compile(r"[A-Za-z][\w./+,-]*(?: [\w./+<>(-][\w./+<>(),-]*)*", re.ASCII)


# --- messages


def _schema(value: Mapping[str, Any]) -> bytes:
    return _message(value, _SCHEMA, extensions=31)


def _additional_properties(value: Any) -> bytes:
    return _boolean(2)(value) if isinstance(value, bool) else _field(1, _schema(value))


def _items(value: Any) -> bytes:
    return _field(1, _schema(value))


def _type(value: str) -> bytes:
    return _field(1, value.encode())


def _properties(value: Mapping[str, Any]) -> bytes:
    return _mapping(1, _schema)(value)


def _parameter(value: Mapping[str, Any]) -> bytes:
    if value["in"] == "body":
        return _field(1, _message(value, _BODY_PARAMETER))
    number, fields = (4, _PATH_PARAMETER) if value["in"] == "path" else (3, _QUERY_PARAMETER)
    return _field(2, _field(number, _message(value, fields)))


def _parameters_item(value: Mapping[str, Any]) -> bytes:
    if "$ref" in value:
        return _field(2, _field(1, value["$ref"].encode()))
    return _field(1, _parameter(value))


def _response(value: Mapping[str, Any]) -> bytes:
    return _field(1, _message(value, _RESPONSE))


def _operation(value: Mapping[str, Any]) -> bytes:
    return _message(value, _OPERATION, extensions=13)


def _path_item(value: Mapping[str, Any]) -> bytes:
    return _message(value, _PATH_ITEM)


def _security_definition(value: Mapping[str, Any]) -> bytes:
    return _field(2, _message(value, _API_KEY))


def _security_requirement(value: Mapping[str, Any]) -> bytes:
    return _mapping(1, _strings(1))(value)


_SCHEMA: Mapping[str, Encode] = {
    "$ref": _string(1),
    "format": _string(2),
    "title": _string(3),
    "description": _string(4),
    "multipleOf": _double(6),
    "maximum": _double(7),
    "exclusiveMaximum": _boolean(8),
    "minimum": _double(9),
    "exclusiveMinimum": _boolean(10),
    "maxLength": _integer(11),
    "minLength": _integer(12),
    "pattern": _string(13),
    "maxItems": _integer(14),
    "minItems": _integer(15),
    "uniqueItems": _boolean(16),
    "maxProperties": _integer(17),
    "minProperties": _integer(18),
    "required": _strings(19),
    "enum": _repeated(20, _any),
    "additionalProperties": _nested(21, _additional_properties),
    "type": _nested(22, _type),
    "items": _nested(23, _items),
    "properties": _nested(25, _properties),
}
_BODY_PARAMETER: Mapping[str, Encode] = {
    "description": _string(1),
    "name": _string(2),
    "in": _string(3),
    "required": _boolean(4),
    "schema": _nested(5, _schema),
}
_QUERY_PARAMETER: Mapping[str, Encode] = {
    "required": _boolean(1),
    "in": _string(2),
    "description": _string(3),
    "name": _string(4),
    "type": _string(6),
    "uniqueItems": _boolean(20),
}
_PATH_PARAMETER: Mapping[str, Encode] = {
    "required": _boolean(1),
    "in": _string(2),
    "description": _string(3),
    "name": _string(4),
    "type": _string(5),
    "uniqueItems": _boolean(19),
}
_RESPONSE: Mapping[str, Encode] = {
    "description": _string(1),
    "schema": _nested(2, _items),
}
_OPERATION: Mapping[str, Encode] = {
    "tags": _strings(1),
    "description": _string(3),
    "operationId": _string(5),
    "produces": _strings(6),
    "consumes": _strings(7),
    "parameters": _repeated(8, _parameters_item),
    "responses": _nested(9, _mapping(1, _response)),
    "schemes": _strings(10),
}
_PATH_ITEM: Mapping[str, Encode] = {
    "get": _nested(2, _operation),
    "put": _nested(3, _operation),
    "post": _nested(4, _operation),
    "delete": _nested(5, _operation),
    "options": _nested(6, _operation),
    "head": _nested(7, _operation),
    "patch": _nested(8, _operation),
    "parameters": _repeated(9, _parameters_item),
}
_API_KEY: Mapping[str, Encode] = {
    "type": _string(1),
    "name": _string(2),
    "in": _string(3),
    "description": _string(4),
}
_INFO: Mapping[str, Encode] = {"title": _string(1), "version": _string(2)}
_DOCUMENT: Mapping[str, Encode] = {
    "swagger": _string(1),
    "info": _nested(2, lambda value: _message(value, _INFO)),
    "paths": _nested(8, _mapping(2, _path_item)),
    "definitions": _nested(9, _mapping(1, _schema)),
    "parameters": _nested(10, _mapping(1, _parameter)),
    "security": _repeated(12, _security_requirement),
    "securityDefinitions": _nested(13, _mapping(1, _security_definition)),
}
