"""Structural schemas of custom resources, from dataclasses, msgspec Structs, attrs classes and pydantic models.

The JSON schema of a model is that of msgspec or pydantic; here it becomes a structural schema, as a
CustomResourceDefinition requires it: without references, unions and null.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_type_hints

from kcm.actors.reconciliation.definitions import CelRule
from kcm.protocols.objects import Object

VALIDATIONS = "x-kubernetes-validations"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
KEPT = (
    "description",
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)
DROPPED = frozenset({"title", "examples", "deprecated", "readOnly", "writeOnly", "$defs"})
HANDLED = frozenset(
    {
        "$ref",
        "anyOf",
        "oneOf",
        "allOf",
        "const",
        "default",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
    }
    | {"uniqueItems", "propertyNames", "exclusiveMinimum", "exclusiveMaximum", "contentEncoding"}
)
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
_OF_METADATA = ("apiVersion", "kind", "metadata")


class SchemaError(ValueError):
    """A model has no structural schema. The text names the field and the reason."""


def schema_of(model: type[Any]) -> Object:
    """Return the structural schema of the objects of a model. Raises SchemaError."""
    whole = json_schema_of(model)
    found = _Structural(whole.get("$defs", {})).of(whole, model.__name__, ())
    if found.get("type") != "object":
        raise SchemaError(f"{model.__name__} is not a class of objects with fields")
    properties = {name: field for name, field in found.get("properties", {}).items() if name not in _OF_METADATA}
    if "status" in properties:
        properties["status"] = _without_defaults(properties["status"])
    base = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    required = [name for name in found.get("required", ()) if name not in _OF_METADATA]
    rest = {key: value for key, value in found.items() if key not in ("properties", "required", "default", "type")}
    whole = {**rest, "type": "object", "properties": {**base, **properties}}
    return {**whole, "required": required} if required else whole


def json_schema_of(model: type[Any]) -> Object:
    """Return the JSON schema of a model, with references to `$defs`. Raises SchemaError."""
    of_pydantic = getattr(model, "model_json_schema", None)
    try:
        if callable(of_pydantic):
            schema: Object = of_pydantic(by_alias=True, mode="validation")
            return schema
        import msgspec

        return msgspec.json.schema(model)
    except Exception as err:  # classes of errors of pydantic, and TypeError of msgspec
        raise SchemaError(f"{model.__name__} has no JSON schema: {str(err).splitlines()[0]}") from err


def add_rule(schema: Object, rule: CelRule) -> None:
    """Add a rule at its path. Raises SchemaError if the schema has no such field."""
    at = schema
    for part in filter(None, rule.at.split(".")):
        name, is_list = part.removesuffix("[]"), part.endswith("[]")
        at = at.get("properties", {}).get(name)
        if at is None or (is_list and "items" not in at):
            raise SchemaError(
                f"a rule is at {rule.at}, and the model has no {'list' if is_list else 'field'} {name!r} there"
            )
        at = at["items"] if is_list else at
    at.setdefault(VALIDATIONS, []).append(rule.validation)


def inexpressible(model: type[Any]) -> Iterator[str]:
    """Yield a line for each validator that is Python code, which no schema contains."""
    for each in _classes(model, {}):
        if "__post_init__" in vars(each):
            yield f"{each.__qualname__}.__post_init__ is Python code"
        decorators = getattr(each, "__pydantic_decorators__", None)
        for kind in ("validators", "field_validators", "root_validators", "model_validators"):
            for name in getattr(decorators, kind, {}):
                yield f"the validator {each.__qualname__}.{name} is Python code"
        for name, field in getattr(each, "__pydantic_fields__", {}).items():
            if field.frozen:
                yield f"{each.__qualname__}.{name} is frozen: CelRule('self == oldSelf', at=…)"


def _classes(given: Any, seen: dict[Any, None]) -> list[type[Any]]:
    """Return the classes with fields that a type contains, each once, outermost first."""
    for argument in get_args(given):
        _classes(argument, seen)
    if isinstance(given, type) and given not in seen and _has_fields(given):
        seen[given] = None
        try:
            hints = get_type_hints(given)
        except (NameError, TypeError):
            hints = {}
        for hint in hints.values():
            _classes(hint, seen)
    return [*seen]


def _has_fields(given: type[Any]) -> bool:
    attributes = ("__struct_fields__", "__attrs_attrs__", "__pydantic_fields__")
    return dataclasses.is_dataclass(given) or any(hasattr(given, name) for name in attributes)


class _Structural:
    def __init__(self, definitions: Mapping[str, Object]) -> None:
        self._definitions = definitions

    def of(self, given: Object, where: str, within: tuple[str, ...]) -> Object:
        """Return the structural schema. where: path for errors. within: definitions that contain this one."""
        given, within = self._resolved(given, where, within)
        given, _ = self._single(given, where, within)
        given, within = self._resolved(given, where, within)
        for key in given:
            if key not in KEPT and key not in HANDLED and key not in DROPPED and not key.startswith("x-kubernetes-"):
                raise SchemaError(f"{where}: a structural schema cannot contain {key}: {given[key]!r:.60}")
        found: Object = {key: given[key] for key in KEPT if key in given}
        if "const" in given:
            found["enum"] = [given["const"]]
        if "enum" in found and "type" not in found:
            found["type"] = _type_of(found["enum"], where)
        if given.get("contentEncoding") == "base64":
            found["format"] = "byte"
        _add_exclusive(found, given)
        found |= {key: _copied(value) for key, value in given.items() if key.startswith("x-kubernetes-")}
        if found.get("type") == "array":
            self._add_items(found, given, where, within)
        elif found.get("type") == "object":
            self._add_fields(found, given, where, within)
        elif "type" not in found and "x-kubernetes-int-or-string" not in found:
            found[PRESERVE] = True
        if (default := _without_none(given.get("default"))) is not None:
            found["default"] = default
        return found

    def _resolved(self, given: Object, where: str, within: tuple[str, ...]) -> tuple[Object, tuple[str, ...]]:
        while "$ref" in given:
            name = given["$ref"].rpartition("/")[2]
            if name in within:
                raise SchemaError(f"{where}: {name} contains itself, which a structural schema cannot: use Any there")
            rest = {key: value for key, value in given.items() if key not in ("$ref", "$defs")}
            given, within = {**self._definitions[name], **rest}, (*within, name)
        return given, within

    def _single(self, given: Object, where: str, within: tuple[str, ...]) -> tuple[Object, bool]:
        """Return the schema without a union, and whether it was nullable. Raises SchemaError for other unions."""
        kinds = [key for key in ("anyOf", "oneOf", "allOf") if key in given]
        if not kinds:
            return given, False
        rest = {key: value for key, value in given.items() if key not in kinds}
        choices = [self._resolved(each, where, within)[0] for key in kinds for each in given[key]]
        real = [each for each in choices if each.get("type") != "null"]
        if len(real) == 1:
            # The unresolved one, so that a class that contains itself is still found.
            chosen = next(each for key in kinds for each in given[key] if each.get("type") != "null")
            return {**chosen, **rest}, len(real) < len(choices)
        if sorted(each.get("type", "") for each in real) == ["integer", "string"] and all(
            len(each) == 1 for each in real
        ):
            return {**rest, "x-kubernetes-int-or-string": True}, len(real) < len(choices)
        kinds_of = ", ".join(str(each.get("title") or each.get("type") or "any") for each in real)
        raise SchemaError(
            f"{where}: a union of {kinds_of} has no structural schema: use one type, optional fields, or Any"
        )

    def _add_items(self, found: Object, given: Object, where: str, within: tuple[str, ...]) -> None:
        items = given.get("items", {})
        if items is False or "prefixItems" in given:
            raise SchemaError(f"{where}: a tuple of different types has no structural schema: use a class or a list")
        found["items"] = self.of({} if items is True else items, f"{where}[]", within)
        if given.get("uniqueItems"):
            if found["items"].get("type") in ("object", "array"):
                raise SchemaError(f"{where}: a set of objects has no structural schema: use a list with list_map(…)")
            found.setdefault("x-kubernetes-list-type", "set")

    def _add_fields(self, found: Object, given: Object, where: str, within: tuple[str, ...]) -> None:
        fields, others = given.get("properties"), given.get("additionalProperties")
        if fields:
            found["properties"] = {name: self.of(field, f"{where}.{name}", within) for name, field in fields.items()}
            for name in given.get("required", ()):
                field, inside = self._resolved(fields[name], where, within)
                if self._single(field, where, inside)[1]:
                    found["properties"][name]["nullable"] = True
            if given.get("required"):
                found["required"] = [*given["required"]]
            if others is True:
                found[PRESERVE] = True
        elif isinstance(others, dict) and others:
            found["additionalProperties"] = self.of(others, f"{where}.*", within)
        elif others is not False and fields is None:
            found[PRESERVE] = True
        for rule in _rules_of_keys(given.get("propertyNames") or {}, where):
            found.setdefault(VALIDATIONS, []).append(rule)


def _rules_of_keys(names: Object, where: str) -> Iterator[Object]:
    """Yield rules in CEL for constraints of the keys of a map, which a structural schema does not have."""
    for key, value in names.items():
        match key:
            case "pattern":
                text = "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
                yield {"rule": f"self.all(key, key.matches({text}))", "message": f"keys must match {value}"}
            case "minLength":
                yield {
                    "rule": f"self.all(key, size(key) >= {value})",
                    "message": f"keys have at least {value} characters",
                }
            case "maxLength":
                yield {
                    "rule": f"self.all(key, size(key) <= {value})",
                    "message": f"keys have at most {value} characters",
                }
            case "enum":
                known = ", ".join(f"'{each}'" for each in value)
                yield {"rule": f"self.all(key, key in [{known}])", "message": f"keys are of {known}"}
            case "type" if value != "string":
                raise SchemaError(f"{where}: keys of a map are text, not {value}")


def _add_exclusive(found: Object, given: Object) -> None:
    """Add exclusive bounds in the form of OpenAPI 3.0: a bound, and true. The tighter one of two bounds is kept."""
    for bound, exclusive, tighter in (("minimum", "exclusiveMinimum", max), ("maximum", "exclusiveMaximum", min)):
        value = given.get(exclusive)
        if value is not None and tighter(value, found.get(bound, value)) == value:
            found |= {bound: value, exclusive: True}


def _type_of(values: Sequence[Any], where: str) -> str:
    types = {_TYPES.get(type(value), "") for value in values}
    if len(types) != 1 or "" in types:
        raise SchemaError(f"{where}: values of different types have no structural schema: {values!r:.60}")
    return types.pop()


def _without_defaults(schema: Any) -> Any:
    """Return a schema without defaults, for a status: the server would store values that no controller reported."""
    found = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in found:
        found["properties"] = {name: _without_defaults(field) for name, field in found["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _without_defaults(found[key])
    return found


def _copied(value: Any) -> Any:
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(item) for name, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value
