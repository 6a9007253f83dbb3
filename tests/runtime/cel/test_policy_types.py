"""Type checks of policies: upstream's cases, references between schemas, and variables.

Cases: kubernetes v1.36 apiserver pkg/admission/plugin/policy/validating/typechecking_test.go (TestTypeCheck),
pkg/cel/openapi/resolver/refs_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.cel import types
from kcm.runtime.cel.declared import declared
from kcm.runtime.cel.policy_types import (
    CheckedKind,
    DeclaredKind,
    composed_type,
    declared_kind,
    expression_warnings,
)
from kcm.runtime.cel.types import Type

DEPLOYMENT = CheckedKind("apps", "v1", "Deployment")
TEXT, NUMBER = {"type": "string"}, {"type": "integer", "format": "int64"}


def of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def policy(*expressions: str, message: str = "", params: bool = False, **variables: str) -> dict[str, Any]:
    validations = [{"expression": text} for text in expressions]
    if message:
        validations[0]["messageExpression"] = message
    spec = {
        "validations": validations,
        "variables": [{"name": name, "expression": text} for name, text in variables.items()],
    }
    return {**spec, "paramKind": {"apiVersion": "v1", "kind": "Params"}} if params else spec


FOO = "object.foo == 'bar'"
OPEN = {"type": "object", "additionalProperties": True}
REPRODUCER = of(spec=of(text=TEXT), status=of(problematicProperty=OPEN))
CASES = {
    "empty": (of(), {}, {}),
    "passed check": (of(foo=TEXT), policy(FOO), {}),
    "undefined field": (of(bar=TEXT), policy(FOO), {"[0].expression": "undefined field 'foo'"}),
    "field type mismatch": (of(foo=NUMBER), policy(FOO), {"[0].expression": "found no matching overload"}),
    "params": (
        of(foo=TEXT),
        policy("object.foo == params.bar", params=True),
        {"[0].expression": "undefined field 'bar'"},
    ),
    "params with untyped schema": ({}, policy("params != null", params=True), {}),
    "multiple expressions": (
        of(foo=TEXT),
        policy(FOO, "object.bar == 'foo'"),
        {"[1].expression": "undefined field 'bar'"},
    ),
    "message expressions": (
        of(foo=TEXT),
        policy(FOO, message="object.foo + 114514"),
        {"[0].messageExpression": "found no matching overload for '_+_' applied to '(string, int)'"},
    ),
    "authorizer": (of(foo=TEXT), policy("authorizer.group('').resource('endpoints').check('create').allowed()"), {}),
    "authorizer invalid": (
        of(foo=TEXT),
        policy("authorizer.allowed()"),
        {
            "[0].expression": (
                "found no matching overload for 'allowed' applied to 'kubernetes.authorization.Authorizer"
            )
        },
    ),
    "additionalProperties: true": (REPRODUCER, policy("has(object.spec.text)"), {}),
    "schema without type": ({}, policy("true"), {}),
    "variables valid": (of(foo=NUMBER), policy("variables.works", works="true"), {}),
    "variables missing field": (
        of(foo=NUMBER),
        policy("variables.nonExisting", works="true"),
        {"[0].expression": "undefined field 'nonExisting'"},
    ),
    "variables field wrong type": (
        of(foo=NUMBER),
        policy("variables.name == object.foo", name="'something'"),
        {"[0].expression": "found no matching overload for '_==_' applied to '(string, int)'"},
    ),
    "error in variables is not reported": (
        of(foo=NUMBER),
        policy("variables.name == object.foo", name="object.foo == 'str'"),
        {},
    ),
    "a variable with a struct is dynamic": (
        of(spec=of(a=TEXT)),
        policy("variables.spec.b == 1", spec="object.spec"),
        {},
    ),
    "variables may use earlier ones only": (
        of(),
        policy("variables.first == 1", first="variables.second", second="1"),
        {},
    ),
    "requestResource is not declared, as upstream": (
        of(),
        policy("authorizer.requestResource.check('get').allowed()"),
        {"[0].expression": "unexpected failed resolution of 'kubernetes.authorization.Authorizer'"},
    ),
    "request and namespaceObject": (
        of(),
        policy("request.operation == 'CREATE' && namespaceObject.metadata.name == 'a'", "request.opration == 'A'"),
        {"[1].expression": "undefined field 'opration'"},
    ),
    "without params the variable is not declared": (
        of(),
        policy("params.a == 1"),
        {"[0].expression": "undeclared reference to 'params' (in container '')"},
    ),
    "invalid syntax": (of(), policy("object."), {"[0].expression": "Syntax error"}),
}


@pytest.mark.parametrize(("schema", "spec", "warnings"), CASES.values(), ids=CASES.keys())
def test_expressions_are_checked_against_the_schema(
    schema: dict[str, Any], spec: dict[str, Any], warnings: dict[str, str]
) -> None:
    declaration = declared(schema, root=True, name="Deployment0")
    kinds = [DeclaredKind(DEPLOYMENT, declaration)]
    found = expression_warnings(spec, kinds, declaration, has_params="paramKind" in spec)
    assert [warning.field_ref for warning in found] == [f"spec.validations{place}" for place in warnings]
    for warning, part in zip(found, warnings.values(), strict=True):
        assert part in warning.warning


def test_warning_has_a_paragraph_for_each_kind() -> None:
    kinds = [
        DeclaredKind(CheckedKind("", "v1", "Pod"), declared(of(foo=NUMBER), root=True, name="Pod0")),
        DeclaredKind(CheckedKind("a.io", "v1", "Fine"), declared(of(foo=TEXT), root=True, name="Fine1")),
        DeclaredKind(DEPLOYMENT, declared(of(), root=True, name="Deployment2")),
    ]
    [warning] = expression_warnings(policy(FOO), kinds, has_params=False)
    assert warning.warning == (
        "/v1, Kind=Pod: ERROR: <input>:1:12: found no matching overload for '_==_' applied to '(int, string)'\n"
        " | object.foo == 'bar'\n"
        " | ...........^\n"
        "\n"
        "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'foo'\n"
        " | object.foo == 'bar'\n"
        " | ......^\n"
    )


def test_no_kind_means_no_warning() -> None:
    assert expression_warnings(policy("object."), [], has_params=False) == []


def reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def document(**schemas: Any) -> dict[str, Any]:
    kind = [{"group": "apps", "version": "v1", "kind": "Deployment"}]
    schemas["whole"] = {**schemas["whole"], "x-kubernetes-group-version-kind": kind}
    return {"components": {"schemas": schemas}}


def test_references_are_resolved() -> None:
    wrapped = {"description": "", "allOf": [reference("part")], "default": {}}
    whole = of(
        plain=reference("part"),
        wrapped=wrapped,
        listed={"type": "array", "items": reference("part")},
        mapped={"type": "object", "additionalProperties": reference("part")},
        port={"format": "int-or-string", "oneOf": [{"type": "integer"}, TEXT]},
        amount={"oneOf": [TEXT, {"type": "number"}]},
    )
    found = declared_kind(document(whole=whole, part=of(a=NUMBER)), DEPLOYMENT, "Deployment0")
    assert found is not None
    texts = {
        "plain": "object.plain.a > 'x'",
        "wrapped": "object.wrapped.a > 'x'",
        "listed": "object.listed[0].a > 'x'",
        "mapped": "object.mapped['b'].a > 'x'",
    }
    warnings = expression_warnings(policy(*texts.values()), [found], has_params=False)
    assert all("applied to '(int, string)'" in warning.warning for warning in warnings)
    assert len(warnings) == len(texts)
    [unseen] = expression_warnings(policy("object.port == 'http'", "object.amount == '1'"), [found], has_params=False)
    assert unseen.field_ref == "spec.validations[1].expression", "a quantity has no type, and is not exposed"


def test_recursive_schema_ends_in_an_object() -> None:
    whole = of(name=TEXT, inner=reference("whole"))
    found = declared_kind(document(whole=whole), DEPLOYMENT, "Deployment0")
    assert found is not None
    [warning] = expression_warnings(policy("object.inner.name == 'a'", "has(object.inner)"), [found], has_params=False)
    assert "undefined field 'name'" in warning.warning


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"components": {"schemas": {"other": of()}}},
        document(whole=of(a=reference("missing"))),
    ],
)
def test_kind_without_a_complete_schema_is_not_found(given: dict[str, Any]) -> None:
    assert declared_kind(given, DEPLOYMENT, "Deployment0") is None


@pytest.mark.parametrize(
    ("kind", "composed"),
    [
        (types.INT, types.INT),
        (types.NULL, types.NULL),
        (types.struct("Deployment0.spec"), types.DYN),
        (types.list_of(types.struct("Deployment0.spec")), types.list_of(types.DYN)),
        (types.map_of(types.STRING, types.list_of(types.INT)), types.map_of(types.STRING, types.list_of(types.INT))),
        (types.opaque("kubernetes.Quantity"), types.DYN),
        (types.optional_of(types.INT), types.DYN),
        (types.type_of(types.INT), types.DYN),
    ],
)
def test_variable_keeps_simple_types_only(kind: Type, composed: Type) -> None:
    assert composed_type(kind) == composed
