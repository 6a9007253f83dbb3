"""The checker and the function that explains errors agree on which values are valid."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.runtime.apiserver.apiextensions.validation_errors import explain
from kcm.runtime.apiserver.apiextensions.validators import checker
from tests.runtime.apiserver.contracts.custom_resources import GIVEN, RICH

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.sampled_from([0.5, 1.0, 2.5, 3e10, 2**40]),
    st.text("ab1-", max_size=4),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
TYPES = ("string", "integer", "number", "boolean", "array", "object")


def _schema(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = {
        "type": st.sampled_from(TYPES),
        "nullable": st.booleans(),
        "format": st.sampled_from(["int32", "int64", "float", "date", "byte", "ipv4", "none"]),
        "x-kubernetes-int-or-string": st.booleans(),
        "enum": st.lists(SCALARS, max_size=3),
        "minimum": st.sampled_from([0, 1.5, 5]),
        "maximum": st.sampled_from([2, 2.5, 9]),
        "exclusiveMinimum": st.booleans(),
        "multipleOf": st.sampled_from([0, 0.5, 2, 3]),
        "minLength": st.integers(0, 3),
        "maxLength": st.integers(0, 3),
        "pattern": st.sampled_from(["^a", "b$", "[0-9]"]),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "items": inner,
        "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
        "additionalProperties": st.booleans() | inner,
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "maxProperties": st.integers(0, 2),
        "minProperties": st.integers(0, 2),
        "allOf": st.lists(inner, max_size=2),
        "anyOf": st.lists(inner, max_size=2),
        "oneOf": st.lists(inner, max_size=2),
        "not": inner,
    }
    some = st.lists(st.sampled_from(sorted(parts)), max_size=4, unique=True)
    return some.flatmap(lambda names: st.fixed_dictionaries({name: parts[name] for name in names}))


SCHEMAS: st.SearchStrategy[Any] = st.recursive(_schema(st.just({})), _schema, max_leaves=4)


@settings(max_examples=300, deadline=None)
@given(SCHEMAS, VALUES)
def test_value_is_valid_if_it_has_no_errors(schema: Any, value: Any) -> None:
    check = checker(schema)
    assert (check is None or check(value)) == (explain(schema, value) == [])


@pytest.mark.parametrize("value", [value for value in GIVEN if isinstance(value, dict)])
def test_contract_value_is_valid_if_it_has_no_errors(value: Any) -> None:
    check = checker(RICH)
    assert check is not None
    assert check(value) == (explain(RICH, value) == [])


def test_unknown_format_is_ignored() -> None:
    assert explain({"type": "string", "format": "nonsense"}, "x") == []
    assert explain({"type": "string", "format": "date"}, "x") != []
