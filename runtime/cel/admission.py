"""Expressions of admission: match conditions, and a policy's variables, validations, messages and mutations.

    environment = admission_environment(params=True, authorizer=True)
    expression = Expression.compiled(text, environment, BOOLEAN)
    run = RequestEvaluation(names(...), budget=BUDGET)
    value = run.value(expression)                       # raises FailedError, SpentError

Source: k8s.io/apiserver/pkg/admission/plugin/cel/{compile,composition,condition,activation}.go;
webhook/matchconditions/matcher.go (v1.36).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kcm.protocols.errors import aggregate
from kcm.runtime.cel import types
from kcm.runtime.cel.attributes import LazyFields
from kcm.runtime.cel.declarations import Environment
from kcm.runtime.cel.dynamic_structs import DynamicStructs
from kcm.runtime.cel.errors import CompileError, CostExceededError, EvaluationError, ProgramError
from kcm.runtime.cel.frame import LIMIT
from kcm.runtime.cel.language import base_environment, compiled_program, mutation_environment
from kcm.runtime.cel.libraries.authorization import Ask, AuthorizerValue, CheckAttributes, ResourceCheck
from kcm.runtime.cel.program import Program
from kcm.runtime.cel.types import Type
from kcm.runtime.cel.values import Value

BUDGET = 10_000_000  # cost of all expressions of a binding for one request
CONDITIONS_BUDGET = BUDGET // 4
VARIABLES = "kubernetes.variables"
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"

ANY: tuple[Type, ...] = ()
"""In place of the types that an expression may have."""
BOOLEAN, TEXT, TEXT_OR_NULL = (types.BOOL,), (types.STRING,), (types.STRING, types.NULL)
CONFIGURATION, PATCHES = (types.struct("Object"),), (types.list_of(types.struct("JSONPatch")),)

_TEXTS, _LABELS = types.list_of(types.STRING), types.map_of(types.STRING, types.STRING)
_STRUCTS: dict[str, dict[str, Type]] = {
    "kubernetes.GroupVersionKind": dict.fromkeys(("group", "version", "kind"), types.STRING),
    "kubernetes.GroupVersionResource": dict.fromkeys(("group", "version", "resource"), types.STRING),
    "kubernetes.UserInfo": {
        "username": types.STRING,
        "uid": types.STRING,
        "groups": _TEXTS,
        "extra": types.map_of(types.STRING, _TEXTS),
    },
    "kubernetes.AdmissionRequest": {
        "kind": types.struct("kubernetes.GroupVersionKind"),
        "resource": types.struct("kubernetes.GroupVersionResource"),
        "subResource": types.STRING,
        "requestKind": types.struct("kubernetes.GroupVersionKind"),
        "requestResource": types.struct("kubernetes.GroupVersionResource"),
        "requestSubResource": types.STRING,
        "name": types.STRING,
        "namespace": types.STRING,
        "operation": types.STRING,
        "userInfo": types.struct("kubernetes.UserInfo"),
        "dryRun": types.BOOL,
        "options": types.DYN,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _TEXTS},
    "kubernetes.NamespaceCondition": {
        **dict.fromkeys(("status", "type", "message", "reason"), types.STRING),
        "lastTransitionTime": types.TIMESTAMP,
    },
    "kubernetes.NamespaceStatus": {
        "conditions": types.list_of(types.struct("kubernetes.NamespaceCondition")),
        "phase": types.STRING,
    },
    "kubernetes.NamespaceMetadata": {
        **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), types.STRING),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), types.TIMESTAMP),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), types.INT),
        "labels": _LABELS,
        "annotations": _LABELS,
        "finalizers": _TEXTS,
    },
    "kubernetes.Namespace": {
        "metadata": types.struct("kubernetes.NamespaceMetadata"),
        "spec": types.struct("kubernetes.NamespaceSpec"),
        "status": types.struct("kubernetes.NamespaceStatus"),
    },
}


@functools.cache
def _environment(*, params: bool, authorizer: bool, mutates: bool) -> Environment:
    variables: dict[str, Type] = {
        "object": types.DYN,
        "oldObject": types.DYN,
        "namespaceObject": types.struct("kubernetes.Namespace"),
        "request": types.struct("kubernetes.AdmissionRequest"),
    }
    if params:
        variables["params"] = types.DYN
    if authorizer:
        variables["authorizer"] = types.opaque(AuthorizerValue.type_name)
        variables["authorizer.requestResource"] = types.opaque(ResourceCheck.type_name)
    if mutates:
        return mutation_environment().extended(variables, DynamicStructs(_STRUCTS))
    return base_environment().extended(variables, _STRUCTS)


def admission_environment(
    *, params: bool, authorizer: bool, mutates: bool = False, variables: Mapping[str, Type] | None = None
) -> Environment:
    """Return the environment of an expression of a policy or webhook.

    variables: variables of the policy that precede the expression; None if the expression cannot use any.
    mutates: the expression may construct objects and JSON patches.
    """
    environment = _environment(params=params, authorizer=authorizer, mutates=mutates)
    if variables is None:
        return environment
    structs: Mapping[str, Mapping[str, Type]] = {**_STRUCTS, VARIABLES: dict(variables)}
    if mutates:
        structs = DynamicStructs(structs)
    names = {**environment.variables, "variables": types.struct(VARIABLES)}
    return Environment(environment.functions, names, structs, environment.checks, environment.type_names)


class Expression(Struct, frozen=True, kw_only=True):
    """A compiled expression, or the reason why it cannot be used.

    type: type of the result; dyn if it is unknown
    problem: why the expression cannot be used; `program` is unset (None) then
    is_internal: the problem was found after the expression was valid; upstream reports such a problem as internal
    """

    text: str
    program: Program | None
    type: Type
    problem: str | None = None
    is_internal: bool = False

    @staticmethod
    def compiled(text: str, environment: Environment, wanted: Sequence[Type]) -> Expression:
        try:
            program, kind = compiled_program(text, environment)
        except CompileError as error:
            return Expression(text=text, program=None, type=types.DYN, problem=f"compilation failed: {error}")
        except ProgramError as error:
            problem = f"program instantiation failed: {error}"
            return Expression(text=text, program=None, type=types.DYN, problem=problem, is_internal=True)
        if wanted and kind not in wanted:
            words = f"must evaluate to {wanted[0]} but got {_named(kind)}"
            if len(wanted) > 1:
                words = f"must evaluate to one of [{' '.join(map(_named, wanted))}] but got {_named(kind)}"
            return Expression(text=text, program=None, type=types.DYN, problem=words)
        return Expression(text=text, program=program, type=kind)


def _named(kind: Type) -> str:
    return "null_type" if kind == types.NULL else str(kind)


class FailedError(Exception):
    """An expression has no value."""


class SpentError(Exception):
    """The cost budget is exhausted: no further expression is evaluated."""

    def __init__(self) -> None:
        super().__init__(OUT_OF_BUDGET)


class RequestEvaluation:
    """Evaluation of expressions for one request, with their variables and the remaining cost budget."""

    def __init__(
        self, names: Mapping[str, Value], variables: Mapping[str, Expression] | None = None, budget: int = BUDGET
    ):
        self.budget = budget
        self._names = dict(names)
        self._variables = variables or {}
        if variables is not None:
            self._names["variables"] = LazyFields(self._variable)
        self._known: dict[str, Value] = {}

    def value(self, expression: Expression) -> Value:
        """Return the value of an expression. Raises FailedError, SpentError."""
        if expression.program is None:
            raise FailedError(f"compilation error: {expression.problem}")
        try:
            value, cost = expression.program.evaluate(self._names, LIMIT)
        except (EvaluationError, CostExceededError) as error:
            self._charge(error.cost)
            raise FailedError(f"expression '{expression.text}' resulted in error: {error}") from error
        self._charge(cost)
        return value

    def _charge(self, cost: int) -> None:
        if cost > self.budget:
            raise SpentError
        self.budget -= cost

    def _variable(self, name: str) -> Value:
        if name in self._known:
            return self._known[name]
        expression = self._variables.get(name)
        if expression is None:
            raise EvaluationError(f"no such key: {name}")
        if expression.program is None:
            raise EvaluationError(f'composited variable "{name}" fails to compile: {expression.problem}')
        try:
            value, cost = expression.program.evaluate(self._names, LIMIT)
        except (EvaluationError, CostExceededError) as error:
            self._charge(error.cost)
            raise EvaluationError(f'composited variable "{name}" fails to evaluate: {error}') from error
        self._charge(cost)
        self._known[name] = value
        return value


def conditions_hold(conditions: Sequence[Expression], run: RequestEvaluation, *, ignores_failures: bool) -> bool:
    """Report whether all match conditions of a webhook or policy are true.

    If one is false, errors of others are ignored.

    Raises FailedError if a condition fails and none is false. With `ignores_failures` the result is False instead.
    """
    failures: list[str] = []
    for condition in conditions:
        try:
            if run.value(condition) is False:
                return False
        except FailedError as error:
            failures.append(str(error))
        except SpentError as error:
            failures = [str(error)]
            break
    if not failures:
        return True
    if ignores_failures:
        return False
    raise FailedError(aggregate(failures))


def names(
    *,
    new: Any,
    old: Any,
    request: Mapping[str, Any],
    namespace: Mapping[str, Any] | None = None,
    params: Any = None,
    authorize: Ask | None = None,
) -> dict[str, Value]:
    """Return the variables of an expression.

    request: an AdmissionRequest without its objects
    authorize: authorization for the variable `authorizer`; None omits that variable
    """
    seen: dict[str, Value] = {
        "object": new,
        "oldObject": old,
        "request": request,
        "namespaceObject": namespace,
        "params": params,
    }
    if authorize is not None:
        resource = request["requestResource"]
        attributes = CheckAttributes(
            group=resource["group"],
            resource=resource["resource"],
            subresource=request.get("requestSubResource", ""),
            namespace=request.get("namespace", ""),
            name=request.get("name", ""),
        )
        seen["authorizer"] = AuthorizerValue(authorize)
        seen["authorizer.requestResource"] = ResourceCheck(authorize, attributes)
    return seen
