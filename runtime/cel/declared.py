"""Types and maximum sizes of values by their schema, and conversion of JSON to values of expressions.

A schema is a dict, as in a CustomResourceDefinition or OpenAPI.

Source: k8s.io/apiserver/pkg/cel/common/schemas.go, valuesunstructured.go; pkg/cel/types.go; pkg/cel/limits.go.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from kcm.runtime.cel import types
from kcm.runtime.cel.costs import Range
from kcm.runtime.cel.identifiers import RESERVED, escaped
from kcm.runtime.cel.libraries import times
from kcm.runtime.cel.types import Type
from kcm.runtime.cel.values import MapList, SetList, Value

Schema = Mapping[str, Any]

LARGEST_REQUEST = 3 * 1024 * 1024  # bytes
LONGEST_TIME, DATE = 32, 12  # characters in JSON, with their quotation marks
STRING_SCHEMA: Schema = {"type": "string"}


class Declared(Struct, frozen=True, kw_only=True):
    """Declaration of a value by a schema.

    smallest: minimum size of the value in JSON, in bytes
    most: maximum number of elements, entries or characters; 0 for a scalar
    """

    type: Type
    smallest: int
    most: int = 0
    element: Declared | None = None
    fields: Mapping[str, Declared] | None = None  # by escaped name

    def at(self, path: tuple[str, ...]) -> Declared | None:
        """Return the declaration at a path of fields, @items, @keys and @values."""
        here: Declared | None = self
        for step in path:
            if here is None:
                return None
            if step in ("@items", "@values"):
                here = here.element
            elif step == "@keys":
                here = KEY if here.type.kind == "map" else None
            else:
                here = (here.fields or {}).get(step)
        return here

    def size_of(self, path: tuple[str, ...]) -> Range | None:
        """Return the size range of a value, for cost estimates. The path begins with the name of a variable."""
        found = self.at(path[1:])
        return None if found is None else Range(0, found.most)

    def structs(self) -> dict[str, dict[str, Type]]:
        """Return the fields of all struct types in this declaration, by the types' names.

        A field whose name is a reserved word is contained under this word and under its escaped name.
        """
        found: dict[str, dict[str, Type]] = {}
        pending = [self]
        while pending:
            each = pending.pop()
            if each.element is not None:
                pending.append(each.element)
            if each.fields is not None:
                fields = {name: field.type for name, field in each.fields.items()}
                keywords = {word: fields[f"__{word}__"] for word in RESERVED if f"__{word}__" in fields}
                found[each.type.name] = {**keywords, **fields}
                pending += each.fields.values()
        return found


KEY = Declared(type=types.STRING, smallest=2)  # upstream assumes a length of 0 for keys
_SCALARS = {
    "boolean": Declared(type=types.BOOL, smallest=4),
    "number": Declared(type=types.DOUBLE, smallest=1),
    "integer": Declared(type=types.INT, smallest=1),
}
_STRINGS: dict[str, tuple[Type, int, int]] = {
    "duration": (types.DURATION, 3, LONGEST_TIME),
    "date": (types.TIMESTAMP, DATE, DATE),
    "date-time": (types.TIMESTAMP, 21, LONGEST_TIME),
}


def declared(schema: Schema, *, root: bool, name: str = "selfType") -> Declared | None:
    """Return the declaration of a schema; None if expressions cannot see its values.

    root: the schema describes a whole object, or an embedded object
    """
    if schema.get("x-kubernetes-int-or-string"):
        return Declared(type=types.DYN, smallest=1, most=_longest(schema))
    if root:
        schema = with_object_meta(schema)
    match schema.get("type"):
        case "array":
            return _list(schema, name)
        case "object":
            values = schema.get("additionalProperties")
            if isinstance(values, Mapping):
                return _map(schema, values, name)
            return _object(schema, name)
        case "string":
            return _string(schema)
        case kind:
            return _SCALARS.get(str(kind))


def _list(schema: Schema, name: str) -> Declared | None:
    items = schema.get("items")
    element = _embedded(items, f"{name}.@idx") if isinstance(items, Mapping) else None
    if element is None:
        return None
    most = schema.get("maxItems")
    most = max(most, 0) if most is not None else (LARGEST_REQUEST - 2) // (element.smallest + 1)
    return Declared(type=types.list_of(element.type), smallest=2, most=most, element=element)


def _map(schema: Schema, values: Schema, name: str) -> Declared | None:
    element = _embedded(values, f"{name}.@elem")
    if element is None:
        return None
    most = schema.get("maxProperties")
    most = max(most, 0) if most is not None else (LARGEST_REQUEST - 2) // (element.smallest + 6)
    return Declared(type=types.map_of(types.STRING, element.type), smallest=2, most=most, element=element)


def _object(schema: Schema, name: str) -> Declared:
    required = schema.get("required") or ()
    fields: dict[str, Declared] = {}
    smallest = 2
    for field, of_field in (schema.get("properties") or {}).items():
        spelling = escaped(field)
        kind = _embedded(of_field, f"{name}.{spelling}")
        if kind is None:
            continue
        if spelling is not None:
            fields[spelling] = kind
        if field in required and of_field.get("default") is None:
            smallest += len(field.encode()) + kind.smallest + 4
    return Declared(type=types.struct(name), smallest=smallest, fields=fields)


def _embedded(schema: Schema, name: str) -> Declared | None:
    return declared(schema, root=bool(schema.get("x-kubernetes-embedded-resource")), name=name)


def _string(schema: Schema) -> Declared:
    kind = schema.get("format")
    if kind in _STRINGS:
        type_, smallest, most = _STRINGS[kind]
        return Declared(type=type_, smallest=smallest, most=most)
    longest = schema.get("maxLength")
    if kind == "byte":
        return Declared(
            type=types.BYTES, smallest=2, most=max(longest, 0) if longest is not None else LARGEST_REQUEST - 2
        )
    words = schema.get("enum")
    if longest is None and words:
        return Declared(type=types.STRING, smallest=2, most=max(len(str(each).encode()) for each in words))
    return Declared(type=types.STRING, smallest=2, most=_longest(schema))


def _longest(schema: Schema) -> int:
    """Return the maximum size of a string: four times its maxLength, because a character has up to four bytes."""
    longest = schema.get("maxLength")
    return LARGEST_REQUEST - 2 if longest is None else max(longest, 0) * 4


def with_object_meta(schema: Schema) -> Schema:
    """Add kind, apiVersion, metadata.name and metadata.generateName, which every whole object has, to a schema."""
    known = schema.get("properties") or {}
    meta = known.get("metadata") or {}
    inner = meta.get("properties") or {}
    if all(known.get(each, {}).get("type") == "string" for each in ("kind", "apiVersion")) and all(
        inner.get(each, {}).get("type") == "string" for each in ("name", "generateName")
    ):
        return schema
    metadata = {"type": "object", "properties": {"name": STRING_SCHEMA, "generateName": STRING_SCHEMA}}
    fixed = {"kind": STRING_SCHEMA, "apiVersion": STRING_SCHEMA, "metadata": metadata}
    return {**schema, "properties": {**known, **fixed}}


Reader = Callable[[Any], Value]


def reader(schema: Schema, *, root: bool) -> Reader | None:
    """Return a function that converts JSON values to values of expressions; None if no conversion is necessary."""
    if schema.get("x-kubernetes-int-or-string"):
        return None
    if root:
        schema = with_object_meta(schema)
    match schema.get("type"):
        case "number":
            return lambda value: float(value) if type(value) is int else value
        case "string":
            return _STRING_READERS.get(str(schema.get("format")))
        case "array":
            return _list_reader(schema)
        case "object":
            values = schema.get("additionalProperties")
            if isinstance(values, Mapping) and not schema.get("properties"):
                each = _child_reader(values)
                return None if each is None else lambda value: _read_map(value, each)
            return _object_reader(schema)
    return None


def _child_reader(schema: Schema) -> Reader | None:
    return reader(schema, root=bool(schema.get("x-kubernetes-embedded-resource")))


def _read_map(value: Any, each: Reader) -> Value:
    if type(value) is not dict:
        return value
    return {key: each(element) if element is not None else None for key, element in value.items()}


def _object_reader(schema: Schema) -> Reader | None:
    properties = schema.get("properties") or {}
    readers = {name: reader for name, of in properties.items() if (reader := _child_reader(of)) is not None}
    spellings = {name: escaped(name) for name in properties}
    renamed = {name: spelling for name, spelling in spellings.items() if spelling != name}
    if not readers and not renamed and not any(each.get("nullable") for each in properties.values()):
        return None

    def read(value: Any) -> Value:
        if type(value) is not dict:
            return value
        made = {
            name: held for name, held in value.items() if held is not None
        }  # a field that is null counts as missing
        for name, reader in readers.items():
            if name in made:
                made[name] = reader(made[name])
        for name, spelling in renamed.items():
            if name in made:
                held = made[name] if name in RESERVED else made.pop(name)
                if spelling is not None:
                    made[spelling] = held
        return made

    return read


def _list_reader(schema: Schema) -> Reader | None:
    items = schema.get("items")
    each = _child_reader(items) if isinstance(items, Mapping) else None
    kind = schema.get("x-kubernetes-list-type")
    keys = tuple(escaped(key) or key for key in schema.get("x-kubernetes-list-map-keys") or ())
    if each is None and kind not in ("set", "map"):
        return None

    def read(value: Any) -> Value:
        if type(value) is not list:
            return value
        elements = value if each is None else [each(element) if element is not None else None for element in value]
        if kind == "set":
            return SetList(elements)
        return MapList(elements, keys) if kind == "map" else elements

    return read


def _time(value: Any) -> Value:
    found = times.parse_timestamp(value) if type(value) is str else None
    return value if found is None else found


def _date(value: Any) -> Value:
    return _time(f"{value}T00:00:00Z") if type(value) is str else value


def _duration(value: Any) -> Value:
    found = times.parse_duration(value) if type(value) is str else None
    return value if found is None else found


def _bytes(value: Any) -> Value:
    try:
        return base64.b64decode(value)
    except (binascii.Error, TypeError, ValueError):
        return value


_STRING_READERS: dict[str, Reader] = {"date-time": _time, "date": _date, "duration": _duration, "byte": _bytes}
