"""Checks of the types of built-in kinds' fields, so that all code behind the decoder can rely on them.

A check works in place: it removes nulls and fields that the kind does not have, as upstream's decoder drops them, and
writes quantities canonically. A value of another type is a ShapeError that names the field as Go's decoder would.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from protocols.objects import Object
from protocols.quantities import canonical_quantity
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.schema.api_types import OBJECT_META, ApiTypes, Field, Kind, Type, built_in_types, go_name

Check = Callable[[Any], None]

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


class ShapeError(ValueError):
    """A value of the wrong type. The field's place is added on the way out of the object."""

    def __init__(self, found: str, expected: str, *, why: str = "") -> None:
        """why: the whole text, where it is no type that is wrong."""
        super().__init__()
        self._found, self._expected, self._struct, self._why = found, expected, "", why
        self._fields: list[str] = []

    def inside(self, struct: str, field: str) -> None:
        self._struct = self._struct or struct
        self._fields.insert(0, field)

    def __str__(self) -> str:
        if self._why:
            return self._why
        where = f"Go struct field {self._struct}.{'.'.join(self._fields)}" if self._fields else "Go value"
        return f"json: cannot unmarshal {self._found} into {where} of type {self._expected}"


class Shapes:
    """The checks of all kinds; each type's is made when an object first has a field of it."""

    def __init__(self, types: ApiTypes) -> None:
        self._types = types
        self._structs: dict[str, Check] = {}
        self._kinds: dict[tuple[str, str, str], tuple[Check, bool] | None] = {}  # (group, version, kind) → see _kind
        self._metadata = self._struct(OBJECT_META)

    def check(self, definition: ResourceDefinition, obj: Object) -> None:
        """Raises ShapeError. Of a kind that upstream does not define only the metadata is checked."""
        kind = None if definition.dynamic else self._kind(definition)
        if kind is None:
            self._metadata(obj["metadata"])
            return
        check, has_spec = kind
        check(obj)
        if has_spec:
            obj.setdefault("spec", {})

    def _kind(self, definition: ResourceDefinition) -> tuple[Check, bool] | None:
        """The check of a kind, and whether it has a spec; None for a kind that upstream does not define.

        A spec is always there, even if nothing is specified: upstream's encoder never leaves it out.
        """
        place = definition.group, definition.version, definition.kind
        if place not in self._kinds:
            found = self._types.of_kind(*place)
            if found is None:
                self._kinds[place] = None
            else:
                has_spec = "spec" in found.fields and bool(found.fields["spec"].struct)
                self._kinds[place] = self._struct(found.name), has_spec
        return self._kinds[place]

    def _struct(self, name: str) -> Check:
        """The check of a type; it may be asked for inside its own fields (JSONSchemaProps has some)."""
        check = self._structs.get(name)
        if check is None:
            found = self._types.find(name)
            check = self._structs[name] = _anything if found is None else self._compile(found)
        return check

    def _compile(self, type_: Type) -> Check:
        fields = type_.fields
        struct, expected = type_.name.rpartition(".")[2], type_.go_name
        checks: dict[str, Check] = {}
        plain = {name: _PLAIN[field.kind] for name, field in fields.items() if _is_plain(field)}
        quantities = {name for name, field in fields.items() if field.kind == "quantity" and field.form == "one"}

        def check(value: Any) -> None:
            if type(value) is not dict:
                raise ShapeError(json_type(value), expected)
            gone: list[str] = []
            for field, item in value.items():
                if type(item) is plain.get(field):
                    continue  # most fields are, and need no call
                item_check = checks.get(field)
                if item is None or (item_check is None and field not in fields):
                    gone.append(field)
                    continue
                if item_check is None:
                    item_check = checks[field] = self._field(fields[field])
                try:
                    item_check(item)
                except ShapeError as err:
                    err.inside(struct, field)
                    raise
                if field in quantities:
                    value[field] = _canonical(item)
            for field in gone:
                del value[field]

        return check

    def _field(self, field: Field) -> Check:
        if field.kind == "quantity":
            match field.form:
                case "list":
                    return _quantity_list
                case "map":
                    return _quantity_map
        if field.struct:
            one, expected = self._struct(field.struct), go_name(field.struct)
        else:
            one, expected = _KINDS[field.kind]
        match field.form:
            case "list":
                return _list_of(one, f"[]{expected}")
            case "map":
                return _map_of(one, f"map[string]{expected}")
            case "map of lists":
                return _map_of(_list_of(one, f"[]{expected}"), f"map[string][]{expected}")
        return one


