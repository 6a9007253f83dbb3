"""Built-in API types, read from api_types.json, which kcm.runtime.apiserver.schema.generate writes.

The file is JSON with one line per field. It is read when the first type is looked up, and each type is decoded when it
is first looked up, because a server needs only some of the types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import orjson
from msgspec import Struct

# fmt: off
Kind = Literal[
    "string", "bytes", "boolean", "int32", "int64", "double",
    "time", "micro_time", "quantity", "int_or_string", "raw", "any", "struct",
]
# fmt: on
Form = Literal["one", "list", "map", "map of lists"]

FILE = Path(__file__).with_name("api_types.json")
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
OBJECT_META = f"{META}.ObjectMeta"

_SCALARS: frozenset[str] = frozenset({"string", "bytes", "boolean", "int32", "int64", "double"})
_EXTENSIONS_V1 = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
# Types with their own encoding. raw: an object with any fields; any: any JSON value.
_OWN_ENCODING: Mapping[str, Kind] = {
    f"{META}.Time": "time",
    f"{META}.MicroTime": "micro_time",
    f"{META}.FieldsV1": "raw",
    f"{META}.Patch": "raw",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int_or_string",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "raw",
    f"{_EXTENSIONS_V1}.JSON": "any",
    f"{_EXTENSIONS_V1}.JSONSchemaPropsOrArray": "any",
    f"{_EXTENSIONS_V1}.JSONSchemaPropsOrBool": "any",
    f"{_EXTENSIONS_V1}.JSONSchemaPropsOrStringArray": "any",
}
# Kinds of releases after the one that the file was generated from, and the kinds whose types they have.
_LATER_KINDS = {
    f"{group}/v1/{kind}{suffix}": f"{group}/{before}/{kind}{suffix}"
    for group, before, kind in (
        ("certificates.k8s.io", "v1beta1", "ClusterTrustBundle"),
        ("certificates.k8s.io", "v1beta1", "PodCertificateRequest"),
        ("resource.k8s.io", "v1beta2", "DeviceTaintRule"),
        ("storagemigration.k8s.io", "v1beta1", "StorageVersionMigration"),
    )
    for suffix in ("", "List")
}
_TYPES = b'\n},"types":{\n'
_TYPE = re.compile(rb'^"([^"]+)":', re.MULTILINE)


class Field(Struct, frozen=True, kw_only=True):
    """Field of an API type. Its value is a single value, a list or a map (`form`) of values of one `kind`."""

    name: str  # in JSON
    kind: Kind  # of the value, or of the elements of a list or map
    type: str = ""  # name of the OpenAPI type; "" for a plain string, number or boolean
    form: Form = "one"
    required: bool = False
    pointer: bool = False  # a pointer in Go, so that a zero value is distinct from an unset one
    default: Any = None  # the default in OpenAPI; {} for a struct without a pointer
    number: tuple[int, ...] = ()  # protobuf field numbers: a path through inlined messages; () if not encoded
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    patch_strategy: tuple[str, ...] = ()
    patch_merge_key: str = ""

    @property
    def struct(self) -> str:
        """Name of the field's struct type; "" if the kind is not "struct"."""
        return self.type if self.kind == "struct" else ""


class ApiType(Struct, frozen=True):
    """Type of an API object, or of a part of one."""

    name: str  # in OpenAPI: "io.k8s.api.core.v1.Pod"
    fields: Mapping[str, Field]
    schema: Mapping[str, Any] | None  # OpenAPI schema of a type with its own encoding, which has no fields; else None
    extensions: Mapping[str, Any]  # x-kubernetes extensions of the type itself: "mapType", "unions"

    @property
    def go_name(self) -> str:
        """Name of the type in error messages of Go's decoder: "v1.Pod"."""
        return go_name(self.name)


def go_name(name: str) -> str:
    """Return the name of a type in error messages of Go's decoder: io.k8s.api.core.v1.Pod → v1.Pod."""
    return ".".join(name.split(".")[-2:])


