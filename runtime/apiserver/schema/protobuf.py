"""Decoder of request bodies in Kubernetes' protobuf encoding.

Typed Go clients send protobuf for built-in resources, and do not fall back to JSON. They include commands of kubectl
such as `kubectl create deployment`. protobuf_encoder.py contains the encoder.

Source: apimachinery pkg/runtime/serializer/protobuf/protobuf.go, pkg/runtime/types.go, Unknown (v1.36).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any, TypeAlias

import orjson

from kcm.protocols.objects import Object
from kcm.protocols.times import format_micro_time, format_time
from kcm.runtime.schema.api_types import META, ApiTypes, Field

MAGIC = b"k8s\x00"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
UNIX_OF_YEAR_1 = -62135596800  # seconds: the Unix time of 0001-01-01T00:00:00Z, which is Go's zero time
_IN_ANY_VERSION = frozenset({"DeleteOptions"})  # sent with the group and version of the addressed resource

# Fields of a message by number; a nested mapping is a message that JSON inlines.
Numbers: TypeAlias = "dict[int, Field | Numbers]"


class UnknownTypeError(ValueError):
    """Kind that cannot be encoded or decoded, because upstream does not define it."""


class ProtobufDecoder:
    """Decoder of protobuf bodies. The fields of a type are indexed by number when it is first decoded."""

    def __init__(self, types: ApiTypes) -> None:
        self._types = types
        self._numbers: dict[str, Numbers] = {}

    def decode(self, body: bytes) -> Object:
        """Decode a body into an object as in JSON. Raises UnknownTypeError, and ValueError for invalid data."""
        if not body.startswith(MAGIC):
            raise ValueError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
        envelope = dict(_fields(body[len(MAGIC) :]))
        type_meta = {number: _text(value) for number, value in _fields(envelope.get(1, b""))}
        api_version, kind = type_meta.get(1, ""), type_meta.get(2, "")
        group, _, version = api_version.rpartition("/")
        name = f"{META}.{kind}" if kind in _IN_ANY_VERSION else self._types.name_of(group, version, kind)
        if name is None:
            raise UnknownTypeError(f'no kind "{kind}" is known in version "{api_version}"')
        obj: Object = {"apiVersion": api_version, "kind": kind}
        try:
            self._add(obj, _bytes(envelope.get(2, b"")), self._numbers_of(name))
        except RecursionError as err:
            raise ValueError("protobuf: nested too deeply") from err
        return obj

    def _numbers_of(self, name: str) -> Numbers:
        numbers = self._numbers.get(name)
        if numbers is None:
            numbers = self._numbers[name] = {}
            found = self._types.find(name)
            for field in () if found is None else found.fields.values():
                level = numbers
                for number in field.number[:-1]:
                    inner = level.setdefault(number, {})
                    assert isinstance(inner, dict)
                    level = inner
                if field.number:
                    level[field.number[-1]] = field
        return numbers

    def _add(self, obj: Object, data: bytes, numbers: Numbers) -> None:
        """Decode the fields of a message into obj. data: encoded message. numbers: fields of its type by number."""
        for number, raw in _fields(data):
            match numbers.get(number):
                case None:
                    continue
                case dict() as inlined:
                    self._add(obj, _bytes(raw), inlined)
                case field:
                    self._add_field(obj, raw, field)

    def _add_field(self, obj: Object, raw: int | bytes, field: Field) -> None:
        match field.form:
            case "map" | "map of lists":
                key, value = self._map_entry(_bytes(raw), field)
                obj.setdefault(field.name, {})[key] = value
            case "list":
                obj.setdefault(field.name, []).extend(self._items(raw, field))
            case _:
                value = self._value(raw, field)
                # A field without a pointer in Go is sent even if it is unset.
                if field.pointer or value not in ("", 0, {}, None):
                    obj[field.name] = value

    def _items(self, raw: int | bytes, field: Field) -> Iterator[Any]:
        if field.kind in ("int32", "int64") and isinstance(raw, bytes):  # packed
            at = 0
            while at < len(raw):
                number, at = _varint(raw, at)
                yield _signed(number)
        else:
            yield self._value(raw, field)

    def _map_entry(self, data: bytes, field: Field) -> tuple[str, Any]:
        entry = dict(_fields(data))
        key, raw = _text(entry.get(1, b"")), entry.get(2, b"")
        if field.form == "map of lists":  # each list is a message that contains only items
            return key, [self._value(item, field) for _, item in _fields(raw)]
        return key, self._value(raw, field)

    def _value(self, raw: int | bytes, field: Field) -> Any:
        match field.kind:
            case "string":
                return _text(raw)
            case "bytes":
                return _encoded(_bytes(raw))
            case "int32" | "int64":
                return _signed(_int(raw))
            case "boolean":
                return bool(_int(raw))
            case "double":
                return _double(_bytes(raw))
            case "time" | "micro_time":
                return _time(_bytes(raw), micro=field.kind == "micro_time")
            case "quantity":
                return _quantity(_bytes(raw))
            case "int_or_string":
                return _int_or_string(_bytes(raw))
            case "raw":
                return orjson.loads(_bytes(dict(_fields(_bytes(raw))).get(1, b"null")))
            case "any":
                return self._any(_bytes(raw), field.type)
            case "struct":
                obj: Object = {}
                self._add(obj, _bytes(raw), self._numbers_of(field.type))
                return obj

    def _any(self, data: bytes, type_: str) -> Any:
        """Decode a type of apiextensions.k8s.io with several possible types in JSON, such as JSONSchemaPropsOrBool."""
        package, _, name = type_.rpartition(".")
        schemas = Field(name="", kind="struct", type=f"{package}.JSONSchemaProps")
        fields = list(_fields(data))
        of = dict(fields)
        match name:
            case "JSON":
                return orjson.loads(_bytes(of.get(1, b"null")))
            case "JSONSchemaPropsOrArray":
                return self._value(of[1], schemas) if 1 in of else [self._value(item, schemas) for _, item in fields]
            case "JSONSchemaPropsOrBool":
                return self._value(of[2], schemas) if 2 in of else bool(_int(of.get(1, 0)))
            case "JSONSchemaPropsOrStringArray":
                return self._value(of[1], schemas) if 1 in of else [_text(item) for _, item in fields]
        raise AssertionError(f"{type_} has no encoding here")


# --- wire format


def _fields(data: int | bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, value) for each field of a message. A varint is an int, every other value is bytes.

    Raises ValueError if the data is malformed.
    """
    data, at = _bytes(data), 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"protobuf: unknown wire type {wire}")
        if at + size > len(data):
            raise ValueError("protobuf: unexpected end")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode the varint at an offset; return it and the offset after it. Raises ValueError."""
    result = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise ValueError("protobuf: truncated or overlong varint")


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _int(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("protobuf: expected a number")
    return value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("protobuf: expected bytes")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _double(value: bytes) -> float:
    if len(value) != 8:
        raise ValueError("protobuf: expected 64 bits")
    number: float = struct.unpack("<d", value)[0]
    return number


# --- types with an encoding of their own


def _time(data: bytes, *, micro: bool) -> str | None:
    """Decode a metav1.Time or MicroTime to RFC 3339. Returns None for Go's zero time."""
    parts = {number: _signed(_int(value)) for number, value in _fields(data)}
    seconds, nanoseconds = parts.get(1, 0), parts.get(2, 0)
    if not data or seconds <= UNIX_OF_YEAR_1:
        return None
    return format_micro_time(seconds + nanoseconds / 1e9) if micro else format_time(seconds)


def _quantity(data: bytes) -> str:
    return _text(dict(_fields(data)).get(1, b"")) or "0"


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_fields(data))
    return _text(parts.get(3, b"")) if parts.get(1) else _signed(_int(parts.get(2, 0)))
