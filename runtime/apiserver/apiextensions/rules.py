"""Evaluation of the CEL rules of a schema (x-kubernetes-validations) on an object.

The rules of a node of the schema are compiled when an object first contains the node.

Source: apiextensions-apiserver pkg/apiserver/schema/cel/validation.go, pkg/registry/customresource/strategy.go
(hasBlockingErr; v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kcm.runtime.apiserver.apiextensions.correlation import Pair
from kcm.runtime.apiserver.apiextensions.field_paths import field_at
from kcm.runtime.apiserver.apiextensions.schemas import (
    EMBEDDED,
    RULES,
    Schema,
    additional_of,
    items_of,
    properties_of,
)
from kcm.runtime.apiserver.errors.field_errors import (
    OMITTED,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    quoted,
    required,
)
from kcm.runtime.apiserver.errors.status_errors import MOST_CAUSES

if TYPE_CHECKING:
    from kcm.runtime.cel.declared import Reader
    from kcm.runtime.cel.rules import ValidationRule

BUDGET = 10_000_000  # cost limit for all rules of an object
LONGEST_MESSAGE = 5 * 1024  # bytes
_NOWHERE = "<nil>"
_BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class OutOfBudgetError(Exception):
    """The cost budget is exceeded, and no further rule is evaluated. The argument is the error to report."""


class Correlation(NamedTuple):
    """Correlation of a node of an object with the old object.

    pair: new and old value of the node; None if it has no counterpart.
    above: new and old value of the nearest ancestor that has a counterpart.
    """

    pair: Pair | None = None
    above: Pair | None = None

    @property
    def same(self) -> bool:
        found = self.above if self.pair is None else self.pair
        return found is not None and found.same

    def at_key(self, name: str) -> Correlation:
        if self.pair is None:
            return self
        if self.above is None and name in ("apiVersion", "kind"):
            return Correlation()
        return Correlation(self.pair.at_key(name), self.pair)

    def at_index(self, index: int) -> Correlation:
        return self if self.pair is None else Correlation(self.pair.at_index(index), self.pair)


def rule_node(schema: Schema, *, is_root: bool = False) -> RuleNode | None:
    """Compile the tree of schema nodes that contain rules; None if no node does.

    is_root: whether the schema is that of a whole object.
    """
    properties, additional, items = properties_of(schema), additional_of(schema), items_of(schema)
    fields = {name: node for name, property_ in properties.items() if (node := rule_node(property_)) is not None}
    of_other = None if additional is None else rule_node(additional)
    of_items = None if items is None else rule_node(items)
    if not schema.get(RULES) and not fields and of_other is None and of_items is None:
        return None
    return RuleNode(schema, fields, of_other, of_items, is_root=is_root)


class RuleNode:
    def __init__(
        self,
        schema: Schema,
        fields: dict[str, RuleNode],
        of_other: RuleNode | None,
        of_items: RuleNode | None,
        *,
        is_root: bool,
    ) -> None:
        self._schema, self._fields, self._of_other, self._of_items = schema, fields, of_other, of_items
        self._is_root = is_root or bool(schema.get(EMBEDDED))
        self._compiled: tuple[Sequence[ValidationRule], Reader | None] | None = None

    def problems(self, obj: Any, old: Any, found: Sequence[FieldError]) -> list[FieldError]:
        """Return the errors of all rules for an object.

        old: the object before an update; None for a creation.
        found: errors that validation by the schema found; some types of them prevent the evaluation of rules.
        """
        if any(error.type in _BLOCKING for error in found):
            return [invalid(_NOWHERE, None, _UNCHECKED)]
        change = Correlation() if old is None else Correlation(Pair(obj, old, self._schema))
        errors: list[FieldError] = []
        try:
            errors.extend(islice(self._walk(obj, old, "", change, _Budget()), MOST_CAUSES + 1))
        except OutOfBudgetError as err:
            errors.append(err.args[0])
        return errors

    def _walk(self, value: Any, old: Any, path: str, change: Correlation, budget: _Budget) -> Iterator[FieldError]:
        if value is None:
            return
        if self._schema.get(RULES):
            yield from self._of_rules(value, old, path, change, budget)
        if type(value) is list and self._of_items is not None:
            for i, item in enumerate(value):
                pair = None if not isinstance(old, list) else Pair(value, old, self._schema).at_index(i)
                former = None if pair is None else pair.old
                yield from self._of_items._walk(item, former, f"{path}[{i}]", change.at_index(i), budget)
        elif type(value) is dict:
            known = old if isinstance(old, dict) else {}
            properties = properties_of(self._schema)
            for name, item in value.items():
                if name in self._fields:
                    place = f"{path}.{name}" if path else name
                    yield from self._fields[name]._walk(item, known.get(name), place, change.at_key(name), budget)
                elif self._of_other is not None and name not in properties:
                    yield from self._of_other._walk(
                        item, known.get(name), f"{path}[{name}]", change.at_key(name), budget
                    )

    def _compile(self) -> tuple[Sequence[ValidationRule], Reader | None]:
        if self._compiled is None:
            from kcm.runtime.cel.declared import declared, reader
            from kcm.runtime.cel.rules import compile_rules

            kind = declared(self._schema, root=self._is_root)
            rules = [] if kind is None else compile_rules(list(self._schema[RULES]), kind)
            self._compiled = rules, reader(self._schema, root=self._is_root)
        return self._compiled

    def _of_rules(self, value: Any, old: Any, path: str, change: Correlation, budget: _Budget) -> Iterator[FieldError]:
        from kcm.runtime.cel.rules import ABSENT

        rules, read = self._compile()
        here, type_ = path or _NOWHERE, self._schema.get("type") or ""
        if budget.left <= 0:
            raise OutOfBudgetError(invalid(here, type_, _OUT_OF_BUDGET))
        now = value if read is None else read(value)
        then = ABSENT if old is None else old if read is None else read(old)
        for rule in rules:
            if rule.problem is not None:
                yield invalid(here, type_, f"rule compile error: {rule.problem}")
            elif rule.program is not None and not (rule.uses_old_self and old is None and not rule.optional_old_self):
                error = self._of_rule(rule, value, rule.variables(now, then), here, budget)
                if error is not None and (rule.uses_old_self or not change.same or not error.ratcheted):
                    yield error.error

    def _of_rule(
        self, rule: ValidationRule, value: Any, variables: dict[str, Any], here: str, budget: _Budget
    ) -> _Found | None:
        from kcm.runtime.cel.errors import CostExceededError, EvaluationError

        assert rule.program is not None
        type_, text = self._schema.get("type") or "", _text(rule)
        try:
            result, cost = rule.program.evaluate(variables)
        except CostExceededError as err:
            why = f"'{err}': no further validation rules will be run due to call cost exceeds limit for rule: {text}"
            raise OutOfBudgetError(invalid(here, type_, why)) from err
        except EvaluationError as err:
            self._pay(budget, err.cost, here)
            if str(err).startswith("no such overload"):
                why = (
                    f"'{err}': call arguments did not match a supported operator, function or macro signature for rule"
                )
                return _Found(invalid(here, type_, f"{why}: {text}"), ratcheted=False)
            return _Found(invalid(here, type_, f"{err} evaluating rule: {text}"), ratcheted=False)
        self._pay(budget, cost, here)
        if result is True:
            return None
        place = here
        if rule.source.get("fieldPath"):
            field, _ = field_at(rule.source["fieldPath"], self._schema)
            place = f"{here}.{field}" if here != _NOWHERE else field
        detail = self._message(rule, variables, place, budget)
        shown = OMITTED if type_ in ("object", "array") else value
        return _Found(_for_reason(rule.source.get("reason"), place, shown, detail), ratcheted=True)

    def _pay(self, budget: _Budget, cost: int, here: str) -> None:
        if cost > budget.left:
            raise OutOfBudgetError(invalid(here, self._schema.get("type") or "", _OUT_OF_BUDGET))
        budget.left -= cost

    def _message(self, rule: ValidationRule, variables: dict[str, Any], place: str, budget: _Budget) -> str:
        from kcm.runtime.cel.errors import CostExceededError, EvaluationError

        message = (rule.source.get("message") or "").strip()
        default = message or f"failed rule: {_text(rule)}"
        if rule.message is None:
            return default
        type_, source = self._schema.get("type") or "", quoted(rule.source["messageExpression"])
        try:
            made, cost = rule.message.evaluate(variables)
        except CostExceededError as err:
            why = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            raise OutOfBudgetError(invalid(place, type_, f"{why}: {source}")) from err
        except EvaluationError as err:
            budget.left -= err.cost
            return default
        if cost > budget.left:
            why = "messageExpression evaluation failed due to running out of cost budget"
            raise OutOfBudgetError(invalid(place, type_, f"{why}, no further validation rules will be run"))
        budget.left -= cost
        text = made.strip() if isinstance(made, str) else ""
        return default if not text or "\n" in text or len(text.encode()) > LONGEST_MESSAGE else text


class _Budget:
    def __init__(self) -> None:
        self.left = BUDGET


class _Found(NamedTuple):
    """Violation of a rule. If ratcheted is true, it is ignored for an unchanged value."""

    error: FieldError
    ratcheted: bool


def _text(rule: ValidationRule) -> str:
    return (rule.source.get("message") or rule.expression).strip()


def _for_reason(reason: str | None, field: str, value: Any, detail: str) -> FieldError:
    match reason:
        case "FieldValueForbidden":
            return forbidden(field, detail)
        case "FieldValueRequired":
            return required(field, detail)
        case "FieldValueDuplicate":
            return duplicate(field, value)
    return invalid(field, value, detail)
