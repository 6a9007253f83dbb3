"""Request bodies in Kubernetes' protobuf encoding, made JSON.

kubectl's `create deployment` and its kin, and all typed Go clients, send this to built-in resources and do not fall
back; answers they take in JSON. Types come from models, field numbers from protobuf_numbers.

Source: apimachinery pkg/runtime/serializer/protobuf/protobuf.go, pkg/runtime/types.go, Unknown (v1.36).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from protocols.objects import Object
from protocols.times import format_micro_time, format_time
from runtime.apiserver.schema.models import QUANTITY_MAPS, Field, Model, ModelName, Models, model_of
from runtime.apiserver.schema.protobuf_numbers import NUMBERS

MAGIC = b"k8s\x00"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_UNIX_OF_YEAR_1 = -62135596800  # seconds; a Go time that was never set


class UnknownType(ValueError):
    """A kind whose field numbers are not known here."""


class NumberedField(NamedTuple):
    """One word of protobuf_numbers. inline: name is that of a part whose fields JSON has in the type itself."""

    name: str
    pointer: bool
    is_bytes: bool
    inline: bool


class ProtobufDecoder:
    """Turns bodies into objects. The table of numbers is read when the first one comes."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def decode(self, body: bytes) -> Object:
        """The object. Raises ValueError if this is not Kubernetes' protobuf; UnknownType, see there."""
        if not body.startswith(MAGIC):
            raise ValueError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
        envelope = dict(_fields(body[len(MAGIC) :]))
        type_meta = {number: _text(value) for number, value in _fields(envelope.get(1, b""))}
        api_version, kind = type_meta.get(1, ""), type_meta.get(2, "")
        group, _, version = api_version.rpartition("/")
        # DeleteOptions and their like are sent in the version of whatever they are sent to.
        of_meta = ModelName("meta_v1", kind)
        name = of_meta if of_meta in self.numbers else model_of(group, version, kind)
        model = self._models.find(name)
        if model is None or name not in self.numbers:
            raise UnknownType(f'no kind "{kind}" is known in version "{api_version}"')
        return {"apiVersion": api_version, "kind": kind, **self._message(_bytes(envelope.get(2, b"")), name, model)}

    @cached_property
    def numbers(self) -> Mapping[ModelName, Mapping[int, NumberedField]]:
        return dict(_parse(NUMBERS))

    def _message(self, data: bytes, name: ModelName, model: Model) -> Object:
        """name: whose numbers; model: whose fields, which for an inlined part are those of the type around it."""
        numbers = self.numbers[name]
        obj: Object = {}
        for number, raw in _fields(data):
            numbered = numbers.get(number)
            if numbered is None:
                continue
            if numbered.inline:
                obj.update(self._message(_bytes(raw), ModelName(name.module, numbered.name), model))
                continue
            field = model.fields.get(numbered.name)
            if field is None:
                continue
            if field.type.kind == "map":
                obj.setdefault(field.name, {}).update([self._map_entry(_bytes(raw), field, numbered)])
            elif field.type.many:
                obj.setdefault(field.name, []).extend(self._items(raw, field, numbered))
            else:
                value = self._value(raw, field, numbered)
                # What is no pointer is sent even when it was never set.
                if numbered.pointer or value not in ("", 0, {}, None):
                    obj[field.name] = value
        return obj

    def _items(self, raw: int | bytes, field: Field, numbered: NumberedField) -> Iterator[Any]:
        if field.type.kind == "integer" and isinstance(raw, bytes):  # packed
            at = 0
            while at < len(raw):
                number, at = _varint(raw, at)
                yield _signed(number)
        else:
            yield self._value(raw, field, numbered)

    def _value(self, raw: int | bytes, field: Field, numbered: NumberedField) -> Any:
        match field.type.kind:
            case "integer":
                return _signed(_int(raw))
            case "boolean":
                return bool(_int(raw))
            case "time" | "micro_time":
                return _time(_bytes(raw), micro=field.type.kind == "micro_time")
            case "quantity":
                return _quantity(_bytes(raw))
            case "int_or_string":
                return _int_or_string(_bytes(raw))
            case "object":
                return orjson.loads(_bytes(dict(_fields(_bytes(raw))).get(1, b"null")))
            case "model":
                assert field.type.model is not None
                inner = self._models.find(field.type.model)
                return self._message(_bytes(raw), field.type.model, inner) if inner is not None else None
            case _:
                return _encoded(_bytes(raw)) if numbered.is_bytes else _text(raw)

    def _map_entry(self, data: bytes, field: Field, numbered: NumberedField) -> tuple[str, Any]:
        entry = dict(_fields(data))
        key, value = _text(entry.get(1, b"")), _bytes(entry.get(2, b""))
        if numbered.is_bytes:
            return key, _encoded(value)
        if field.name in QUANTITY_MAPS:
            return key, _quantity(value)
        if field.name == "disruptedPods":
            return key, _time(value, micro=False)
        if field.name == "extra":
            return key, [_text(text) for _, text in _fields(value)]
        return key, _text(value)


def _parse(table: str) -> Iterator[tuple[ModelName, Mapping[int, NumberedField]]]:
    module = ""
    for line in table.replace("\n  ", " ").splitlines():
        if line.startswith("["):
            module = line.strip("[]")
        elif line:
            name, _, words = line.partition(":")
            fields: dict[int, NumberedField] = {}
            number = 1
            for word in words.split():
                if word.startswith("@"):
                    number = int(word[1:])
                    continue
                text = word.strip("=*~")
                fields[number] = NumberedField(text, "*" in word, "~" in word, word.startswith("="))
                number += 1
            yield ModelName(module, name), fields


# --- the wire


def _fields(data: int | bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field number and value of each field in a message: a varint's number, else bytes. Raises ValueError."""
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
    """The number and where it ends. Raises ValueError."""
    result = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise ValueError("protobuf: a number does not end")


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


# --- types with an encoding of their own


def _time(data: bytes, *, micro: bool) -> str | None:
    """metav1.Time and MicroTime: seconds and nanoseconds. None for a time that was never set."""
    parts = {number: _signed(_int(value)) for number, value in _fields(data)}
    seconds, nanoseconds = parts.get(1, 0), parts.get(2, 0)
    if not data or seconds <= _UNIX_OF_YEAR_1:
        return None
    return format_micro_time(seconds + nanoseconds / 1e9) if micro else format_time(seconds)


def _quantity(data: bytes) -> str:
    return _text(dict(_fields(data)).get(1, b"")) or "0"


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_fields(data))
    return _text(parts.get(3, b"")) if parts.get(1) else _signed(_int(parts.get(2, 0)))
