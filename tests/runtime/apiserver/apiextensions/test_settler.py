"""Pruning, removal of nulls and defaults of custom objects by their schema."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kcm.runtime.apiserver.apiextensions.pruning_and_defaults import LONGEST_PATHS, Meter, UnknownFields, settler
from kcm.runtime.apiserver.apiextensions.schemas import EMBEDDED, PRESERVE

STRING = {"type": "string"}
LOOSE = {"type": "object", PRESERVE: True}
NAMED = {"type": "object", "properties": {"a": STRING}}
WITH_DEFAULT = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}

TABLE: list[tuple[str, Any, Any, Any, list[str]]] = [
    ("unknown", NAMED, {"a": "1", "b": {"c": 1}}, {"a": "1"}, ["b"]),
    ("preserved", LOOSE, {"b": {"c": None}}, {"b": {"c": None}}, []),
    (
        "pruned inside of what is preserved",
        {**LOOSE, "properties": {"x": NAMED}},
        {"x": {"a": "1", "b": 2}, "y": {"b": 2}},
        {"x": {"a": "1"}, "y": {"b": 2}},
        ["x.b"],
    ),
    ("items", {"type": "array", "items": NAMED}, [{"a": "1"}, {"b": 1}], [{"a": "1"}, {}], ["[1].b"]),
    (
        "items that are preserved",
        {**LOOSE, "type": "array", "items": {**LOOSE, "properties": {"x": NAMED}}},
        [{"x": {"b": 1}, "y": {"b": 1}}],
        [{"x": {}, "y": {"b": 1}}],
        ["[0].x.b"],
    ),
    (
        "values",
        {"type": "object", "additionalProperties": NAMED},
        {"k": {"a": "1", "b": 2}},
        {"k": {"a": "1"}},
        ["k.b"],
    ),
    (
        "any values",
        {"type": "object", "additionalProperties": True},
        {"k": {"b": 2}, "l": 1},
        {"k": {}, "l": 1},
        ["k.b"],
    ),
    ("of no schema", {"type": "object"}, {"a": [1]}, {}, ["a"]),
    (
        "an embedded object",
        {**NAMED, EMBEDDED: True},
        {"apiVersion": "v1", "kind": "X", "metadata": {"z": 1}, "b": 1},
        {"apiVersion": "v1", "kind": "X", "metadata": {"z": 1}},
        ["b"],
    ),
    ("null", NAMED, {"a": None}, {}, []),
    ("nullable", {"type": "object", "properties": {"a": {**STRING, "nullable": True}}}, {"a": None}, {"a": None}, []),
    ("a default", WITH_DEFAULT, {}, {"a": "x"}, []),
    ("a default for null", WITH_DEFAULT, {"a": None}, {"a": "x"}, []),
    (
        "a nullable default",
        {"type": "object", "properties": {"a": {**STRING, "nullable": True, "default": "x"}}},
        {"a": None},
        {"a": None},
        [],
    ),
    (
        "a default inside of a default",
        {"type": "object", "properties": {"o": {**WITH_DEFAULT, "default": {}}}},
        {},
        {"o": {"a": "x"}},
        [],
    ),
    ("no default in what is not there", {"type": "object", "properties": {"o": WITH_DEFAULT}}, {}, {}, []),
    ("defaults of items", {"type": "array", "items": WITH_DEFAULT}, [{}, {"a": "1"}], [{"a": "x"}, {"a": "1"}], []),
    (
        "a default for a null item",
        {"type": "array", "items": {"type": "integer", "default": 5}},
        [None, 1],
        [5, 1],
        [],
    ),
    (
        "a default for a null value",
        {"type": "object", "additionalProperties": {"type": "integer", "default": 5}},
        {"a": None},
        {"a": 5},
        [],
    ),
    ("false is a default", {"type": "object", "properties": {"b": {"default": False}}}, {}, {"b": False}, []),
]


@pytest.mark.parametrize(
    ("schema", "given", "expected", "unknown"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_object_is_pruned_and_defaulted(schema: Any, given: Any, expected: Any, unknown: list[str]) -> None:
    for _ in range(2):
        obj, found = copy.deepcopy(given), UnknownFields()
        settler(schema, Meter())(obj, found, "")
        assert obj == expected
        assert found.paths == unknown


def test_a_default_is_not_shared_between_objects() -> None:
    settle = settler({"type": "object", "properties": {"list": {"type": "array", "default": [1]}}}, Meter())
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    settle(first, None, "")
    settle(second, None, "")
    first["list"].append(2)
    assert second == {"list": [1]}


def test_without_defaults_nothing_is_added() -> None:
    obj: dict[str, Any] = {"b": 1}
    settler(WITH_DEFAULT, Meter(), defaults=False)(obj, None, "")
    assert obj == {}


@pytest.mark.parametrize("given", [{f"f{number}": 1 for number in range(10_000)}, {"map": {"x": {"a": 1, "b": 2}}}])
def test_paths_of_unknown_fields_are_bounded(given: Any) -> None:
    name = "n" * LONGEST_PATHS
    if "map" in given:
        given = {"map": {name: {f"f{number}": 1 for number in range(10_000)}}}
    schema = {
        "type": "object",
        "properties": {"map": {"type": "object", "additionalProperties": {"type": "object"}}},
    }
    found = UnknownFields()
    settler(schema, Meter())(given, found, "")
    assert given == {} or given == {"map": {name: {}}}
    assert 0 < len(found.paths) <= 100
    assert sum(map(len, found.paths)) < 3 * LONGEST_PATHS
