"""The built-in API types: what is in api_types.json, which kcm.runtime.apiserver.schema.generate makes.

The file is JSON, one line a field. It is read when the first type is asked for, and a type's lines are decoded when
that type is: a server needs a part of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import orjson

from kcm.protocols.late_methods import dataclass

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
# Types with an encoding of their own. raw: an object with any fields; any: any JSON value.
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
_TYPES = b'\n},"types":{\n'
_TYPE = re.compile(rb'^"([^"]+)":', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """name: as JSON spells it. kind: of the value, of each element of a list or each value of a map.

    type: name of the type in OpenAPI, "" for a plain string, number or boolean. pointer: Go holds it by pointer, so its
    zero is a value. default: as OpenAPI has it, None without one; a struct held by value has {}.
    number: on the wire; several lead through the messages that it is inlined from; none for what is not sent.
    """

    name: str
    kind: Kind
    type: str = ""
    form: Form = "one"
    required: bool = False
    pointer: bool = False
    default: Any = None
    number: tuple[int, ...] = ()
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    patch_strategy: tuple[str, ...] = ()
    patch_merge_key: str = ""

    @property
    def struct(self) -> str:
        """The type whose fields can be looked into; "" if there is none."""
        return self.type if self.kind == "struct" else ""


@dataclass(frozen=True, slots=True)
class Type:
    """name: in OpenAPI, "io.k8s.api.core.v1.Pod". schema: of a type with an encoding of its own, which has no fields.

    extensions: what else OpenAPI says of it: "mapType", "unions".
    """

    name: str
    fields: Mapping[str, Field]
    schema: Mapping[str, Any] | None
    extensions: Mapping[str, Any]

    @property
    def go_name(self) -> str:
        """As Go's decoder names it: "v1.Pod"."""
        return go_name(self.name)


def go_name(name: str) -> str:
    """io.k8s.api.core.v1.Pod → v1.Pod."""
    return ".".join(name.split(".")[-2:])


class ApiTypes:
    """All types, by name and by kind."""

    def __init__(self, data: bytes) -> None:
        """data: the content of api_types.json."""
        self._data = data
        self._known: dict[str, Type] = {}

    def find(self, name: str) -> Type | None:
        """None for what upstream does not define, as custom resources."""
        found = self._known.get(name)
        if found is None and (place := self._places.get(name)) is not None:
            found = self._known[name] = self._decode(name, orjson.loads(self._data[place]))
        return found

    def of_kind(self, group: str, version: str, kind: str) -> Type | None:
        name = self.name_of(group, version, kind)
        return None if name is None else self.find(name)

    def name_of(self, group: str, version: str, kind: str) -> str | None:
        return self.kinds.get(f"{group}/{version}/{kind}" if group else f"{version}/{kind}")

    def closure(self, roots: Iterable[str]) -> Iterator[Type]:
        """These types and all that their fields refer to, each once."""
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
        """ "apps/v1/Deployment" → name of the type."""
        found: dict[str, str] = orjson.loads(self._data[len(b'{"kinds":') : self._data.index(_TYPES) + 2])
        return found

    @cached_property
    def _places(self) -> Mapping[str, slice]:
        """Where in the file each type is."""
        begin = self._data.index(_TYPES) + len(_TYPES)
        heads = [(found[1].decode(), found.start(), found.end()) for found in _TYPE.finditer(self._data, begin)]
        ends = [start - len(b",\n") for _, start, _ in heads[1:]] + [len(self._data) - len(b"\n}}\n")]
        return {name: slice(start, end) for (name, _, start), end in zip(heads, ends, strict=True)}

    def _decode(self, name: str, facts: dict[str, Any]) -> Type:
        fields = {field: self._field(field, of) for field, of in facts.pop("fields", {}).items()}
        return Type(name, fields, facts.pop("schema", None), facts)

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
    raise ValueError(f"api_types.json has a field of no known form: {facts!r}")


@cache
def built_in_types() -> ApiTypes:
    """Those of the Kubernetes release that the file beside is of; all servers of a process share them."""
    return ApiTypes(FILE.read_bytes())
