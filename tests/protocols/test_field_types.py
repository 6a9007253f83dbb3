"""Types of an object's fields, and the error texts for wrong types."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.field_types import COUNT, FLAG, MAP, NUMBER, QUANTITY, TEXT, TIME, CompiledShape, Shape, check

SHAPE: Shape = {"spec": {"rules": [{"count": NUMBER}], "labels": MAP}}


@pytest.mark.parametrize(
    ("shape", "right", "wrong"),
    [
        (TEXT, ["", "a"], [1, [], {}]),
        (FLAG, [True, False], [0, "true"]),
        (NUMBER, [0, -1, 2**70], [True, 1.0, "1"]),
        (COUNT, [0, 7], [-1, False, "1"]),
        (TIME, ["2026-01-02T03:04:05Z"], ["2026-13-01T00:00:00Z", "", 7]),
        (QUANTITY, ["100m", 1, "1e3", 0.5], ["NaN", "x", [], True]),
        (MAP, [{}, {"a": None}], [[], "x"]),
        ([TEXT], [[], ["a"]], ["a", [None], [1]]),
        (
            SHAPE,
            [{}, {"spec": None}, {"spec": {"rules": None, "other": 1}}],
            ["x", {"spec": 1}, {"spec": {"rules": {}}}],
        ),
    ],
)
def test_a_value_is_of_a_shape_or_not(shape: Shape, right: list[Any], wrong: list[Any]) -> None:
    compiled, nested = CompiledShape(shape), CompiledShape([{"from": CompiledShape(shape)}])
    for value in right:
        check(value, shape, "field")
        check(value, compiled, "field")
        assert compiled.fits(value)
        assert nested.fits([{"from": value}, {"from": None}])
    for value in wrong:
        for checked in (shape, compiled):
            with pytest.raises(ValueError, match="field"):
                check(value, checked, "field")
        assert not nested.fits([{"from": value}])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"spec": {"rules": [{}, {"count": "x"}]}}, "spec.rules[1].count is a number, got 'x'"),
        ({"spec": {"rules": [None]}}, "spec.rules[0] is a map, got None"),
        ({"spec": {"rules": "all"}}, "spec.rules is a list, got 'all'"),
        ({"spec": {"labels": "a" * 200}}, f"spec.labels is a map, got '{'a' * 79}"),
    ],
)
def test_the_field_that_is_wrong_is_named(value: Any, text: str) -> None:
    for shape in (SHAPE, CompiledShape(SHAPE)):
        with pytest.raises(ValueError) as raised:
            check(value, shape)
        assert str(raised.value) == text
