"""Every field of every kind round-trips; values are encoded as by upstream's generated code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kcm.runtime.apiserver.schema.protobuf import ProtobufDecoder, UnknownTypeError
from kcm.runtime.apiserver.schema.protobuf_encoder import ProtobufEncoder
from kcm.runtime.schema.api_types import ApiTypes, Field, built_in_types

TYPES = built_in_types()
# None of these values is zero, because a decoder omits zeros.
VALUES = {
    "string": "é",
    "bytes": "AP8=",
    "boolean": True,
    "int32": -(2**31),
    "int64": 2**63 - 1,
    "double": 1.5,
    "time": "1969-12-31T23:59:59Z",
    "micro_time": "2026-01-02T03:00:00.000123Z",
    "quantity": "1500m",
    "int_or_string": "50%",
    "raw": {"f:a": {".": {}}, "n": None},
    "any": {"type": "x"},
}


@pytest.fixture(scope="module")
def encoder() -> ProtobufEncoder:
    return ProtobufEncoder(TYPES)


@pytest.fixture(scope="module")
def decoder() -> ProtobufDecoder:
    return ProtobufDecoder(TYPES)


def whole(types: ApiTypes, name: str, depth: int) -> dict[str, Any]:
    """Return an object with all fields of a type. At the maximum depth, fields with nested messages are omitted."""
    found = types.find(name)
    assert found is not None
    return {
        field.name: filled(types, field, depth)
        for field in found.fields.values()
        if field.number and (depth or not field.struct)
    }


def filled(types: ApiTypes, field: Field, depth: int) -> Any:
    value = whole(types, field.type, depth - 1) if field.struct else VALUES[field.kind]
    match field.form:
        case "list":
            return [value, value]
        case "map":
            return {"b": value, "a": value}
        case "map of lists":
            return {"b": [value], "a": [value, value]}
    return value


def pruned(value: Any) -> Any:
    """Remove empty messages, which a decoder omits where Go's field is not a pointer."""
    if isinstance(value, dict):
        shown = {name: pruned(inner) for name, inner in value.items()}
        return {name: inner for name, inner in shown.items() if inner not in ({}, [])}
    return [pruned(inner) for inner in value] if isinstance(value, list) else value


def backwards(value: Any) -> Any:
    """Reverse the order of all fields, except inside raw JSON, which is encoded verbatim."""
    if value in (VALUES["raw"], VALUES["any"]):
        return value
    if isinstance(value, dict):
        return {name: backwards(inner) for name, inner in reversed(value.items())}
    return [backwards(inner) for inner in value] if isinstance(value, list) else value


def test_all_fields_of_all_kinds_round_trip(encoder: ProtobufEncoder, decoder: ProtobufDecoder) -> None:
    for place, name in TYPES.kinds.items():
        api_version, _, kind = place.rpartition("/")
        obj = {"apiVersion": api_version, "kind": kind, **whole(TYPES, name, 5)}
        encoded = encoder.encode(obj)
        assert pruned(decoder.decode(encoded)) == pruned(obj), place
        assert encoder.encode(backwards(obj)) == encoded, place  # the encoding does not depend on the order of fields


def lists() -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    for place, name in TYPES.kinds.items():
        found = TYPES.find(name)
        if place.endswith("List") and found is not None and "items" in found.fields:
            yield place, found.fields["metadata"].number, found.fields["items"].number


def test_all_lists_have_the_same_field_numbers() -> None:
    assert {numbers for _, *numbers_ in lists() for numbers in numbers_} == {(1,), (2,)}
    assert all((meta, items) == ((1,), (2,)) for _, meta, items in lists())


def content(encoder: ProtobufEncoder, obj: dict[str, Any], api_version: str, kind: str) -> bytes:
    return encoder.message(obj, api_version, kind)


def of_lease(encoder: ProtobufEncoder, time: str) -> bytes:
    return content(encoder, {"spec": {"renewTime": time}}, "coordination.k8s.io/v1", "Lease").partition(b"\x12")[2]


@pytest.mark.parametrize(
    "time, seconds, nanoseconds",
    [
        ("2026-01-02T03:00:00.5Z", 1767322800, 500_000_000),
        ("2026-01-02T04:30:00.123456789+01:30", 1767322800, 123_456_000),
        ("2026-01-02T02:00:00-01:00", 1767322800, 0),
        ("2026-01-03T03:00:00+24:00", 1767322800, 0),
        ("0000-01-01T00:00:00Z", -62167219200, 0),
        ("1969-12-31T23:59:59Z", -1, 0),
    ],
)
def test_times_round_trip(
    encoder: ProtobufEncoder, decoder: ProtobufDecoder, time: str, seconds: int, nanoseconds: int
) -> None:
    def varint(number: int) -> bytes:
        number %= 2**64
        out = bytearray()
        while number > 0x7F:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        return bytes([*out, number])

    moment = b"\x08" + varint(seconds) + b"\x10" + varint(nanoseconds)
    assert of_lease(encoder, time).endswith(b"\x22" + varint(len(moment)) + moment)


def test_unset_time_is_encoded_empty(encoder: ProtobufEncoder) -> None:
    assert of_lease(encoder, "0001-01-01T00:00:00Z").endswith(b"\x22\x00")
    meta = content(encoder, {"metadata": {"creationTimestamp": None}}, "v1", "ConfigMap")
    assert b"\x42\x00" in meta


def test_fields_that_the_kind_does_not_have_are_left_out(encoder: ProtobufEncoder) -> None:
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert encoder.encode({**plain, "strays": 1}) == encoder.encode(plain)


def test_kinds_that_upstream_does_not_define_are_named(encoder: ProtobufEncoder) -> None:
    assert not encoder.has_kind("example.com/v1", "Widget")
    with pytest.raises(UnknownTypeError, match='"Widget"'):
        encoder.encode({"apiVersion": "example.com/v1", "kind": "Widget"})
