"""Errors of an invalid value, with upstream's texts and in upstream's order.

If no alternative of anyOf or oneOf is valid, upstream reports the errors of the alternative with the most successful
checks. For this, checks are counted here as upstream counts them.

Source: kube-openapi pkg/validation/{validate,errors} (v1.36), apiextensions-apiserver
pkg/apiserver/validation/{validation,ratcheting}.go.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from kcm.protocols.patterns import matcher
from kcm.runtime.apiserver.apiextensions.correlation import Pair
from kcm.runtime.apiserver.apiextensions.formats import format_of, is_of_format
from kcm.runtime.apiserver.apiextensions.go_text import go_number, sorted_keys
from kcm.runtime.apiserver.apiextensions.numbers import (
    exceeds,
    is_enumerated,
    is_multiple,
    out_of_range,
    wrong_type,
)
from kcm.runtime.apiserver.apiextensions.schemas import Schema, additional_of, items_of, properties_of, types_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_supported, quoted, required
from kcm.runtime.apiserver.errors.status_errors import MOST_CAUSES
from kcm.runtime.cel import effort

MOST_PROBLEMS = MOST_CAUSES + 1  # validation stops at this number
OF_VALUE = 10  # cost of a value in units of about a microsecond, so that other requests are served meanwhile
_NOWHERE = "<nil>"  # field of errors for which upstream has no path


class Problem(NamedTuple):
    """Error of a value."""

    path: str | None  # "" at the root; None for an error without a path
    text: str  # message of upstream's validator
    value: Any = ""
    cause: str = ""  # type of the field error; "" for an invalid value
    detail: str = ""


class ValidationResult:
    """Result of a validation: the errors, each text only once, and the number of successful checks."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = {problem.text: problem for problem in problems}
        self.matches = 0

    @property
    def is_full(self) -> bool:
        return len(self.problems) >= MOST_PROBLEMS

    def add(self, *problems: Problem) -> None:
        for problem in problems:
            self.problems.setdefault(problem.text, problem)

    def merge(self, other: ValidationResult) -> None:
        self.add(*other.problems.values())
        self.matches += other.matches


def explain(schema: Schema, value: Any, *, under: str = "", pair: Pair | None = None) -> list[FieldError]:
    """Return all errors of a value.

    under: path of the field that contains the value.
    pair: new and old value of an update, whose unchanged parts are not reported; None for a creation.
    """
    return [_field_error(problem, under) for problem in _explain(schema, value, "", pair).problems.values()]


def _explain(schema: Schema, value: Any, path: str, pair: Pair | None) -> ValidationResult:
    result = _of_value(schema, value, path, pair)
    if result.problems and pair is not None and pair.same:
        result.problems.clear()  # unchanged and invalid before: ignored (ratcheting)
    return result


def _of_value(schema: Schema, value: Any, path: str, pair: Pair | None) -> ValidationResult:
    effort.pass_time(OF_VALUE)
    result, types = ValidationResult(), types_of(schema)
    if value is None:
        if types and not schema.get("nullable"):
            result.add(_wrong_type(path, ",".join(types), "null"))
        else:
            result.matches += 1
        result.merge(_enumeration(schema, value, path))
        return result
    if types or format_of(schema):
        wrong = wrong_type(types, format_of(schema), value)
        if wrong is None:
            result.matches += 1
        else:
            result.add(_wrong_type(path, *wrong))
        result.matches += 1
    result.merge(_junctors(schema, value, path))
    result.matches += 1
    match value:
        case str():
            _text(result, schema, value, path)
        case bool():
            pass
        case int() | float():
            result.merge(_number(schema, value, path))
            result.matches += 2
        case list():
            result.merge(_list(schema, value, path, pair))
            result.matches += 2
    result.merge(_enumeration(schema, value, path))
    result.matches += 1
    if isinstance(value, dict):
        result.merge(_map(schema, value, path, pair))
        result.matches += 1
    result.matches += 1
    return result


