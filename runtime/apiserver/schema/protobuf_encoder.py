"""Encoder of built-in kinds in Kubernetes' protobuf format, with the same bytes as upstream's generated code.

A field that is not a pointer in Go is always written, even if it is empty; a pointer, list or map only if it is set.
Fields are sorted by number, the entries of a map by key.

Source: apimachinery pkg/runtime/serializer/protobuf/protobuf.go, pkg/runtime/types_proto.go; generated.pb.go of the
API's packages (v1.36).
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, TypeAlias

import orjson

from kcm.protocols.bounded_cache import bounded_cache
from kcm.protocols.objects import Object
from kcm.protocols.protobuf_wire import BYTES, FIXED64, ONE_BYTE, VARINT, field_tag, varint
from kcm.protocols.times import EPOCH
from kcm.runtime.apiserver.schema.kind_checks import SCHEMA
from kcm.runtime.apiserver.schema.protobuf import MAGIC, UNIX_OF_YEAR_1, UnknownTypeError
from kcm.runtime.schema.api_types import META, OBJECT_META, ApiType, ApiTypes, Field, Form, Kind

# Encodes the value of a field, with its tag, or the content of a message, without a tag.
Encode: TypeAlias = Callable[[Any], bytes]

_TIME = re.compile(r"([0-9-]{10}T[0-9:]{8})(?:\.([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))")
_FOUR_CENTURIES = 146_097 * 86_400  # seconds
_LIST_META = f"{META}.ListMeta"
# Kinds that are not in OpenAPI, with their protobuf fields.
_PARTIAL, _PARTIAL_LIST = f"{META}.PartialObjectMetadata", f"{META}.PartialObjectMetadataList"
_PARTIAL_LIST_BETA = "io.k8s.apimachinery.pkg.apis.meta.v1beta1.PartialObjectMetadataList"


def _metadata_type(name: str, meta: str, *, meta_at: int, items_at: int = 0) -> ApiType:
    fields = {"metadata": Field(name="metadata", kind="struct", type=meta, number=(meta_at,))}
    if items_at:
        fields["items"] = Field(name="items", kind="struct", type=_PARTIAL, form="list", number=(items_at,))
    return ApiType(name, fields, None, {})


_DISCOVERY = "io.k8s.api.apidiscovery.v2"
_DISCOVERY_LIST = f"{_DISCOVERY}.APIGroupDiscoveryList"


def _discovery_type(name: str, *fields: tuple[str, Kind, str, Form]) -> ApiType:
    """Return a type of apidiscovery.k8s.io/v2.

    fields: (name, kind, type, form) of each field, see Field. They are numbered from 1.
    """
    return ApiType(
        name,
        {
            field: Field(name=field, kind=kind, type=type_, form=form, number=(number,))
            for number, (field, kind, type_, form) in enumerate(fields, start=1)
        },
        None,
        {},
    )


_KIND = f"{META}.GroupVersionKind"
_GROUP, _VERSION = f"{_DISCOVERY}.APIGroupDiscovery", f"{_DISCOVERY}.APIVersionDiscovery"
_RESOURCE, _SUBRESOURCE = f"{_DISCOVERY}.APIResourceDiscovery", f"{_DISCOVERY}.APISubresourceDiscovery"
_DISCOVERY_TYPES = [
    _discovery_type(_DISCOVERY_LIST, ("metadata", "struct", _LIST_META, "one"), ("items", "struct", _GROUP, "list")),
    _discovery_type(_GROUP, ("metadata", "struct", OBJECT_META, "one"), ("versions", "struct", _VERSION, "list")),
    _discovery_type(
        _VERSION,
        ("version", "string", "", "one"),
        ("resources", "struct", _RESOURCE, "list"),
        ("freshness", "string", "", "one"),
    ),
    _discovery_type(
        _RESOURCE,
        ("resource", "string", "", "one"),
        ("responseKind", "struct", _KIND, "one"),
        ("scope", "string", "", "one"),
        ("singularResource", "string", "", "one"),
        ("verbs", "string", "", "list"),
        ("shortNames", "string", "", "list"),
        ("categories", "string", "", "list"),
        ("subresources", "struct", _SUBRESOURCE, "list"),
    ),
    _discovery_type(
        _SUBRESOURCE,
        ("subresource", "string", "", "one"),
        ("responseKind", "struct", _KIND, "one"),
        ("acceptedTypes", "struct", _KIND, "list"),
        ("verbs", "string", "", "list"),
    ),
    _discovery_type(
        _KIND, ("group", "string", "", "one"), ("version", "string", "", "one"), ("kind", "string", "", "one")
    ),
]
_MORE_TYPES: Mapping[str, ApiType] = {
    _PARTIAL: _metadata_type(_PARTIAL, OBJECT_META, meta_at=1),
    _PARTIAL_LIST: _metadata_type(_PARTIAL_LIST, _LIST_META, meta_at=1, items_at=2),
    _PARTIAL_LIST_BETA: _metadata_type(_PARTIAL_LIST_BETA, _LIST_META, meta_at=2, items_at=1),
    **{type_.name: type_ for type_ in _DISCOVERY_TYPES},
}
_MORE_KINDS: Mapping[tuple[str, str], str] = {
    ("meta.k8s.io/v1", "PartialObjectMetadata"): _PARTIAL,
    ("meta.k8s.io/v1beta1", "PartialObjectMetadata"): _PARTIAL,
    ("meta.k8s.io/v1", "PartialObjectMetadataList"): _PARTIAL_LIST,
    ("meta.k8s.io/v1beta1", "PartialObjectMetadataList"): _PARTIAL_LIST_BETA,
    ("v1", "Status"): f"{META}.Status",
    ("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList"): _DISCOVERY_LIST,
}


MOST_KINDS = 4096  # cached kinds, whether they can be encoded or not


class ProtobufEncoder:
    """Encoder of objects. The encoder of a type is compiled when it is first used."""

    def __init__(self, types: ApiTypes) -> None:
        self._types = types
        self._messages: dict[str, Encode] = {}
        self._of_kind: dict[tuple[str, str], Encode | None] = {}

    def has_kind(self, api_version: str, kind: str) -> bool:
        return self._kind(api_version, kind) is not None

    def message(self, obj: Mapping[str, Any], api_version: str, kind: str) -> bytes:
        """Encode an object without its envelope. Raises UnknownTypeError for a kind that upstream does not define."""
        encode = self._kind(api_version, kind)
        if encode is None:
            raise UnknownTypeError(f'no kind "{kind}" is known in version "{api_version}"')
        return encode(obj)

    def encode(self, obj: Mapping[str, Any]) -> bytes:
        """Encode an object with its envelope, as a body. A discovery document may have no apiVersion.

        Raises UnknownTypeError.
        """
        api_version, kind = obj.get("apiVersion", ""), obj["kind"]
        return envelope(api_version, kind, self.message(obj, api_version, kind))

    def _kind(self, api_version: str, kind: str) -> Encode | None:
        place = api_version, kind
        if place not in self._of_kind:
            if len(self._of_kind) >= MOST_KINDS:  # Custom kinds may be created and deleted without limit.
                self._of_kind.clear()
            group, _, version = api_version.rpartition("/")
            name = _MORE_KINDS.get(place) or self._types.name_of(group, version or "v1", kind)
            self._of_kind[place] = None if name is None else self._message(name)
        return self._of_kind[place]

    def _message(self, name: str) -> Encode:
        found = self._messages.get(name)
        if found is None:
            type_ = _MORE_TYPES.get(name) or self._types.find(name)
            assert type_ is not None, name
            found = self._messages[name] = self._compile(list(type_.fields.values()), depth=0)
        return found

    def _compile(self, fields: Iterable[Field], depth: int) -> Encode:
        """Return the encoder of a message with these fields.

        depth: number of enclosing messages that are inlined in JSON; index into Field.number.
        """
        own: dict[str, Field] = {}
        inlined: dict[int, list[Field]] = {}
        for field in fields:
            if len(field.number) == depth + 1:
                own[field.name] = field
            elif field.number:
                inlined.setdefault(field.number[depth], []).append(field)
        for number in [number for number, inside in inlined.items() if _is_only_a_list(inside)]:
            (field,) = inlined.pop(number)
            own[field.name] = field
        order = sorted(
            [(field.number[depth], name) for name, field in own.items()] + [(number, "") for number in inlined]
        )
        slots = {name or number: slot for slot, (number, name) in enumerate(order)}
        absent = [self._absent(own[name], depth) if name else b"" for _, name in order]
        parts = [
            (slots[number], self._in_message(number, self._compile(inside, depth + 1)))
            for number, inside in inlined.items()
        ]
        encoders: dict[str, tuple[int, Encode]] = {}

        def encode(value: Object) -> bytes:
            written = absent.copy()
            for name, item in value.items():
                field = encoders.get(name)
                if field is None:
                    if name not in own:
                        continue
                    field = encoders[name] = slots[name], self._field(own[name], depth)
                if item is not None:
                    slot, encode_field = field
                    written[slot] = encode_field(item)
            for slot, part in parts:
                written[slot] = part(value)
            return b"".join(written)

        return encode

    def _absent(self, field: Field, depth: int) -> bytes:
        if field.pointer or field.form != "one" or field.kind in ("bytes", "any"):
            return b""
        if field.kind in ("time", "micro_time", "raw"):
            return field_tag(field.number[depth], BYTES) + b"\0"
        zeros: dict[Kind, Any] = {"struct": {}, "string": "", "quantity": "0", "boolean": False}
        return self._field(field, depth)(zeros.get(field.kind, 0))

    def _field(self, field: Field, depth: int) -> Encode:
        number = field.number[depth]
        match field.form:
            case "list" if len(field.number) > depth + 1:
                return self._in_message(number, _repeated(self._single(field, 1)))
            case "list":
                return _repeated(self._single(field, number))
            case "map":
                return _map_of(number, self._single(field, 2))
            case "map of lists":
                return _map_of(number, self._in_message(2, _repeated(self._single(field, 1))))
        return self._single(field, number)

    def _single(self, field: Field, number: int) -> Encode:
        """Return the encoder of a single value: of a field, of a list's element or of a map's value."""
        match field.kind:
            case "string":
                return _string(number)
            case "struct":
                return self._in_message(number, self._message(field.type))
            case "any":
                return self._in_message(number, self._any(field.type))
            case "int32" | "int64":
                return _integer(field_tag(number, VARINT))
            case "boolean":
                return _boolean(field_tag(number, VARINT))
            case "double":
                return _double(field_tag(number, FIXED64))
        return self._in_message(number, _OWN_ENCODING[field.kind])

    def _in_message(self, number: int, content: Encode) -> Encode:
        short, tag = _tags_with_sizes(number), field_tag(number, BYTES)

        def encode(value: Any) -> bytes:
            data = content(value)
            size = len(data)
            return short[size] + data if size < 128 else tag + varint(size) + data

        return encode

    def _any(self, type_: str) -> Encode:
        """Return the encoder of a type of apiextensions.k8s.io with several possible types in JSON.

        type_: OpenAPI name of the type, such as "….v1.JSONSchemaPropsOrBool" or "….v1.JSON".
        """
        if not type_.startswith(SCHEMA):
            return _raw
        other = type_.removeprefix(f"{SCHEMA}Or")
        schema = self._message(SCHEMA)
        first, second = self._in_message(1, schema), self._in_message(2, schema)
        allows, strings = _boolean(field_tag(1, VARINT)), _repeated(_string(2))

        def encode(value: Any) -> bytes:
            if type(value) is bool:
                return allows(value)
            if type(value) is list:
                return strings(value) if other == "StringArray" else b"".join(map(second, value))
            return allows(True) + second(value) if other == "Bool" else first(value)

        return encode


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    """Return a body: the prefix "k8s" and a runtime.Unknown with the encoded object, its apiVersion and its kind."""
    return b"".join((_head(api_version, kind), varint(len(message)), message, b"\x1a\0\x22\0"))


@lru_cache(maxsize=1024)
def _head(api_version: str, kind: str) -> bytes:
    type_meta = _string(1)(api_version) + _string(2)(kind)
    return MAGIC + field_tag(1, BYTES) + varint(len(type_meta)) + type_meta + field_tag(2, BYTES)


def list_item(message: bytes) -> bytes:
    """Encode an item of a list with its tag. The field number of items is 2 in all list kinds."""
    return b"".join((b"\x12", varint(len(message)), message))


def watch_event(type_: str, body: bytes) -> bytes:
    """Return a watch frame: the size in four bytes, then a metav1.WatchEvent. body: the object with its envelope."""
    extension = b"".join((b"\x0a", varint(len(body)), body))
    head = _string(1)(type_)
    size = varint(len(extension))
    return b"".join((struct.pack(">I", len(head) + 1 + len(size) + len(extension)), head, b"\x12", size, extension))


def _is_only_a_list(inside: list[Field]) -> bool:
    """Report whether a message only wraps a list (a named list type in Go), and is not an inlined struct.

    inside: fields of the message.
    """
    return len(inside) == 1 and inside[0].form == "list"


# --- wire format


@cache
def _tags_with_sizes(number: int) -> list[bytes]:
    """Return the tag of a field followed by a size, for each size from 0 to 127 bytes."""
    tag = field_tag(number, BYTES)
    return [tag + size for size in ONE_BYTE]


def _string(number: int) -> Encode:
    short, tag = _tags_with_sizes(number), field_tag(number, BYTES)

    def encode(value: str) -> bytes:
        data = value.encode()
        size = len(data)
        return short[size] + data if size < 128 else tag + varint(size) + data

    return encode


def _integer(tag: bytes) -> Encode:
    return lambda value: tag + varint(value if value >= 0 else value + 2**64)


def _boolean(tag: bytes) -> Encode:
    no, yes = tag + b"\0", tag + b"\1"
    return lambda value: yes if value else no


def _double(tag: bytes) -> Encode:
    return lambda value: tag + struct.pack("<d", value)


def _repeated(encode: Encode) -> Encode:
    return lambda values: b"".join(map(encode, values))


def _map_of(number: int, value: Encode) -> Encode:
    key, short, tag = _string(1), _tags_with_sizes(number), field_tag(number, BYTES)

    def encode(entries: Mapping[str, Any]) -> bytes:
        found = []
        for name in sorted(entries):
            data = key(name) + value(entries[name])
            size = len(data)
            found.append(short[size] + data if size < 128 else tag + varint(size) + data)
        return b"".join(found)

    return encode


# --- types with an encoding of their own


@bounded_cache(4096, longest=64)
def _time(text: str) -> bytes:
    """Encode a metav1.Time in whole seconds, as in JSON. Go's zero time is encoded as an empty message."""
    seconds, _ = _unix(text)
    return b"" if seconds == UNIX_OF_YEAR_1 else _timestamp(seconds, 0)