class ApiTypes:
    """Index of the built-in API types, by OpenAPI name and by kind."""

    def __init__(self, data: bytes) -> None:
        """Create the index. data: content of api_types.json, which is not decoded yet."""
        self._data = data
        self._known: dict[str, ApiType] = {}

    def find(self, name: str) -> ApiType | None:
        """Return a type by its OpenAPI name; None if upstream does not define it, as for custom kinds."""
        found = self._known.get(name)
        if found is None and (place := self._places.get(name)) is not None:
            found = self._known[name] = self._decode(name, orjson.loads(self._data[place]))
        return found

    def of_kind(self, group: str, version: str, kind: str) -> ApiType | None:
        name = self.name_of(group, version, kind)
        return None if name is None else self.find(name)

    def name_of(self, group: str, version: str, kind: str) -> str | None:
        key = f"{group}/{version}/{kind}" if group else f"{version}/{kind}"
        return self.kinds.get(key) or self.kinds.get(_LATER_KINDS.get(key, ""))

    def closure(self, roots: Iterable[str]) -> Iterator[ApiType]:
        """Yield the types with the names in `roots`, and all types that their fields contain. Each is yielded once."""
        seen: set[str] = set()
        waiting = list(roots)
        while waiting:
            name = waiting.pop()
            if name not in seen and (found := self.find(name)) is not None:
                yield found
                waiting.extend(field.type for field in found.fields.values() if field.type)
            seen.add(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """OpenAPI type names of the kinds, by keys such as "apps/v1/Deployment" and "v1/Pod"."""
        found: dict[str, str] = orjson.loads(self._data[len(b'{"kinds":') : self._data.index(_TYPES) + 2])
        return found

    @cached_property
    def _places(self) -> Mapping[str, slice]:
        """Position of each type's JSON in the file, by OpenAPI name."""
        begin = self._data.index(_TYPES) + len(_TYPES)
        heads = [(found[1].decode(), found.start(), found.end()) for found in _TYPE.finditer(self._data, begin)]
        ends = [start - len(b",\n") for _, start, _ in heads[1:]] + [len(self._data) - len(b"\n}}\n")]
        return {name: slice(start, end) for (name, _, start), end in zip(heads, ends, strict=True)}

    def _decode(self, name: str, facts: dict[str, Any]) -> ApiType:
        fields = {field: self._field(field, of) for field, of in facts.pop("fields", {}).items()}
        return ApiType(name, fields, facts.pop("schema", None), facts)

    def _field(self, name: str, facts: dict[str, Any]) -> Field:
        form, of = _form(facts)
        number = facts.get("number", ())
        scalar = of in _SCALARS
        return Field(
            name=name,
            kind=of if scalar else _OWN_ENCODING.get(of, "struct"),  # type: ignore[arg-type]
            type="" if scalar else of,
            form=form,
            required="required" in facts,
            pointer="pointer" in facts,
            default=facts.get("default"),
            number=(number,) if isinstance(number, int) else tuple(number),
            list_type=facts.get("listType", ""),
            list_map_keys=tuple(facts.get("listMapKeys", ())),
            map_type=facts.get("mapType", ""),
            patch_strategy=tuple(facts["patchStrategy"].split(",")) if "patchStrategy" in facts else (),
            patch_merge_key=facts.get("patchMergeKey", ""),
        )


def _form(facts: Mapping[str, Any]) -> tuple[Form, str]:
    match facts:
        case {"type": str(of)}:
            return "one", of
        case {"list": str(of)}:
            return "list", of
        case {"map": str(of)}:
            return "map", of
        case {"map": {"list": str(of)}}:
            return "map of lists", of
    raise ValueError(f"a field in api_types.json has an unknown form: {facts!r}")


@cache
def built_in_types() -> ApiTypes:
    """Return the types of the supported Kubernetes release, shared by all servers of a process."""
    return ApiTypes(FILE.read_bytes())
