"""Type checks of objects of built-in kinds. They run right after decoding, and all later code relies on them.

A check normalizes the object in place, as upstream's decoder and encoder do: it removes nulls and unknown fields,
replaces a null in a list or map by the zero value of its type, and writes quantities and bytes in canonical form. For a
value of a wrong type it raises UnmarshalTypeError, which names the field as Go's decoder would.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.schema.scalars import SCALARS, Check, UnmarshalTypeError, anything, json_type
from kcm.runtime.schema.api_types import OBJECT_META, ApiType, ApiTypes, Field, Kind, built_in_types, go_name

SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
# Kinds for which each value of a Python type is valid.
_PLAIN: dict[Kind, type] = {"string": str, "boolean": bool}


class TypeChecks:
    """Type checks of all kinds. A type's check is a function, compiled when an object first contains the type.

    unknown_field_count: number of unknown fields that were removed so far.
    """

    def __init__(self, types: ApiTypes) -> None:
        self.unknown_field_count = 0
        self._types = types
        self._structs: dict[str, Check] = {}
        self._kinds: dict[tuple[str, str, str], tuple[Check, bool] | None] = {}  # (group, version, kind) → see _kind
        self._metadata = self._struct(OBJECT_META)

    def check(self, definition: ResourceDefinition, obj: Object) -> None:
        """Check and normalize an object in place. definition: the resource of its kind. Raises UnmarshalTypeError.

        If upstream does not define the kind, only the metadata is checked; `definition.settle`, if set, normalizes the
        rest by the schema of a custom kind.
        """
        kind = None if definition.dynamic else self._kind(definition)
        if kind is None:
            self._metadata(obj["metadata"])
            if definition.settle is not None:
                unknown_fields: list[str] = []
                definition.settle(obj, unknown_fields)
                self.unknown_field_count += len(unknown_fields)
            return
        check, has_spec = kind
        check(obj)
        if has_spec:
            obj.setdefault("spec", {})

    def check_type(self, name: str, value: Any) -> None:
        """Check and normalize a part of an object in place. name: its OpenAPI type. Raises UnmarshalTypeError."""
        self._struct(name)(value)

    def _kind(self, definition: ResourceDefinition) -> tuple[Check, bool] | None:
        """Return (check, has_spec) for a kind; None if upstream does not define it.

        check: function that checks and normalizes an object of the kind.
        has_spec: whether the kind has a spec. If so, a missing spec is added, as upstream's encoder always writes it.
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
        """Return the function that checks values of an OpenAPI type. The type may contain itself (JSONSchemaProps)."""
        check = self._structs.get(name)
        if check is None:
            found = self._types.find(name)
            check = self._structs[name] = anything if found is None else self._compile(found)
        return check

    def _compile(self, type_: ApiType) -> Check:
        fields = type_.fields
        struct, expected = type_.name.rpartition(".")[2], type_.go_name
        checks: dict[str, Check] = {}
        plain = {name: _PLAIN[field.kind] for name, field in fields.items() if _is_plain(field)}

        def check(value: Any) -> Any:
            if type(value) is not dict:
                raise UnmarshalTypeError(json_type(value), expected)
            removed: list[str] = []
            for field, item in value.items():
                if type(item) is plain.get(field):
                    continue  # Most fields are strings or booleans, and need no call.
                item_check = checks.get(field)
                if item is None or (item_check is None and field not in fields):
                    if item is not None:
                        self.unknown_field_count += 1
                    removed.append(field)
                    continue
                if item_check is None:  # Compiled at first use, because a type may contain itself.
                    item_check = checks[field] = self._field(fields[field])
                try:
                    kept = item_check(item)
                except UnmarshalTypeError as err:
                    err.inside(struct, field)
                    raise
                if kept is not item:
                    value[field] = kept
            for field in removed:
                del value[field]
            return value

        return check

    def _field(self, field: Field) -> Check:
        if field.struct:
            check, of, zero = self._struct(field.struct), go_name(field.struct), None
        elif field.type.startswith(f"{SCHEMA}Or"):
            check, of, zero = self._schema_or(field.type.removeprefix(f"{SCHEMA}Or")), go_name(field.type), None
        else:
            check, of, zero = SCALARS[field.kind]
        element = _or_zero(check, is_struct=bool(field.struct), zero=zero)
        match field.form:
            case "list":
                return _list_of(element, f"[]{of}")
            case "map":
                return _map_of(element, "v1.ResourceList" if field.kind == "quantity" else f"map[string]{of}")
            case "map of lists":
                return _map_of(_list_of(element, f"[]{of}"), f"map[string][]{of}")
        return check

    def _schema_or(self, other: str) -> Check:
        """Return the function that checks a value that is a schema or an alternative, such as JSONSchemaPropsOrBool.

        other: the alternative: "Bool", "Array" (of schemas) or "StringArray". As in Go's decoder, a value of any other
        type is an error for "Bool", and is replaced by null for the lists.
        """
        schema, string = self._struct(SCHEMA), SCALARS["string"]
        lists: dict[str, Check] = {
            "Array": _list_of(_or_zero(schema, is_struct=True, zero=None), "[]v1.JSONSchemaProps"),
            "StringArray": _list_of(_or_zero(string[0], is_struct=False, zero=string[2]), "[]string"),
        }

        def check(value: Any) -> Any:
            if type(value) is dict:
                return schema(value)
            if other in lists:
                return lists[other](value) if type(value) is list else None
            if type(value) is not bool:
                raise UnmarshalTypeError(json_type(value), f"v1.JSONSchemaPropsOr{other}")
            return value

        return check


def _is_plain(field: Field) -> bool:
    return field.kind in _PLAIN and field.form == "one"


def _or_zero(check: Check, *, is_struct: bool, zero: Any) -> Check:
    """Return a function that checks a list element or map value, and replaces null by the zero value of its type."""

    def check_element(value: Any) -> Any:
        if value is None:
            return {} if is_struct else zero
        return check(value)

    return check_element


def _list_of(element: Check, expected: str) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not list:
            raise UnmarshalTypeError(json_type(value), expected)
        for i, item in enumerate(value):
            kept = element(item)
            if kept is not item:
                value[i] = kept
        return value

    return check


def _map_of(item: Check, expected: str) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise UnmarshalTypeError(json_type(value), expected)
        for key, entry in value.items():
            kept = item(entry)
            if kept is not entry:
                value[key] = kept
        return value

    return check


@cache
def built_in_type_checks() -> TypeChecks:
    """Return the checks of the built-in kinds, shared by all servers of a process."""
    return TypeChecks(built_in_types())