def _wrong_type(path: str, wanted: str, found: str) -> Problem:
    return Problem(path, f"{path} in body must be of type {wanted}: {quoted(found)}", found, "FieldValueTypeInvalid")


def _text(result: ValidationResult, schema: Schema, value: str, path: str) -> None:
    """Add the first violation of maxLength, minLength or pattern, and then that of the format."""
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        text = f"{path} in body should be at most {most} chars long"
        detail = f"may not be more than {most} byte{'' if most == 1 else 's'}"
        result.add(Problem(path, text, "", "FieldValueTooLong", detail))
    elif least is not None and len(value) < least:
        result.add(Problem(path, f"{path} in body should be at least {least} chars long", value))
    elif pattern and not matcher(pattern)(value):
        result.add(Problem(path, f"{path} in body should match '{pattern}'", value))
    result.matches += 1
    format_ = format_of(schema)
    of_format = is_of_format(format_)
    if of_format is not None:
        if not of_format(value):
            text = f"{path} in body must be of type {format_}: {quoted(value)}"
            result.add(Problem(path, text, value, "FieldValueTypeInvalid"))
        result.matches += 1


def _number(schema: Schema, value: float, path: str) -> ValidationResult:
    result, types, format_ = ValidationResult(), types_of(schema), format_of(schema)
    if len(types) != 1:
        types = ()

    def check_range(number: float, prefix: str) -> None:
        if wrong := out_of_range(number, types, format_, prefix, path):
            result.add(Problem(None, wrong))

    check_range(value, "Checked")
    factor = schema.get("multipleOf")
    if factor is not None:
        check_range(factor, "MultipleOf")
        shown = int(factor) if isinstance(value, int) else float(factor)
        if shown <= 0:
            text = f"factor MultipleOf declared for {path} must be positive: {go_number(shown)}"
            result.add(Problem(path, text, shown))
        elif not is_multiple(schema, value):
            result.add(Problem(path, f"{path} in body should be a multiple of {go_number(shown)}", value))
    for name, prefix, words in (("minimum", "Minimum", "greater"), ("maximum", "Maximum", "less")):
        if schema.get(name) is None:
            continue
        check_range(schema[name], f"{prefix} boundary")
        if exceeds(schema, name, value):
            shown = int(schema[name]) if isinstance(value, int) else float(schema[name])
            or_equal = "" if schema.get(f"exclusive{prefix}") else " or equal to"
            than = f"{words} than{or_equal}"
            result.add(Problem(path, f"{path} in body should be {than} {go_number(shown)}", value))
    return result


def _list(schema: Schema, values: list[Any], path: str, pair: Pair | None) -> ValidationResult:
    result, items = ValidationResult(), items_of(schema)
    if items is not None:
        for i, value in enumerate(values):
            if result.is_full:
                break
            result.merge(_explain(items, value, f"{path}[{i}]", None if pair is None else pair.at_index(i)))
    size, most, least = len(values), schema.get("maxItems"), schema.get("minItems")
    if least is not None and size < least:
        result.add(Problem(path, f"{path} in body should have at least {least} items", size))
    if most is not None and size > most:
        result.add(_too_many(path, f"{path} in body should have at most {most} items", size, most))
    return result


def _too_many(path: str, text: str, size: int, most: int) -> Problem:
    return Problem(path, text, size, "FieldValueTooMany", f"must have at most {most} item{'' if most == 1 else 's'}")


