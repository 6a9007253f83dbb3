"""Admission expressions: available variables, and evaluation of conditions that fail.

Source of the expectations: k8s.io/apiserver/pkg/admission/plugin/cel/{compile,condition,composition}_test.go,
webhook/matchconditions/matcher_test.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.cel import types
from kcm.runtime.cel.admission import (
    ANY,
    BOOLEAN,
    CONFIGURATION,
    PATCHES,
    TEXT_OR_NULL,
    Expression,
    FailedError,
    RequestEvaluation,
    SpentError,
    admission_environment,
    conditions_hold,
    names,
)
from kcm.runtime.cel.libraries.authorization import CheckAttributes, DecisionValue

REQUEST = {
    "operation": "CREATE",
    "name": "web",
    "namespace": "shop",
    "requestResource": {"group": "apps", "version": "v1", "resource": "deployments"},
    "userInfo": {"username": "ada", "groups": ["dev"]},
}


def ask(attributes: CheckAttributes) -> DecisionValue:
    """Allow requests that impersonate a service account, and reads of deployments."""
    allowed = attributes.account is not None or (attributes.resource, attributes.verb) == ("deployments", "get")
    return DecisionValue(allowed=allowed, reason="" if allowed else "no role")


def run(variables: dict[str, Expression] | None = None, budget: int = 10_000_000, **more: Any) -> RequestEvaluation:
    seen = names(new={"spec": {"replicas": 3}}, old=None, request=REQUEST, authorize=ask, **more)
    return RequestEvaluation(seen, variables, budget)


def condition(text: str) -> Expression:
    return Expression.compiled(text, admission_environment(params=False, authorizer=True), BOOLEAN)


@pytest.mark.parametrize(
    "text",
    [
        "object.spec.replicas == 3 && oldObject == null",
        "request.operation == 'CREATE' && 'dev' in request.userInfo.groups",
        "namespaceObject.metadata.labels.team == 'a'",
        "authorizer.requestResource.check('get').allowed()",
        "!authorizer.group('').resource('pods').namespace('shop').check('get').allowed()",
        "authorizer.group('').resource('pods').check('get').reason() == 'no role'",
        "authorizer.serviceAccount('shop', 'robot').path('/healthz').check('get').allowed()",
    ],
)
def test_condition_can_use_the_request(text: str) -> None:
    namespace = {"metadata": {"name": "shop", "labels": {"team": "a"}}}
    assert run(namespace=namespace).value(condition(text)) is True


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("object.x", "must evaluate to bool but got dyn"),
        ("'a'", "must evaluate to bool but got string"),
        ("params.x == 1", "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')"),
        ("variables.x == 1", "compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables'"),
        ("request.object == 1", "compilation failed: ERROR: <input>:1:8: undefined field 'object'"),
        ("namespaceObject.metadata.uid == ''", "compilation failed: ERROR: <input>:1:25: undefined field 'uid'"),
    ],
)
def test_invalid_condition_is_rejected(text: str, problem: str) -> None:
    found = condition(text).problem
    assert found is not None
    assert found.startswith(problem)


def test_a_message_may_be_null() -> None:
    environment = admission_environment(params=False, authorizer=False)
    assert Expression.compiled("null", environment, TEXT_OR_NULL).problem is None
    problem = Expression.compiled("1", environment, TEXT_OR_NULL).problem
    assert problem == "must evaluate to one of [string null_type] but got int"


def test_variables_are_evaluated_once_when_first_read() -> None:
    first = Expression.compiled(
        "object.spec.replicas + 1", admission_environment(params=False, authorizer=True, variables={}), ANY
    )
    broken = Expression.compiled(
        "object.nope + 1", admission_environment(params=False, authorizer=True, variables={}), ANY
    )
    known = {"first": types.INT, "broken": types.DYN}
    environment = admission_environment(params=False, authorizer=True, variables=known)
    both = run({"first": first, "broken": broken})
    before = both.budget
    assert both.value(Expression.compiled("variables.first == 4", environment, BOOLEAN)) is True
    once = before - both.budget
    assert both.value(Expression.compiled("variables.first == 4", environment, BOOLEAN)) is True
    assert before - both.budget < 2 * once
    with pytest.raises(FailedError) as failed:
        both.value(Expression.compiled("variables.broken == 1", environment, BOOLEAN))
    assert str(failed.value) == (
        "expression 'variables.broken == 1' resulted in error: composited variable \"broken\" fails to evaluate: "
        "no such key: nope"
    )
    undeclared = Expression.compiled("variables.other == 1", environment, BOOLEAN).problem
    assert undeclared is not None
    assert "undefined field 'other'" in undeclared


@pytest.mark.parametrize(
    ("texts", "hold"),
    [
        ([], True),
        (["true", "true"], True),
        (["true", "false"], False),
        (["object.nope == 1", "false"], False),
        (["object.nope == 1", "true"], None),
    ],
)
def test_conditions_hold_if_all_are_true_and_a_failure_can_be_ignored(texts: list[str], hold: bool | None) -> None:
    conditions = [condition(text) for text in texts]
    if hold is None:
        with pytest.raises(FailedError) as failed:
            conditions_hold(conditions, run(), ignores_failures=False)
        assert str(failed.value) == "expression 'object.nope == 1' resulted in error: no such key: nope"
    else:
        assert conditions_hold(conditions, run(), ignores_failures=False) is hold
    assert conditions_hold(conditions, run(), ignores_failures=True) is (hold or False)


def test_evaluation_fails_when_the_budget_is_spent() -> None:
    small = run(budget=4)
    assert small.value(condition("object.spec.replicas == 3")) is True
    with pytest.raises(SpentError, match="validation failed due to running out of cost budget"):
        small.value(condition("object.spec.replicas == 3"))


def test_mutations_return_objects_and_patches() -> None:
    environment = admission_environment(params=False, authorizer=True, mutates=True)
    made = Expression.compiled(
        "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}", environment, CONFIGURATION
    )
    assert run().value(made) == {"spec": {"replicas": 4}}
    patch = '[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"), value: "x"}]'
    assert run().value(Expression.compiled(patch, environment, PATCHES)) == [
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "x"}
    ]
    wrong = Expression.compiled("[JSONPatch{operation: 'add'}]", environment, PATCHES).problem
    assert wrong is not None
    assert wrong.startswith("compilation failed: ERROR: <input>:1:21: expected type of field 'operation' is ''")
