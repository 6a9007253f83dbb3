"""The types of built-in kinds' fields, checked, so that all code behind the decoder can trust what it is handed.

A shape goes over an object in place: nulls and fields that the kind does not have go, as upstream's decoder drops them;
quantities are written canonically; a value of another type is a ShapeError that names the field as Go's decoder
would. What a kind's fields are is known to models.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from protocols.objects import Object
from protocols.quantities import canonical_quantity
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.schema.models import Field, ModelName, Models, installed_models, model_of

Check = Callable[[Any], None]

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
# The models say only that a number is whole. These have 64 bits in upstream's schema, in some kind at least.
_INT64 = {
    "activeDeadlineSeconds",
    "count",
    "deletionGracePeriodSeconds",
    "expirationSeconds",
    "fsGroup",
    "generation",
    "gid",
    "gracePeriodSeconds",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minItems",
    "minLength",
    "minProperties",
    "nodeAllocatableUpdatePeriodSeconds",
    "observedGeneration",
    "remainingItemCount",
    "resourceSliceCount",
    "revision",
    "runAsGroup",
    "runAsUser",
    "seconds",
    "sizeBytes",
    "startingDeadlineSeconds",
    "supplementalGroups",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
    "uid",
}
# The models say only that these are maps; all other maps are of strings.
_QUANTITY_MAPS = {
    "allocatable",
    "allocatedResources",
    "capacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "min",
    "overhead",
    "requests",
    "used",
}
_OTHER_MAPS = {"definitions", "dependencies", "disruptedPods", "extra", "patternProperties", "properties"}


class ShapeError(ValueError):
    """A value of the wrong type. The field's place is added on the way out of the object."""

    def __init__(self, found: str, wanted: str, *, why: str = "") -> None:
        """why: the whole text, where it is no type that is wrong."""
        super().__init__()
        self._found, self._wanted, self._struct, self._why = found, wanted, "", why
        self._fields: list[str] = []

    def inside(self, struct: str, field: str) -> None:
        self._struct = self._struct or struct
        self._fields.insert(0, field)

    def __str__(self) -> str:
        if self._why:
            return self._why
        where = f"Go struct field {self._struct}.{'.'.join(self._fields)}" if self._fields else "Go value"
        return f"json: cannot unmarshal {self._found} into {where} of type {self._wanted}"


class Shapes:
    """The checks of all kinds; each type is looked up when an object first has it."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._structs: dict[ModelName, Check] = {}
        self._kinds: dict[tuple[str, str, str], tuple[Check, bool] | None] = {}  # (group, version, kind) → see _kind
        self._metadata = self._struct(ModelName("meta_v1", "ObjectMeta"))

    def check(self, definition: ResourceDefinition, obj: Object) -> None:
        """Raises ShapeError. Of a kind without a model, as a custom resource's, only the metadata is looked at."""
        kind = None if definition.dynamic else self._kind(definition)
        if kind is None:
            self._metadata(obj["metadata"])
            return
        check, has_spec = kind
        check(obj)
        if has_spec:
            obj.setdefault("spec", {})

    def _kind(self, definition: ResourceDefinition) -> tuple[Check, bool] | None:
        """The check of a kind, and whether it has a spec; None without a model.

        A spec is always there, even if nothing is specified: upstream's encoder never leaves it out.
        """
        place = definition.group, definition.version, definition.kind
        if place not in self._kinds:
            name = model_of(*place)
            model = self._models.find(name)
            if model is None:
                self._kinds[place] = None
            else:
                has_spec = "spec" in model.fields and model.fields["spec"].type.model is not None
                self._kinds[place] = self._struct(name), has_spec
        return self._kinds[place]

    def _struct(self, name: ModelName) -> Check:
        """The check of a type; it may be asked for inside its own fields (JSONSchemaProps has some)."""
        check = self._structs.get(name)
        if check is None:
            model = self._models.find(name)
            check = _anything if model is None else self._compile(name, dict(model.fields))
            self._structs[name] = check
        return check

    def _compile(self, name: ModelName, fields: dict[str, Field]) -> Check:
        struct, wanted = name.name, _go_name(name)
        checks: dict[str, Check] = {}
        plain = {field: _PLAIN[described.type.kind] for field, described in fields.items() if _is_plain(described)}
        quantities = {field for field, described in fields.items() if described.type.kind == "quantity"}

        def check(value: Any) -> None:
            if type(value) is not dict:
                raise ShapeError(json_type(value), wanted)
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
        kind, model = field.type.kind, field.type.model
        if model is not None:
            one, wanted = self._struct(model), _go_name(model)
        elif kind == "integer":
            one, wanted = (_int64, "int64") if field.name in _INT64 else (_int32, "int32")
        elif kind == "map":
            one, wanted = _map(field.name), "map[string]string"
        else:
            one, wanted = _KINDS[kind], kind
        return _list_of(one, f"[]{wanted}") if field.type.many else one


@cache
def built_in_shapes() -> Shapes:
    """Of the installed models; all servers of a process share them. Raises ModuleNotFoundError without models."""
    return Shapes(installed_models())


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


def _go_name(name: ModelName) -> str:
    return f"{name.module.rpartition('_')[2]}.{name.name}"


def _one_of(wanted: str, *types: type) -> Check:
    def check(value: Any) -> None:
        if type(value) not in types:
            raise ShapeError(json_type(value), wanted)

    return check


def _integer(wanted: str, *, bits: int) -> Check:
    largest = (1 << (bits - 1)) - 1

    def check(value: Any) -> None:
        if type(value) is not int:
            raise ShapeError(json_type(value), wanted)
        if not -largest - 1 <= value <= largest:
            raise ShapeError(f"number {value}", wanted)

    return check


def _anything(_value: Any) -> None:
    return None


def _time(value: Any) -> None:
    if type(value) is not str or not _TIME.fullmatch(value):
        raise ShapeError(json_type(value), "v1.Time")


_string, _int32, _int64 = _one_of("string", str), _integer("int32", bits=32), _integer("int64", bits=64)
_quantity = _one_of("resource.Quantity", str, int, float)
_KINDS: dict[str, Check] = {
    "string": _string,
    "boolean": _one_of("bool", bool),
    "number": _one_of("float64", int, float),
    "quantity": _quantity,
    "int_or_string": _one_of("intstr.IntOrString", int, str),
    "time": _time,
    "micro_time": _time,
    "object": _one_of("runtime.RawExtension", dict),
    "any": _anything,
}


# The kinds all of whose values of one type are right.
_PLAIN = {"string": str, "boolean": bool}


def _is_plain(field: Field) -> bool:
    return field.type.kind in _PLAIN and field.type.model is None and not field.type.many


def _list_of(item: Check, wanted: str) -> Check:
    def check(value: Any) -> None:
        if type(value) is not list:
            raise ShapeError(json_type(value), wanted)
        for one in value:
            item(one)

    return check


def _map(field: str) -> Check:
    if field in _OTHER_MAPS:
        return _one_of("map[string]interface {}", dict)
    return _quantity_map if field in _QUANTITY_MAPS else _string_map


def _string_map(value: Any) -> None:
    if type(value) is not dict:
        raise ShapeError(json_type(value), "map[string]string")
    for one in value.values():
        if type(one) is not str:
            raise ShapeError(json_type(one), "string")


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