def _map(schema: Schema, value: dict[str, Any], path: str, pair: Pair | None) -> ValidationResult:
    result, properties, additional = ValidationResult(), properties_of(schema), additional_of(schema)
    size, most, least = len(value), schema.get("maxProperties"), schema.get("minProperties")
    if least is not None and size < least:
        result.add(Problem(path, f"{path} in body should have at least {least} properties", size))
    if most is not None and size > most:
        result.add(_too_many(path, f"{path} in body should have at most {most} properties", size, most))

    def correlated(name: str) -> Pair | None:
        if pair is None or (not path and name in ("apiVersion", "kind")):
            return None
        return pair.at_key(name)

    others = [name for name in value if name not in properties]
    for name in others:
        if result.is_full:
            break
        if schema.get("additionalProperties") is False:
            result.add(Problem(path, f"{path}.{name} in body is a forbidden property", name))
        elif additional is not None:
            result.merge(_explain(additional, value[name], f"{path}.{name}", correlated(name)))
    for name, property_ in properties.items():
        if name in value:
            result.merge(_explain(property_, value[name], f"{path}.{name}" if path else name, correlated(name)))
    for name in schema.get("required") or ():
        if name not in value:
            place = f"{path}.{name}"
            result.add(Problem(place, f"{place} in body is required", "", "FieldValueRequired"))
    return result


def _enumeration(schema: Schema, value: Any, path: str) -> ValidationResult:
    values = schema.get("enum")
    if not values or is_enumerated(value, values):
        return ValidationResult()
    words = [value if isinstance(value, str) else orjson.dumps(value).decode() for value in values]
    detail = not_supported("", "", words).detail
    return ValidationResult(
        Problem(path, f"{path} in body should be one of {values}", value, "FieldValueNotSupported", detail)
    )


def _junctors(schema: Schema, value: Any, path: str) -> ValidationResult:
    result = ValidationResult()
    if schema.get("anyOf"):
        result.merge(_any_of(schema["anyOf"], value, path))
    if schema.get("oneOf"):
        result.merge(_one_of(schema["oneOf"], value, path))
    if schema.get("allOf"):
        found = [_explain(part, value, path, None) for part in schema["allOf"]]
        for part_result in found:
            result.merge(part_result)
        valid = sum(not part_result.problems for part_result in found)
        if valid < len(found):
            none = "" if valid else ". None validated"
            result.add(Problem(None, f"{quoted(path)} must validate all the schemas (allOf){none}"))
    if schema.get("not") is not None and not _explain(schema["not"], value, path, None).problems:
        result.add(Problem(None, f"{quoted(path)} must not validate the schema (not)"))
    result.matches += 1
    return result


def _any_of(schemas: list[Schema], value: Any, path: str) -> ValidationResult:
    best: ValidationResult | None = None
    for schema in schemas:
        found = _explain(schema, value, path, None)
        if not found.problems:
            return found
        if best is None or found.matches > best.matches:
            best = found
    result = ValidationResult(Problem(None, f"{quoted(path)} must validate at least one schema (anyOf)"))
    if best is not None:
        result.merge(best)
    return result


def _one_of(schemas: list[Schema], value: Any, path: str) -> ValidationResult:
    valid: list[ValidationResult] = []
    best: ValidationResult | None = None
    for schema in schemas:
        found = _explain(schema, value, path, None)
        if not found.problems:
            valid.append(found)
            best = None
        elif not valid and (best is None or found.matches > best.matches):
            best = found
    if len(valid) == 1:
        return valid[0]
    how_many = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    result = ValidationResult(
        Problem(None, f"{quoted(path)} must validate one and only one schema (oneOf). {how_many}")
    )
    if best is not None:
        result.merge(best)
    return result


def _field_error(problem: Problem, under: str) -> FieldError:
    name = (problem.path or "").removeprefix(".")
    field = ".".join(part for part in (under, name) if part) or _NOWHERE
    if problem.path is None:
        field = under or _NOWHERE
    match problem.cause:
        case "FieldValueRequired":
            return required(field)
        case "FieldValueNotSupported" | "FieldValueTooMany" | "FieldValueTooLong":
            return FieldError(problem.cause, field, sorted_keys(problem.value), problem.detail)
        case "FieldValueTypeInvalid":
            return FieldError(problem.cause, field, problem.value, problem.text)
    return invalid(field, sorted_keys(problem.value), problem.text)
