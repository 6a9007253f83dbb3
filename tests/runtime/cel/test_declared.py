"""Rules on values that a schema describes: nulls, names that are keywords, formats."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.cel.declared import declared, reader
from kcm.runtime.cel.rules import ValidationRule, compile_rules

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "note": {"type": "string", "nullable": True},
        "owner": {"type": "object", "nullable": True, "properties": {"name": {"type": "string", "nullable": True}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
        "sizes": {"type": "array", "items": {"type": "integer", "nullable": True}},
        "namespace": {"type": "string"},
        "a-b": {"type": "string"},
        "since": {"type": "string", "format": "date-time"},
    },
}
OBJECT: dict[str, Any] = {
    "note": None, "owner": {"name": None}, "labels": {"a": None, "b": "x"}, "sizes": [None, 1], "namespace": "here",
    "a-b": "c", "since": "2024-01-02T03:04:05Z",
}  # fmt: skip


def compiled(rule: str) -> ValidationRule:
    kind = declared(SCHEMA, root=False)
    assert kind is not None
    return compile_rules([{"rule": rule}], kind)[0]


def evaluate(rule: str) -> bool | str:
    """Return the result of a rule, or the error of its evaluation."""
    made, read = compiled(rule), reader(SCHEMA, root=False)
    assert made.problem is None, made.problem
    assert read is not None
    result = made.evaluate(read(OBJECT))
    return result if isinstance(result, bool) else str(result)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("has(self.note)", False),
        ("self.note == 'x'", "no such key: note"),
        ("self.?note.orValue('none') == 'none'", True),
        ("has(self.owner) && !has(self.owner.name)", True),
        ("dyn(self.labels.a) == null && 'a' in self.labels", True),
        ("self.labels.a.size() == 0", "no such overload: size"),
        ("self.labels.all(k, self.labels[k].startsWith('x'))", "no such overload"),
        ("dyn(self.sizes[0]) == null && self.sizes[1] == 1", True),
        ("self.sizes[0] + 1 == 1", "no such overload: _+_"),
        ("self.sizes.sum() == 1", "no such overload"),
        ("string(self.sizes[0]) == ''", "no such overload: string(null_type)"),
        ("self.namespace == 'here' && self.__namespace__ == 'here' && has(self.namespace)", True),
        ("self.a__dash__b == 'c'", True),
        ("self.since < timestamp('2024-01-03T00:00:00Z')", True),
        ("self == self", True),
    ],
)
def test_rule_evaluates_to_expected_result(rule: str, expected: bool | str) -> None:
    assert evaluate(rule) == expected


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("self.void == 1", "compilation failed: ERROR: <input>:1:5: undefined field 'void'"),
        ("int('x') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
        ("self.note", "cel expression must evaluate to a bool"),
    ],
)
def test_invalid_rule_is_reported(rule: str, problem: str) -> None:
    assert (compiled(rule).problem or "").split("\n")[0] == problem
