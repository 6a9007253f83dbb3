"""Costs, with the expectations of upstream's tables.

Source: apiextensions-apiserver pkg/apiserver/schema/cel/compilation_test.go (TestCostEstimation);
k8s.io/apiserver/pkg/cel/library/cost_test.go. Constants are evaluated once here, as Kubernetes does at run time; those
tables charge for them at each evaluation.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.cel import types
from kcm.runtime.cel.declared import declared
from kcm.runtime.cel.language import base_environment, checked, compiled_program, cost_range
from kcm.runtime.cel.libraries.authorization import AuthorizerValue, CheckAttributes, DecisionValue
from kcm.runtime.cel.rules import compile_rules


def of(kind: str) -> dict[str, Any]:
    if kind == "int-or-string":
        return {"x-kubernetes-int-or-string": True}
    return {"type": "string", "format": kind} if kind in ("duration", "date", "date-time") else {"type": kind}


def list_of(kind: str, most: int | None = None) -> dict[str, Any]:
    return {"type": "array", "items": of(kind)} | ({} if most is None else {"maxItems": most})


def map_of(kind: str, most: int | None = None) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": of(kind)} | ({} if most is None else {"maxProperties": most})


def text(most: int | None = None) -> dict[str, Any]:
    return {"type": "string"} | ({} if most is None else {"maxLength": most})


@pytest.mark.parametrize(
    ("schema", "rule", "most"),
    [
        (list_of("number"), "self.all(x, true)", 4718591),
        (list_of("number", 10), "self.all(x, true)", 32),
        (list_of("string"), "self.all(x, true)", 3145727),
        (list_of("boolean"), "self.all(x, true)", 1887437),
        (list_of("number", 10), "self.all(x, self.all(y, true))", 352),
        (list_of("number", 10), "self.all(x, self.all(y, self.all(z, true)))", 3552),
        (list_of("number"), "self.all(x, x == 0.0)", 6291454),
        (list_of("number"), "self[1] == 0.0", 2),
        (list_of("string"), "self[1] == self[1]", 314577),
        (list_of("int-or-string"), "self.all(x, true)", 4718591),
        (list_of("int-or-string"), "self[0] == 5", 3),
        (list_of("duration"), "self.all(x, true)", 2359295),
        (list_of("duration"), "self[0].getHours() == 2", 4),
        (list_of("date"), "self.all(x, true)", 725936),
        (list_of("date-time"), "self.all(x, true)", 428963),
        (map_of("number"), "self.all(x, true)", 1348169),
        (map_of("string", 3), "self.all(x, true)", 11),
        (map_of("date-time"), "self.all(x, true)", 349526),
        (text(), "self.contains('test')", 314574),
        (text(10), "self.contains('test')", 5),
        (text(), "self.startsWith('test')", 2),
        (text(), 'size(self + "hello") > size("hello")', 314578),
        (text(4), 'size(self + "hello") > size("hello")', 7),
        (text(), 'self.matches("x")', 314574),
        (text(50), 'self.matches("x")', 22),
        (text(), '"".matches("(((((((((())))))))))[0-9]")', 7),
        (text(), 'self == "x"', 2),
        (text(0), 'self == "x"', 1),
    ],
)
def test_estimated_maximum_cost_of_a_rule(schema: dict[str, Any], rule: str, most: int) -> None:
    kind = declared(schema, root=False)
    assert kind is not None
    assert compile_rules([{"rule": rule}], kind)[0].most_cost == most


@pytest.mark.parametrize(
    ("expression", "least", "most", "actual"),
    [
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii()", 3, 3, 3),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()", 7, 9, 9),
        ("strings.quote('ABCDEFGHIJ abcdefghij')", 3, 3, 3),
        ("'abc 123 def 123'.replace('123', '456')", 3, 3, 3),
        ("'abc 123 def 123'.split(' ')", 3, 3, 3),
        ("'abc 123 def 123'.substring(5)", 2, 2, 2),
        ("'abc 123 def 123'.find('123')", 2, 2, 2),
        ("quantity('200M') == quantity('0.2G')", 3, 3, 3),
        ("quantity('50k').add(20).sub(quantity('100k')).sub(-50000).asInteger() > 0", 7, 7, 7),
        ("semver('1.0.0').compareTo(semver('1.2.3'))", 3, 3, 3),
        ("authorizer.path('/healthz')", 2, 2, 2),
        ("authorizer.group('apps').resource('deployments').namespace('test').name('b')", 5, 5, 5),
        ("authorizer.path('/healthz').check('get').allowed()", 350003, 350003, 350003),
        ("format.named('dns1123Subdomain').value().validate('my-name')", 34, 34, 17),
        ("{'a': 1, 'b': 2}.all(k, v, v > 0)", 37, 41, 11),
        ("{'a': 1, 'b': 2}.exists(k, v, v > 0)", 39, 43, 10),
        ("{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})", 131, 131, 71),
        ("[1, 2].existsOne(i, v, v > 0)", 18, 20, 10),
        ("[1, 2].transformList(i, v, v < 5, v + 1)", 27, 53, 33),
        ("sets.contains([1, 2, 3, 4], [2, 3])", 29, 29, 9),
        ("sets.equivalent([1, 2, 3], [3, 2, 1])", 39, 39, 19),
        ("has(labels.app) && labels.app in ['a', 'b']", 1, 15, 3),
        ("labels['app'] == 'a' && labels[?'nope'].orValue('') == ''", 3, 6, 4),
        ("(labels.size() > 1 ? labels : {'app': 'b'}).app == 'a'", 6, 35, 5),
    ],
)
def test_estimated_and_actual_cost_of_an_expression(expression: str, least: int, most: int, actual: int) -> None:
    def allow(_attributes: CheckAttributes) -> DecisionValue:
        return DecisionValue(allowed=True)

    authorizer = AuthorizerValue(allow)
    kind = types.opaque(authorizer.type_name)
    labels = types.map_of(types.STRING, types.STRING)
    environment = base_environment().extended({"authorizer": kind, "labels": labels}, {})
    tree, _kind = checked(expression, environment)
    estimate = cost_range(tree, lambda _path: None)
    assert (estimate.least, estimate.most) == (least, most)
    assert (
        compiled_program(expression, environment)[0].evaluate({"authorizer": authorizer, "labels": {"app": "a"}})[1]
        == actual
    )
