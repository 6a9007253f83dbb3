"""Merge types: how server-side apply merges the fields of a type, as in structured-merge-diff's schema.

A merge type is created when a value of the type is first merged: from the generated built-in types (api_types.py), or
from the OpenAPI v3 schema of a custom kind.

Source: kube-openapi pkg/schemaconv (openapi.go, smd.go), structured-merge-diff schema/elements.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from kcm.runtime.schema.api_types import OBJECT_META, ApiType, Field, built_in_types

LazyType = Callable[[], "MergeType"]


class MergeType:
    """Merge behaviour of a type in server-side apply: a struct, a map, a list or a scalar.

    A list is merged if it is a set of scalars (is_set) or a list of maps with key fields (keys). Otherwise it is
    atomic.

    atomic: whether a value has a single owner and is replaced as a whole.
    keys: names of the key fields of a list of maps; () for other types.
    named: names of the declared fields of a struct; empty for other types.
    defaults: default values of fields by name; used for key fields that are missing.
    zero: the fields, with their values, that Go writes in JSON for the zero value of a struct.
    omitted: names of fields that Go leaves out of JSON if they are empty (omitempty).
    nulls: names of fields that Go writes as null if they are empty.
    """

    __slots__ = (
        "__weakref__",
        "_element_type",
        "_field_types",
        "_fields",
        "_zero",
        "atomic",
        "defaults",
        "is_set",
        "keys",
        "named",
        "nulls",
        "omitted",
    )

    def __init__(
        self,
        *,
        fields: Mapping[str, LazyType] | None = None,
        element: LazyType | None = None,
        atomic: bool = False,
        keys: tuple[str, ...] = (),
        is_set: bool = False,
        defaults: Mapping[str, Any] | None = None,
        zero: Callable[[], dict[str, Any]] = dict,
        omitted: frozenset[str] = frozenset(),
        nulls: tuple[str, ...] = (),
    ) -> None:
        """Create a type. The other parameters are described at the class.

        fields: functions that return the types of the declared fields, by name; called when a field is first used.
        element: returns the type of a list's elements or of a map's values; None: the type is deduced from a value.
        zero: returns the zero value.
        """
        self._field_types, self._element_type = fields or {}, element
        self._fields: dict[str, MergeType] = {}
        self.atomic, self.keys, self.is_set = atomic, keys, is_set
        self.defaults = defaults or {}
        self.named = self._field_types.keys()
        self._zero, self.omitted, self.nulls = zero, omitted, nulls

    def field(self, name: str) -> MergeType:
        """Return the merge type of a declared field, or of the values of a map."""
        found = self._fields.get(name)
        if found is None:
            field_type = self._field_types.get(name)
            if field_type is None:
                return self.element
            found = self._fields[name] = field_type()
        return found

    @property
    def element(self) -> MergeType:
        if self._element_type is None:
            return DEDUCED
        return self._element_type()

    @property
    def is_closed(self) -> bool:
        """Report whether the type is a struct that allows only its declared fields."""
        return bool(self._field_types) and self._element_type is None

    @property
    def zero(self) -> dict[str, Any]:
        return self._zero()

    @property
    def is_associative(self) -> bool:
        """Report whether the type is a list whose elements are identified by key fields or by their value."""
        return self.is_set or bool(self.keys)


# Values without a schema: maps are merged by field, lists are atomic.
DEDUCED: Final = MergeType()
SCALAR: Final = MergeType(atomic=True)
ATOMIC: Final = MergeType(atomic=True)


@cache
def built_in(name: str) -> MergeType:
    """Return the merge type of a built-in type, such as io.k8s.api.core.v1.Pod; DEDUCED if the type is unknown."""
    found = built_in_types().find(name)
    if found is None or found.schema is not None:
        return DEDUCED
    return _struct_type(found, atomic=found.extensions.get("mapType") == "atomic")


@cache
def _atomic_struct(name: str) -> MergeType:
    found = built_in_types().find(name)
    return ATOMIC if found is None else _struct_type(found, atomic=True)


def _struct_type(type_: ApiType, *, atomic: bool) -> MergeType:
    fields = type_.fields

    @cache
    def zero() -> dict[str, Any]:
        return {name: value for name, field in fields.items() if (value := _zero_of(field)) is not _ABSENT}

    return MergeType(
        fields={name: _lazy_field_type(field) for name, field in fields.items()},
        atomic=atomic,
        defaults={name: field.default for name, field in fields.items() if field.default is not None},
        zero=zero,
        omitted=frozenset(name for name, field in fields.items() if _is_omitted(field)),
        nulls=() if type_.name == OBJECT_META else tuple(name for name, field in fields.items() if _is_time(field)),
    )


def _is_time(field: Field) -> bool:
    return field.kind in ("time", "micro_time") and field.form == "one" and not field.pointer


def _is_omitted(field: Field) -> bool:
    if field.required or field.pointer:
        return False
    return field.form != "one" or field.kind in _ZEROS or field.kind == "bytes"


_ABSENT = object()
_ZEROS: Mapping[str, Any] = {"string": "", "boolean": False, "int32": 0, "int64": 0, "double": 0}


def _zero_of(field: Field) -> Any:
    """Return the value that Go writes for an empty field; _ABSENT if Go omits the field.

    Go always writes a struct field that is not a pointer. A required field has no omitempty.
    """
    if field.form == "one" and field.struct and not field.pointer and field.default == {}:
        return built_in(field.struct).zero
    if not field.required:
        return _ABSENT
    return None if field.form != "one" or field.pointer else _ZEROS.get(field.kind)


def _lazy_field_type(field: Field) -> LazyType:
    return cache(lambda: _field_type(field))


def _field_type(field: Field) -> MergeType:
    if field.form == "one":
        return _value_type(field, atomic=field.map_type == "atomic")
    if field.form == "list":
        element: LazyType = cache(lambda: _value_type(field, atomic=False))
        if field.list_type == "map":
            return MergeType(element=element, keys=tuple(sorted(field.list_map_keys)))
        if field.list_type == "set":
            return MergeType(element=element, is_set=True)
        return ATOMIC
    atomic = field.map_type == "atomic"
    if field.form == "map":
        return MergeType(element=cache(lambda: _value_type(field, atomic=False)), atomic=atomic)
    return MergeType(element=lambda: ATOMIC, atomic=atomic)


def _value_type(field: Field, *, atomic: bool) -> MergeType:
    if field.struct:
        return _atomic_struct(field.struct) if atomic else built_in(field.struct)
    return DEDUCED if field.kind in ("raw", "any") and not atomic else SCALAR


def of_schema(schema: Mapping[str, Any]) -> MergeType:
    """Return the merge type of an OpenAPI v3 schema with x-kubernetes extensions (of a custom kind or a part of it)."""
    match schema.get("type"):
        case "object":
            return _object_type(schema)
        case "array":
            element: LazyType = cache(lambda: of_schema(schema.get("items") or {}))
            list_type = schema.get("x-kubernetes-list-type", "atomic")
            if list_type == "map":
                return MergeType(element=element, keys=tuple(sorted(schema.get("x-kubernetes-list-map-keys") or ())))
            return MergeType(element=element, is_set=True) if list_type == "set" else ATOMIC
        case None if not schema.get("x-kubernetes-int-or-string"):
            return DEDUCED
    return SCALAR


def _object_type(schema: Mapping[str, Any]) -> MergeType:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    values = schema.get("additionalProperties")
    element: LazyType | None = None
    if isinstance(values, dict):
        element = cache(lambda: of_schema(values))
    elif values or schema.get("x-kubernetes-preserve-unknown-fields"):
        element = _deduced
    return MergeType(
        fields={name: _lazy_schema_type(property_) for name, property_ in properties.items()},
        element=element,
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        defaults={name: property_["default"] for name, property_ in properties.items() if "default" in property_},
    )


def _deduced() -> MergeType:
    return DEDUCED


def _lazy_schema_type(schema: Mapping[str, Any]) -> LazyType:
    return cache(lambda: of_schema(schema))


def of_custom_kind(schema: Mapping[str, Any] | None) -> MergeType:
    """Return the merge type of a custom kind, whose metadata is an ObjectMeta. schema: see `of_schema`; may be None."""
    of_rest = {} if schema is None else schema.get("properties") or {}
    fields = {name: _lazy_schema_type(schema) for name, schema in of_rest.items()}
    fields |= {"metadata": lambda: built_in(OBJECT_META), "kind": lambda: SCALAR, "apiVersion": lambda: SCALAR}
    return MergeType(fields=fields, element=None if schema is not None and not _is_open(schema) else _deduced)


def _is_open(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))