@bounded_cache(4096, longest=64)
def _micro_time(text: str) -> bytes:
    seconds, microseconds = _unix(text)
    return b"" if seconds == UNIX_OF_YEAR_1 and not microseconds else _timestamp(seconds, microseconds * 1000)


def _timestamp(seconds: int, nanoseconds: int) -> bytes:
    return b"\x08" + varint(seconds % 2**64) + b"\x10" + varint(nanoseconds)


def _unix(text: str) -> tuple[int, int]:
    """Parse a time that scalars.py accepts into seconds and microseconds."""
    found = _TIME.fullmatch(text)
    assert found is not None, text
    head, seconds = found[1], 0
    if head.startswith("0000"):  # datetime has no year 0; the calendar repeats every 400 years
        head, seconds = f"0400{head[4:]}", -_FOUR_CENTURIES
    since = datetime.fromisoformat(f"{head}+00:00") - EPOCH
    seconds += since.days * 86400 + since.seconds
    if found[3]:
        offset = int(found[4]) * 3600 + int(found[5]) * 60
        seconds += -offset if found[3] == "+" else offset
    return seconds, int((found[2] or "")[:6].ljust(6, "0"))


@bounded_cache(4096, longest=128)
def _quantity(value: str) -> bytes:
    return _string(1)(value)


def _int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\0" + _string(3)(value)
    return b"\x08\0" + _integer(b"\x10")(value) + b"\x1a\0"


def _raw(value: Any) -> bytes:
    data = orjson.dumps(value)
    return b"".join((b"\x0a", varint(len(data)), data))


_OWN_ENCODING: Mapping[Kind, Encode] = {
    "bytes": base64.b64decode,
    "time": _time,
    "micro_time": _micro_time,
    "quantity": _quantity,
    "int_or_string": _int_or_string,
    "raw": _raw,
}
