"""Validators of values: predicates that are compiled once per schema and stop at the first error.

Nearly all objects are valid, so most writes only pay for this check. If it fails, validation_errors.py determines the
error texts; a test checks that both agree. No JSON Schema library is used: these libraries do not support nullable, and
differ in formats, numbers, regular expressions and messages.

Source: kube-openapi pkg/validation/validate (v1.36), apiextensions-apiserver pkg/apiserver/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcm.protocols.patterns import matcher
from kcm.runtime.apiserver.apiextensions.formats import format_of, is_of_format
from kcm.runtime.apiserver.apiextensions.numbers import fits, is_enumerated, is_integral, is_multiple, is_within
from kcm.runtime.apiserver.apiextensions.schemas import Schema, additional_of, items_of, properties_of, types_of

IsValid = Callable[[Any], bool]

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


def checker(schema: Schema) -> IsValid | None:
    """Compile a predicate for the values of a schema; return None if every value is valid."""
    checks = [
        check
        for check in (
            _of_strings(schema),
            _of_numbers(schema),
            _of_lists(schema),
            _of_maps(schema),
            _of_enumeration(schema),
            *_of_junctors(schema),
        )
        if check is not None
    ]
    of_null, of_type = _null(schema), _type(schema)
    if of_type is None and not checks and of_null:
        return None
    if len(checks) == 0:
        return lambda value: of_null if value is None else of_type is None or of_type(value)
    if len(checks) == 1:
        check = checks[0]
        return lambda value: of_null if value is None else (of_type is None or of_type(value)) and check(value)
    every = tuple(checks)

    def is_valid(value: Any) -> bool:
        if value is None:
            return of_null
        if of_type is not None and not of_type(value):
            return False
        return all(check(value) for check in every)

    return is_valid


def _null(schema: Schema) -> bool:
    """Report whether null is valid. Only type and enum apply to null, and no enumeration contains null."""
    return bool(schema.get("nullable") or not types_of(schema)) and not schema.get("enum")


def _type(schema: Schema) -> IsValid | None:
    types, format_ = types_of(schema), format_of(schema)
    if format_ and types not in (("integer",), ("number",), ("string",)):
        return lambda value: fits(types, format_, value)
    if types == ("string",) and format_:
        return lambda value: type(value) in (str, list)  # as upstream, which checks the format instead
    if not types:
        return None
    wanted = tuple(type_ for name in types for type_ in _PYTHON_TYPES.get(name, ()))
    if int in wanted and float not in wanted:
        return lambda value: type(value) in wanted or (type(value) is float and is_integral(value))
    if len(wanted) == 1:
        only = wanted[0]
        return lambda value: type(value) is only
    return lambda value: type(value) in wanted


def _of_strings(schema: Schema) -> IsValid | None:
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    of_format = is_of_format(format_of(schema))
    matches = matcher(pattern) if pattern else None
    if most is None and least is None and matches is None and of_format is None:
        return None

    def is_valid(value: Any) -> bool:
        return type(value) is not str or (
            (most is None or len(value) <= most)
            and (least is None or len(value) >= least)
            and (matches is None or bool(matches(value)))
            and (of_format is None or of_format(value))
        )

    return is_valid


def _of_numbers(schema: Schema) -> IsValid | None:
    bounds = {name: schema[name] for name in ("maximum", "minimum", "multipleOf") if schema.get(name) is not None}
    types, format_ = types_of(schema), format_of(schema)
    if not bounds and types == ("integer",) and format_ != "int32":
        return None  # the type check already rejects fractions
    if not bounds and (len(types) != 1 or not format_ or types not in (("integer",), ("number",))):
        return None
    return lambda value: (
        type(value) not in (int, float) or (is_within(schema, value, types, format_) and is_multiple(schema, value))
    )


def _of_lists(schema: Schema) -> IsValid | None:
    most, least, items = schema.get("maxItems"), schema.get("minItems"), items_of(schema)
    of_item = None if items is None else checker(items)
    if most is None and least is None and of_item is None:
        return None

    def is_valid(value: Any) -> bool:
        if type(value) is not list:
            return True
        if (most is not None and len(value) > most) or (least is not None and len(value) < least):
            return False
        return of_item is None or all(map(of_item, value))

    return is_valid


def _of_maps(schema: Schema) -> IsValid | None:
    properties, additional = properties_of(schema), additional_of(schema)
    fields = {name: check for name, property_ in properties.items() if (check := checker(property_)) is not None}
    required = tuple(schema.get("required") or ())
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    of_other = None if additional is None else checker(additional)
    closed = schema.get("additionalProperties") is False
    if not (fields or required or of_other or closed) and most is None and least is None:
        return None

    def is_valid(value: Any) -> bool:
        if type(value) is not dict:
            return True
        for name in required:
            if name not in value:
                return False
        if (most is not None and len(value) > most) or (least is not None and len(value) < least):
            return False
        for name, item in value.items():
            check = fields.get(name)
            if check is not None:
                if not check(item):
                    return False
            elif name not in properties and (closed or (of_other is not None and not of_other(item))):
                return False
        return True

    return is_valid


def _of_enumeration(schema: Schema) -> IsValid | None:
    values = schema.get("enum")
    if not values:
        return None
    if all(type(value) is str for value in values):
        words = frozenset(values)
        return lambda value: type(value) is str and value in words
    return lambda value: is_enumerated(value, values)


def _of_junctors(schema: Schema) -> list[IsValid | None]:
    every = [checker(part) for part in schema.get("allOf") or ()]
    some = [checker(alternative) or _anything for alternative in schema.get("anyOf") or ()]
    just = [checker(alternative) or _anything for alternative in schema.get("oneOf") or ()]
    found: list[IsValid | None] = list(every)
    if some:
        found.append(lambda value: any(check(value) for check in some))
    if just:
        found.append(lambda value: sum(check(value) for check in just) == 1)
    if schema.get("not") is not None:
        never = checker(schema["not"]) or _anything
        found.append(lambda value: not never(value))
    return found


def _anything(_value: Any) -> bool:
    return True