@cache
def built_in_shapes() -> Shapes:
    """Those of the built-in kinds; all servers of a process share them."""
    return Shapes(built_in_types())


def json_type(value: Any) -> str:
    """As Go's decoder names what it found."""
    match value:
        case bool():
            return "bool"
        case int():
            return "number"
        case float():
            return f"number {value}"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "null"


def _one_of(expected: str, *types: type) -> Check:
    def check(value: Any) -> None:
        if type(value) not in types:
            raise ShapeError(json_type(value), expected)

    return check


def _integer(expected: str, *, bits: int) -> Check:
    largest = (1 << (bits - 1)) - 1

    def check(value: Any) -> None:
        if type(value) is not int:
            raise ShapeError(json_type(value), expected)
        if not -largest - 1 <= value <= largest:
            raise ShapeError(f"number {value}", expected)

    return check


def _anything(_value: Any) -> None:
    return None


def _time(value: Any) -> None:
    if type(value) is not str or not _TIME.fullmatch(value):
        raise ShapeError(json_type(value), "v1.Time")


_quantity = _one_of("resource.Quantity", str, int, float)
_KINDS: dict[Kind, tuple[Check, str]] = {
    "string": (_one_of("string", str), "string"),
    "bytes": (_one_of("string", str), "string"),
    "boolean": (_one_of("bool", bool), "bool"),
    "int32": (_integer("int32", bits=32), "int32"),
    "int64": (_integer("int64", bits=64), "int64"),
    "double": (_one_of("float64", int, float), "float64"),
    "quantity": (_quantity, "resource.Quantity"),
    "int_or_string": (_one_of("intstr.IntOrString", int, str), "intstr.IntOrString"),
    "time": (_time, "v1.Time"),
    "micro_time": (_time, "v1.MicroTime"),
    "raw": (_one_of("runtime.RawExtension", dict), "runtime.RawExtension"),
    "any": (_anything, "interface {}"),
}
# The kinds all of whose values of one type are right.
_PLAIN: dict[Kind, type] = {"string": str, "bytes": str, "boolean": bool}


def _is_plain(field: Field) -> bool:
    return field.kind in _PLAIN and field.form == "one"


def _list_of(element: Check, expected: str) -> Check:
    def check(value: Any) -> None:
        if type(value) is not list:
            raise ShapeError(json_type(value), expected)
        for one in value:
            element(one)

    return check


def _map_of(item: Check, expected: str) -> Check:
    def check(value: Any) -> None:
        if type(value) is not dict:
            raise ShapeError(json_type(value), expected)
        for one in value.values():
            item(one)

    return check


def _quantity_list(value: Any) -> None:
    if type(value) is not list:
        raise ShapeError(json_type(value), "[]resource.Quantity")
    for i, amount in enumerate(value):
        _quantity(amount)
        value[i] = _canonical(amount)


def _quantity_map(value: Any) -> None:
    if type(value) is not dict:
        raise ShapeError(json_type(value), "v1.ResourceList")
    for name, amount in value.items():
        _quantity(amount)
        value[name] = _canonical(amount)


@lru_cache(maxsize=4096)
def _canonical(quantity: str | float) -> str:
    try:
        return canonical_quantity(quantity)
    except ValueError as err:
        pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise ShapeError("", "", why=f"quantities must match the regular expression '{pattern}'") from err
