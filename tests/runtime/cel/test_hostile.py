"""Expressions that would block or exhaust a server without limits."""

from __future__ import annotations

import pytest

from kcm.runtime.cel import effort, frame, types
from kcm.runtime.cel.errors import CompileError, CostExceededError, ProgramError
from kcm.runtime.cel.language import base_environment, compiled_program


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "MOST", 20_000)
    monkeypatch.setattr(frame, "MOST_MADE", 400_000)


def evaluated(expression: str) -> object:
    environment = base_environment().extended({"self": types.DYN}, {})
    return compiled_program(expression, environment)[0].evaluate({"self": {}})[0]


def chain(first: str, step: str, times: int) -> str:
    """Return nested expressions. `step` contains X, which is replaced by a new variable name each time."""
    return first + "".join(step.replace("X", f"x{number}") for number in range(times))


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000000000).size()",
        chain("[[1, 2, 3]]", ".map(X, X + X)", 60),
        chain("['ab']", ".map(X, X + X)", 60),
        chain("['ab']", ".map(X, [X, X].join(X))", 60),
        chain("['abcdefghij']", ".map(X, X.replace('', X))", 6),
        "[" + chain("[[1]]", ".map(X, [X, X])", 30) + "].all(x, dyn(x) == dyn(x))",
        "'%s'.format([" + chain("[[1]]", ".map(X, [X, X])", 30) + "])",
        "[" + chain("[[1]]", ".map(X, [X, X])", 30) + "].all(x, dyn(x).flatten(100) == [])",
        "lists.range(3000).all(x, lists.range(3000).exists(y, x == y))",
    ],
)
def test_evaluation_ends_before_it_creates_or_reads_too_much(expression: str) -> None:
    with pytest.raises(CostExceededError):
        evaluated(expression)


@pytest.mark.parametrize(
    ("expression", "issue"),
    [
        ("(" * 251 + "1" + ")" * 251, "-1:0: expression recursion limit exceeded: 250"),
        ("[" * 300 + "]" * 300, "-1:0: expression recursion limit exceeded: 250"),
        ("(1 + " * 150 + "1" + ")" * 150, "-1:0: expression recursion limit exceeded: 250"),
        ("1" + " + 1" * 251, "-1:0: max recursion depth exceeded"),
        ("self" + ".a" * 1000, "-1:0: max recursion depth exceeded"),
        ("1" * 100_001, "-1:0: expression code point size exceeds limit: size: 100001, limit 100000"),
        ("9" * 90_000, "1:1: invalid int literal"),
        ("9" * 90_000 + "u", "1:1: invalid uint literal"),
        ("1e" + "9" * 5000, "1:1: invalid double literal"),
    ],
)
def test_excessive_expression_is_rejected_before_it_is_evaluated(expression: str, issue: str) -> None:
    with pytest.raises(CompileError) as refused:
        evaluated(expression)
    assert str(refused.value).split("\n")[0] == f"ERROR: <input>:{issue}"


@pytest.mark.parametrize(
    "expression", ["int('" + "9" * 5000 + "')", "uint('" + "9" * 5000 + "')", "double('" + "9" * 5000 + "')"]
)
def test_constant_with_many_digits_is_rejected(expression: str) -> None:
    with pytest.raises(ProgramError, match="type conversion error"):
        evaluated(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 240 + "1" + ")" * 240,
        "[" * 200 + "1" + "]" * 200 + " == []",
        "1" + " + 1" * 249,
        "dyn(" * 240 + "1" + ")" * 240,
        "[1].map(x, " * 120 + "x" + ")" * 120,
        chain("[1]", ".map(X, X)", 200),
        "true ? 1 : " * 240 + "1",
        "'%.999999999f'.format([0.1])",
        "'x'.matches('" + "(" * 18 + "a*" + ")*" * 18 + "b')",
        "lists.range(200).map(i, 'a').join('').matches('(a?){500}a{500}')",
    ],
)
def test_deep_or_large_expression_within_the_limits_is_evaluated(expression: str) -> None:
    evaluated(expression)


def test_memory_of_an_evaluated_expression_is_freed() -> None:
    import sys

    before = sys.getrecursionlimit()
    evaluated("dyn(" * 200 + "1" + ")" * 200)
    assert sys.getrecursionlimit() == before


def test_every_evaluation_has_the_full_limit() -> None:
    environment = base_environment().extended({"self": types.DYN}, {})
    compared = compiled_program("self == self", environment)[0]
    for _each in range(4):
        assert compared.evaluate({"self": list(range(8_000))})[0] is True
