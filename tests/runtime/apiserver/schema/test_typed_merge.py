"""Merging of applied objects. The cases of lists are those of structured-merge-diff (typed/merge_test.go)."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.schema.merge_types import MergeType, of_schema
from kcm.runtime.apiserver.schema.typed_merge import DuplicateError, merge, removed

SET = of_schema({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"})
LIST = of_schema(
    {
        "type": "array",
        "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
)
MAP = of_schema({"type": "object", "additionalProperties": {"type": "string"}})
ATOMIC = of_schema({"type": "array", "items": {"type": "string"}})


def named(names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("live", "applied", "merged"),
    [
        ("", "abc", "abc"),
        ("abc", "", "abc"),
        ("abc", "abc", "abc"),
        ("abc", "d", "abcd"),
        ("ab", "cd", "abcd"),
        ("abc", "cba", "cba"),
        ("abc", "ac", "abc"),
        ("abc", "ca", "bca"),
        ("abcd", "db", "acdb"),
        ("ab", "xb", "axb"),
        ("ab", "xa", "xab"),
    ],
)
def test_applied_elements_have_the_applied_order_and_others_keep_their_place(
    live: str, applied: str, merged: str
) -> None:
    assert "".join(merge(list(live), list(applied), SET)) == merged
    assert "".join(element["name"] for element in merge(named(live), named(applied), LIST)) == merged


@pytest.mark.parametrize(
    ("live", "applied", "type_", "merged"),
    [
        ([{"name": "a", "value": 1}], [{"name": "a"}], LIST, [{"name": "a", "value": 1}]),
        ([{"name": "a", "value": 1}], [{"name": "a", "value": 2}], LIST, [{"name": "a", "value": 2}]),
        ({"a": "1", "b": "1"}, {"a": "2", "c": "3"}, MAP, {"a": "2", "b": "1", "c": "3"}),
        ({"a": "1"}, {}, MAP, {"a": "1"}),
        ({"a": "1"}, None, MAP, {"a": "1"}),
        (["a"], None, SET, ["a"]),
        (["a"], None, ATOMIC, None),
        (["a", "b"], ["c"], ATOMIC, ["c"]),
        (["a", "a", "b"], ["a"], SET, ["a", "b"]),
    ],
)
def test_values_merge_by_their_type(live: Any, applied: Any, type_: MergeType, merged: Any) -> None:
    assert merge(live, applied, type_) == merged


def test_applied_list_with_duplicate_elements_is_rejected() -> None:
    with pytest.raises(DuplicateError, match=r'duplicate entries for key \[name="a"\]'):
        merge([], named("aa"), LIST)


@pytest.mark.parametrize(
    ("value", "fields", "type_", "rest"),
    [
        ({"a": "1", "b": "2"}, {"f:a": {}}, MAP, {"b": "2"}),
        ({"a": "1"}, {"f:a": {}}, MAP, {}),
        (["a", "b"], {'v:"a"': {}}, SET, ["b"]),
        (["a"], {'v:"z"': {}}, SET, ["a"]),
        ([{"name": "a", "value": 1}], {'k:{"name":"a"}': {"f:value": {}}}, LIST, [{"name": "a"}]),
        ([{"name": "a", "value": 1}], {'k:{"name":"a"}': {".": {}, "f:value": {}}}, LIST, []),
        (["a"], {'v:"a"': {}}, ATOMIC, ["a"]),
    ],
)
def test_fields_are_removed(value: Any, fields: Any, type_: MergeType, rest: Any) -> None:
    assert removed(value, fields, type_) == rest
