"""Validation rules of schemas (x-kubernetes-validations), compiled per schema node against the node's type.

Source: apiextensions-apiserver pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from kcm.runtime.cel import types
from kcm.runtime.cel.costs import Range
from kcm.runtime.cel.declarations import Environment
from kcm.runtime.cel.declared import LARGEST_REQUEST, Declared
from kcm.runtime.cel.errors import CompileError, CostExceededError, EvaluationError, ProgramError
from kcm.runtime.cel.language import base_environment, checked, cost_range
from kcm.runtime.cel.program import Program
from kcm.runtime.cel.types import BOOL, STRING, Type
from kcm.runtime.cel.values import NOTHING, Optional, Value

SELF, OLD_SELF = "self", "oldSelf"
ABSENT: Any = object()
"""In place of an old value, where there is none."""


class ValidationRule(Struct, frozen=True, kw_only=True):
    """A compiled validation rule of a schema.

    source: the rule in the schema
    problem, message_problem: why the rule, or its messageExpression, cannot be used
    most_cost, message_most_cost: maximum cost of one evaluation
    most_times: maximum number of evaluations for one object, if the rule is below an unbounded list or map
    """

    source: dict[str, Any]
    program: Program | None = None
    problem: str | None = None
    message: Program | None = None
    message_problem: str | None = None
    most_cost: int = 0
    message_most_cost: int = 0
    most_times: int = 0

    @property
    def expression(self) -> str:
        return str(self.source.get("rule", ""))

    @property
    def uses_old_self(self) -> bool:
        return self.program is not None and OLD_SELF in self.program.references

    @property
    def optional_old_self(self) -> bool:
        return bool(self.source.get("optionalOldSelf"))

    def variables(self, value: Value, old: Value) -> dict[str, Value]:
        """Return the rule's variables. old: the former value, or ABSENT."""
        if self.optional_old_self:
            return {SELF: value, OLD_SELF: NOTHING if old is ABSENT else Optional(True, old)}
        return {SELF: value} if old is ABSENT else {SELF: value, OLD_SELF: old}

    def evaluate(self, value: Value, old: Value = ABSENT) -> bool | EvaluationError | CostExceededError:
        """Report whether a value meets the rule, or return the error. Only for a rule without a problem."""
        assert self.program is not None
        try:
            return self.program.evaluate(self.variables(value, old))[0] is True
        except (EvaluationError, CostExceededError) as error:
            return error


def compile_rules(rules: list[dict[str, Any]], kind: Declared) -> list[ValidationRule]:
    """Compile the rules of one node of a schema. kind: the node's declaration."""
    structs = kind.structs()
    return [_compiled(rule, kind, structs) for rule in rules]


def _compiled(rule: dict[str, Any], kind: Declared, structs: dict[str, dict[str, Type]]) -> ValidationRule:
    if not str(rule.get("rule", "")).strip():
        return ValidationRule(source=rule)
    old = types.optional_of(kind.type) if rule.get("optionalOldSelf") else kind.type
    environment = base_environment().extended({SELF: kind.type, OLD_SELF: old}, structs)
    program, cost, problem = _expression(rule["rule"], environment, kind, BOOL)
    if problem is not None:
        return ValidationRule(
            source=rule, problem="cel expression must evaluate to a bool" if problem is MISTYPED else problem
        )
    message, message_cost, message_problem = None, 0, None
    if rule.get("messageExpression"):
        message, message_cost, message_problem = _expression(rule["messageExpression"], environment, kind, STRING)
        if message_problem is not None:
            words = (
                "must evaluate to a string" if message_problem is MISTYPED else message_problem.removeprefix("program ")
            )
            message_problem = f"messageExpression {words}"
    return ValidationRule(
        source=rule, program=program, most_cost=cost, message=message, message_most_cost=message_cost,
        message_problem=message_problem, most_times=LARGEST_REQUEST // (kind.smallest + 1),
    )  # fmt: skip


MISTYPED = "mistyped"


def _expression(
    text: str, environment: Environment, kind: Declared, wanted: Type
) -> tuple[Program | None, int, str | None]:
    """Return the program, its maximum cost, and the problem of an expression that cannot be used."""
    try:
        tree, result = checked(text, environment)
    except CompileError as error:
        return None, 0, f"compilation failed: {error}"
    if result != wanted:
        return None, 0, MISTYPED
    try:
        program = Program(tree, environment)
    except ProgramError as error:
        return None, 0, f"program instantiation failed: {error}"
    cost: Range = cost_range(tree, kind.size_of)
    return program, cost.most, None
