"""CEL rules in schemas (x-kubernetes-validations): validation of the rules, and of custom objects by them.

Source of the expected values: apiextensions-apiserver pkg/apiserver/schema/cel/validation_test.go,
pkg/apis/apiextensions/validation/validation_test.go (v1.36).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcm.runtime.apiserver.apiextensions.objects import ObjectSchema
from kcm.runtime.apiserver.apiextensions.openapi_rules import leniency
from kcm.runtime.apiserver.apiextensions.versions import validate_alike

PATH = "spec.validation.openAPIV3Schema"
AT = f"{PATH}.properties[spec].x-kubernetes-validations[0]"
INTEGER, STRING = {"type": "integer"}, {"type": "string"}


def crd(properties: dict[str, Any], *rules: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
    written = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": written} | more
    return {"type": "object", "properties": {"spec": spec}}


ABSENT: Any = object()


def shown(schema: dict[str, Any], spec: Any, old: Any = ABSENT) -> list[str]:
    rules, new = ObjectSchema(schema), {"spec": spec}
    errors = rules.validate(new) if old is ABSENT else rules.validate_update(new, {"spec": old})
    return [str(error) for error in errors]


def refused(schema: dict[str, Any]) -> list[str]:
    """Return the errors of a CustomResourceDefinition with this schema."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return [str(error) for error in validate_alike([version], leniency([]))]


def written(rule: str, message: str = "") -> str:
    """Return a CEL rule as error texts show it."""
    fields = {"Rule": rule, "Message": "", "MessageExpression": message, "Reason": None, "FieldPath": ""}
    return json.dumps(fields | {"OptionalOldSelf": None}, separators=(",", ":"))


SIGNATURE = "call arguments did not match a supported operator, function or macro signature for rule"
REASONS = '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
UNDEFINED = "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope\n | ....^"
NO_STRING = "messageExpression must evaluate to a string"
LIST = f"{PATH}.properties[spec].properties[l]"
UNCORRELATED = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
LIMITS = {"min": INTEGER, "max": INTEGER}
ITEMS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {
        "type": "object",
        "properties": {"name": STRING, "size": INTEGER},
        "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "may not shrink"}],
    },
}


@pytest.mark.parametrize(
    ("schema", "spec", "errors"),
    [
        (crd(LIMITS, "self.min <= self.max"), {"min": 1, "max": 2}, []),
        (
            crd(LIMITS, "self.min <= self.max"),
            {"min": 3, "max": 2},
            ["spec: Invalid value: failed rule: self.min <= self.max"],
        ),
        (
            crd(LIMITS, "self.min <= self.max"),
            {"min": 3},
            ['spec: Invalid value: "object": no such key: max evaluating rule: self.min <= self.max'],
        ),
        (crd(LIMITS, "!has(self.max) || self.min <= self.max"), {"min": 3}, []),
        (
            crd(
                LIMITS,
                {"rule": "self.min > 0", "message": "too small", "reason": "FieldValueForbidden", "fieldPath": ".min"},
            ),
            {"min": 0},
            ["spec.min: Forbidden: too small"],
        ),
        (
            crd(LIMITS, {"rule": "self.min > 0", "messageExpression": "'min is ' + string(self.min)"}),
            {"min": 0},
            ["spec: Invalid value: min is 0"],
        ),
        (
            crd(LIMITS, {"rule": "self.min > 0", "message": "else", "messageExpression": "'a\\nb'"}),
            {"min": 0},
            ["spec: Invalid value: else"],
        ),
        (
            crd(
                {"port": {"x-kubernetes-int-or-string": True}},
                "type(self.port) == int ? self.port > 0 : self.port.startsWith('h')",
            ),
            {"port": "http"},
            [],
        ),
        (
            crd({"port": {"x-kubernetes-int-or-string": True}}, "self.port > 0"),
            {"port": "http"},
            [f"spec: Invalid value: \"object\": 'no such overload': {SIGNATURE}: self.port > 0"],
        ),
        (
            crd({"at": {"type": "string", "format": "date-time"}}, "self.at.getFullYear() > 2000"),
            {"at": "1999-01-01T00:00:00Z"},
            ["spec: Invalid value: failed rule: self.at.getFullYear() > 2000"],
        ),
        (crd({"wait": {"type": "string", "format": "duration"}}, "self.wait <= duration('1h')"), {"wait": "30m"}, []),
        (crd({"ratio": {"type": "number"}}, "self.ratio / 2.0 < 1.0"), {"ratio": 1}, []),
        (crd({"data": {"type": "string", "format": "byte"}}, "size(self.data) == 3"), {"data": "YWJj"}, []),
        (
            crd(
                {"a-b": STRING, "namespace": STRING, "x.y/z": STRING},
                "self.a__dash__b == self.__namespace__ && !has(self.x__dot__y__slash__z)",
            ),
            {"a-b": "q", "namespace": "q"},
            [],
        ),
        (
            crd(
                {"s": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}},
                "self.s == ['b', 'a'] && (self.s + ['a', 'c']).size() == 3",
            ),
            {"s": ["a", "b"]},
            [],
        ),
        (
            crd({"n": STRING | {"nullable": True}}, "self.n == 'x'"),
            {"n": "y"},
            ["spec: Invalid value: failed rule: self.n == 'x'"],
        ),
        (
            crd({"n": STRING | {"x-kubernetes-validations": [{"rule": "self.size() < 2"}]}}),
            {"n": "yy"},
            ['spec.n: Invalid value: "yy": failed rule: self.size() < 2'],
        ),
        (
            crd(
                {
                    "m": {
                        "type": "object",
                        "additionalProperties": INTEGER | {"x-kubernetes-validations": [{"rule": "self > 0"}]},
                    }
                }
            ),
            {"m": {"a": 0}},
            ["spec.m[a]: Invalid value: 0: failed rule: self > 0"],
        ),
        (
            crd({"l": {"type": "array", "items": INTEGER | {"x-kubernetes-validations": [{"rule": "self > 0"}]}}}),
            {"l": [1, 0]},
            ["spec.l[1]: Invalid value: 0: failed rule: self > 0"],
        ),
    ],
)
def test_object_is_validated_by_its_rules(schema: dict[str, Any], spec: Any, errors: list[str]) -> None:
    assert shown(schema, spec) == errors


