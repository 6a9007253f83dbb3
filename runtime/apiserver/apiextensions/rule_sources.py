"""Validation of the CEL rules in a schema: they must compile, and their estimated cost must be within the limits.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/{validation,cel_validation}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kcm.runtime.apiserver.apiextensions.schemas import (
    EMBEDDED,
    LIST_TYPE,
    RULES,
    Schema,
    additional_of,
    all_schemas,
    items_of,
    properties_of,
)
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid

if TYPE_CHECKING:
    from kcm.runtime.cel.rules import ValidationRule

MOST_OF_ONE, MOST_OF_ALL = 10_000_000, 100_000_000
_MOST = 2**64 - 1
_NAMED, _COUNTS = 4, MOST_OF_ALL // 100  # number of the most expensive rules that are reported, and their minimum cost
_FIELDS = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
_HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


def validate_rules(schema: Schema, path: str) -> list[FieldError]:
    """Return the errors in the CEL rules of an object's schema. The schema must have no other errors."""
    if not any(inner.get(RULES) for inner in all_schemas(schema)):
        return []
    costs: list[tuple[int, str]] = []
    errors = list(_of_schema(schema, path, 1, None, costs, is_root=True))
    total = min(sum(cost for cost, _ in costs), _MOST)
    if total > MOST_OF_ALL:
        why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        errors += [forbidden(place, why) for cost, place in sorted(costs, reverse=True)[:_NAMED] if cost >= _COUNTS]
        name = f"{RULES} estimated rule cost total for entire OpenAPIv3 schema"
        errors.append(forbidden(path, _too_much(name, total, MOST_OF_ALL)))
    return errors


def _of_schema(
    schema: Schema,
    path: str,
    times: int | None,
    uncorrelated: str | None,
    costs: list[tuple[int, str]],
    *,
    is_root: bool = False,
) -> Iterator[FieldError]:
    """Validate the CEL rules in a part of a schema.

    times: how often an object can contain the part; None if unbounded.
    uncorrelated: the nearest enclosing list whose items cannot be correlated with an old object; None if there is none.
    costs: list to which the estimated cost and path of each rule are added.
    """
    if schema.get(RULES):
        yield from _of_rules(schema, path, times, uncorrelated, costs, is_root=is_root)
    additional, items = additional_of(schema), items_of(schema)
    if additional is not None:
        inside = _product(times, schema.get("maxProperties"))
        yield from _of_schema(additional, f"{path}.additionalProperties", inside, uncorrelated, costs)
    for name, property_ in properties_of(schema).items():
        yield from _of_schema(property_, f"{path}.properties[{name}]", times, uncorrelated, costs)
    if items is not None:
        inside = _product(times, schema.get("maxItems"))
        above = uncorrelated if uncorrelated is not None or schema.get(LIST_TYPE) == "map" else path
        yield from _of_schema(items, f"{path}.items", inside, above, costs)


def _product(times: int | None, most: int | None) -> int | None:
    return None if times is None or most is None else times * max(most, 0)


def _of_rules(
    schema: Schema,
    path: str,
    times: int | None,
    uncorrelated: str | None,
    costs: list[tuple[int, str]],
    *,
    is_root: bool,
) -> Iterator[FieldError]:
    from kcm.runtime.cel.declared import declared
    from kcm.runtime.cel.rules import compile_rules

    kind = declared(schema, root=is_root or bool(schema.get(EMBEDDED)))
    if kind is None:
        why = "internal error: failed to construct type information for x-kubernetes-validations rules"
        reason = "unable to convert structural schema to CEL declarations"
        yield FieldError("InternalError", f"{path}.{RULES}", None, f"{why}: {reason}")
        return
    for i, rule in enumerate(compile_rules(list(schema[RULES]), kind)):
        yield from _of_rule(rule, f"{path}.{RULES}[{i}]", times, uncorrelated, costs)


def _of_rule(
    rule: ValidationRule, here: str, times: int | None, uncorrelated: str | None, costs: list[tuple[int, str]]
) -> Iterator[FieldError]:
    cost = min(rule.most_cost * (rule.most_times if times is None else times), _MOST)
    if cost > MOST_OF_ONE:
        yield forbidden(f"{here}.rule", _too_much("estimated rule cost", cost, MOST_OF_ONE))
    costs.append((cost, f"{here}.rule"))
    if rule.problem is not None:
        yield invalid(f"{here}.rule", _in_go(rule.source), rule.problem)
    if rule.message_problem is not None:
        yield invalid(f"{here}.messageExpression", _in_go(rule.source), rule.message_problem)
    elif rule.message is not None:
        if rule.message_most_cost > MOST_OF_ONE:
            name = "estimated messageExpression cost"
            yield forbidden(f"{here}.messageExpression", _too_much(name, rule.message_most_cost, MOST_OF_ONE))
        costs.append((rule.message_most_cost, f"{here}.messageExpression"))
    if rule.uses_old_self:
        if uncorrelated is not None:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
            yield invalid(f"{here}.rule", rule.expression, detail)
    elif rule.source.get("optionalOldSelf") is not None:
        value = rule.source["optionalOldSelf"]
        yield invalid(f"{here}.optionalOldSelf", value, "may not be set if oldSelf is not used in rule")


def _in_go(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule as upstream's error texts show it, with Go's field names and zero values."""
    zeros = {"reason": None, "optionalOldSelf": None}
    return {f"{name[0].upper()}{name[1:]}": rule.get(name, zeros.get(name, "")) for name in _FIELDS}


def _too_much(name: str, cost: int, most: int) -> str:
    times = cost / most
    factor = "more than 100x" if times > 100 else f"{times:f}x" if times < 1.5 else f"{times:.1f}x"
    return f"{name} exceeds budget by factor of {factor} {_HINT}"
