"""Validation of the CEL expressions in admission policies and webhook configurations.

The CEL modules are imported inside the functions, so a server without such objects does not load them.

Source: kubernetes pkg/apis/admissionregistration/validation/validation.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, required
from kcm.runtime.apiserver.rules.names import label_key

if TYPE_CHECKING:
    from kcm.runtime.cel.admission import Expression
    from kcm.runtime.cel.declarations import Environment
    from kcm.runtime.cel.types import Type

MOST_CONDITIONS = 64


def match_conditions_errors(
    conditions: Sequence[Mapping[str, Any]], path: str, *, params: bool = False
) -> Iterator[FieldError]:
    """Validate matchConditions: names, number and expressions.

    params: whether the expressions may use the variable `params`
    """
    if len(conditions) > MOST_CONDITIONS:
        detail = f"must have at most {MOST_CONDITIONS} items"
        yield FieldError("FieldValueTooMany", path, len(conditions), detail)
    names: set[str] = set()
    for place, condition in enumerate(conditions):
        at, expression, name = f"{path}[{place}]", (condition.get("expression") or "").strip(), condition.get("name")
        if not expression:
            yield required(f"{at}.expression")
        else:
            from kcm.runtime.cel.admission import BOOLEAN, admission_environment

            environment = admission_environment(params=params, authorizer=True)
            yield from expression_errors(expression, environment, BOOLEAN, f"{at}.expression")
        if not name:
            yield required(f"{at}.name")
            continue
        yield from (invalid(f"{at}.name", name, text) for text in label_key(name))
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)


def expression_errors(
    text: str, environment: Environment, wanted: Sequence[Type], path: str, shown: str | None = None
) -> Iterator[FieldError]:
    """Validate a CEL expression.

    environment: declares the variables that the expression may use
    wanted: permitted result types
    shown: value of the field in errors; None for the expression itself
    """
    from kcm.runtime.cel.admission import Expression

    compiled = Expression.compiled(text, environment, wanted)
    yield from _problem(compiled, path, text if shown is None else shown)


def _problem(compiled: Expression, path: str, shown: str) -> Iterator[FieldError]:
    if compiled.problem is None:
        return
    if compiled.is_internal:
        yield FieldError("InternalError", path, None, compiled.problem)
    else:
        yield invalid(path, shown, compiled.problem)


def variables_errors(
    variables: Sequence[Mapping[str, Any]], *, params: bool, types: dict[str, Type]
) -> Iterator[FieldError]:
    """Validate spec.variables of a policy.

    params: whether the expressions may use the variable `params`
    types: result types of the variables by name; this function adds them, as later expressions may use the variables
    """
    from kcm.runtime.cel.admission import ANY, Expression, admission_environment
    from kcm.runtime.cel.identifiers import RESERVED
    from kcm.runtime.cel.policy_types import composed_type

    for place, variable in enumerate(variables):
        at, name, text = f"spec.variables[{place}]", variable.get("name") or "", variable.get("expression") or ""
        if not name.strip():
            yield required(f"{at}.name", "name is not specified")
        elif re.fullmatch(r"[_a-zA-Z][_a-zA-Z0-9]*", name) is None or name in RESERVED:
            yield invalid(f"{at}.name", name, "must be a valid CEL identifier")
        if not text.strip():
            yield required(f"{at}.expression", "expression is not specified")
            continue
        environment = admission_environment(params=params, authorizer=True, variables=types)
        compiled = Expression.compiled(text, environment, ANY)
        types[name] = composed_type(compiled.type)
        yield from _problem(compiled, f"{at}.expression", text)