@pytest.mark.parametrize(
    ("schema", "old", "new", "errors"),
    [
        (
            crd(LIMITS, "self.min >= oldSelf.min"),
            {"min": 2},
            {"min": 1},
            ["spec: Invalid value: failed rule: self.min >= oldSelf.min"],
        ),
        (crd(LIMITS, "self.min >= oldSelf.min"), ABSENT, {"min": 1}, []),
        (
            crd(LIMITS, {"rule": "oldSelf.hasValue() || self.min == 0", "optionalOldSelf": True}),
            ABSENT,
            {"min": 1},
            ["spec: Invalid value: failed rule: oldSelf.hasValue() || self.min == 0"],
        ),
        (
            crd(LIMITS, {"rule": "oldSelf.hasValue() || self.min == 0", "optionalOldSelf": True}),
            {"min": 1},
            {"min": 1},
            [],
        ),
        (
            crd({"items": ITEMS}),
            {"items": [{"name": "a", "size": 2}, {"name": "b", "size": 1}]},
            {"items": [{"name": "b", "size": 1}, {"name": "a", "size": 1}]},
            ["spec.items[1]: Invalid value: may not shrink"],
        ),
        (crd({"items": ITEMS}), {"items": []}, {"items": [{"name": "new", "size": 0}]}, []),
    ],
)
def test_update_is_validated_by_transition_rules(schema: dict[str, Any], old: Any, new: Any, errors: list[str]) -> None:
    assert shown(schema, new, old) == errors


def test_unchanged_invalid_field_is_accepted_in_an_update() -> None:
    rule = STRING | {"x-kubernetes-validations": [{"rule": "self != 'x'"}]}
    schema = crd({"n": rule, "other": STRING})
    assert shown(schema, {"n": "x", "other": "b"}, {"n": "x", "other": "a"}) == []
    assert shown(schema, {"n": "x"}, {"n": "y"}) == ["spec.n: Invalid value: \"x\": failed rule: self != 'x'"]


@pytest.mark.parametrize(
    ("schema", "errors"),
    [
        (crd(LIMITS, "self.min <= self.max"), []),
        (crd(LIMITS, " "), [f"{AT}.rule: Required value: rule is not specified"]),
        (
            crd(LIMITS, "self.min ==\n1"),
            [f"{AT}.message: Required value: message must be specified if rule contains line breaks"],
        ),
        (
            crd(LIMITS, {"rule": "true", "message": "a\nb"}),
            [f'{AT}.message: Invalid value: "a\\nb": must not contain line breaks'],
        ),
        (
            crd(LIMITS, {"rule": "true", "reason": "Odd"}),
            [f'{AT}.reason: Unsupported value: "Odd": supported values: {REASONS}'],
        ),
        (
            crd(LIMITS, {"rule": "true", "fieldPath": ".nope"}),
            [f'{AT}.fieldPath: Invalid value: ".nope": must be a valid path'],
        ),
        (
            crd(LIMITS, "self.nope"),
            [f"{AT}.rule: Invalid value: {written('self.nope')}: compilation failed: {UNDEFINED}"],
        ),
        (
            crd(LIMITS, "self.min"),
            [f"{AT}.rule: Invalid value: {written('self.min')}: cel expression must evaluate to a bool"],
        ),
        (
            crd(LIMITS, {"rule": "true", "messageExpression": "self.min"}),
            [f"{AT}.messageExpression: Invalid value: {written('true', 'self.min')}: {NO_STRING}"],
        ),
        (
            crd(LIMITS, {"rule": "true", "optionalOldSelf": True}),
            [f"{AT}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"],
        ),
        (
            crd(
                {"l": {"type": "array", "items": INTEGER | {"x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}
            ),
            [f'{LIST}.items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": {UNCORRELATED} {LIST}'],
        ),
    ],
)
def test_invalid_rules_of_a_definition_are_rejected(schema: dict[str, Any], errors: list[str]) -> None:
    assert refused(schema) == errors


def test_rule_with_excessive_estimated_cost_is_rejected() -> None:
    names = {"names": {"type": "array", "items": STRING}}
    texts = refused(crd(names, "self.names.all(x, self.names.all(y, x == y))"))
    hint = (
        "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings "
        "are declared)"
    )
    total = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    whole = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    assert texts == [
        f"{AT}.rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {hint}",
        f"{AT}.rule: Forbidden: {total}",
        f"{PATH}: Forbidden: {whole} exceeds budget by factor of more than 100x {hint}",
    ]
