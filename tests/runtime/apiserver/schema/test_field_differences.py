"""Differences of fields between two versions. Cases of structured-merge-diff (typed/comparison_test.go)."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.schema.field_differences import compare
from kcm.runtime.apiserver.schema.merge_types import of_schema
from kcm.runtime.cel import effort

ITEMS = {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}}
TYPE = of_schema(
    {
        "type": "object",
        "properties": {
            "scalar": {"type": "string"},
            "struct": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "whole": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "x-kubernetes-map-type": "atomic",
            },
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "list": {
                "type": "array",
                "items": ITEMS,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "atomic": {"type": "array", "items": ITEMS},
        },
    }
)
X, Y = ({"name": name, "value": 1} for name in "xy")
IN_X = 'k:{"name":"x"}'


@pytest.mark.parametrize(
    ("old", "new", "removed", "modified", "added"),
    [
        ({}, {}, {}, {}, {}),
        ({"scalar": "a"}, {"scalar": "b"}, {}, {"f:scalar": {}}, {}),
        ({}, {"scalar": "b"}, {}, {}, {"f:scalar": {}}),
        ({"scalar": "a"}, {}, {"f:scalar": {}}, {}, {}),
        ({"struct": {"a": 1}}, {"struct": {"b": 1}}, {"f:struct": {"f:a": {}}}, {}, {"f:struct": {"f:b": {}}}),
        ({}, {"struct": {"a": 1}}, {}, {}, {"f:struct": {".": {}, "f:a": {}}}),
        ({"struct": {}}, {"struct": {"a": 1}}, {}, {}, {"f:struct": {"f:a": {}}}),
        ({"struct": None}, {"struct": {"a": 1}}, {}, {}, {"f:struct": {"f:a": {}}}),
        ({"struct": None}, {"struct": {}}, {}, {"f:struct": {}}, {}),
        ({"map": {"a": "1"}}, {"map": {"a": "2", "b": "1"}}, {}, {"f:map": {"f:a": {}}}, {"f:map": {"f:b": {}}}),
        ({"whole": {"a": "1"}}, {"whole": {"a": "2"}}, {}, {"f:whole": {}}, {}),
        ({"set": ["a", "b"]}, {"set": ["b", "c"]}, {"f:set": {'v:"a"': {}}}, {}, {"f:set": {'v:"c"': {}}}),
        ({"set": ["a"]}, {"set": ["b", "b"]}, {"f:set": {'v:"a"': {}}}, {}, {"f:set": {'v:"b"': {}}}),
        ({"set": ["a", "a"]}, {"set": ["a"]}, {"f:set": {'v:"a"': {}}}, {}, {"f:set": {'v:"a"': {}}}),
        ({"list": [X, Y]}, {"list": [Y, X]}, {}, {}, {}),
        ({"list": [X]}, {"list": [{**X, "value": 2}]}, {}, {"f:list": {IN_X: {"f:value": {}}}}, {}),
        (
            {"list": [Y]},
            {"list": [X]},
            {"f:list": {'k:{"name":"y"}': {".": {}, "f:name": {}, "f:value": {}}}},
            {},
            {"f:list": {IN_X: {".": {}, "f:name": {}, "f:value": {}}}},
        ),
        ({"list": [X, X]}, {"list": [X, {**X, "value": 2}]}, {}, {"f:list": {IN_X: {}}}, {}),
        ({"atomic": [X]}, {"atomic": [Y]}, {}, {"f:atomic": {}}, {}),
        ({"atomic": [X]}, {}, {"f:atomic": {}}, {}, {}),
    ],
)
def test_removed_modified_and_added_fields_are_found(
    old: Any, new: Any, removed: Any, modified: Any, added: Any
) -> None:
    assert compare(old, new, TYPE) == (removed, modified, added)


def test_comparison_of_many_elements_takes_no_more_than_its_allowance() -> None:
    many = {"list": [{"name": f"n{number}", "value": 1} for number in range(1000)]}
    with effort.allowance(1000), pytest.raises(effort.TooLongError):
        compare({}, many, TYPE)
