"""Differences between wanted and present objects."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.reconciliation.differences import QUANTITY_FIELDS, differences, without_none
from kcm.runtime.schema.api_types import built_in_types

CONTAINER = {"name": "web", "image": "nginx", "imagePullPolicy": "Always", "resources": {"limits": {"cpu": "1"}}}


@pytest.mark.parametrize(
    ("wanted", "present", "expected"),
    [
        ({}, {"a": 1}, {}),
        ({"a": 1}, {"a": 1, "b": 2}, {}),
        ({"a": 1}, {"a": 2}, {"a": 1}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}}, {}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": "text"}, {"a": {"b": 1}}),
        # None stands for a field that must be absent.
        ({"a": None}, {}, {}),
        ({"a": None}, {"a": 0}, {"a": None}),
        ({"a": {"b": None}}, {}, {}),
        ({"a": {"b": None, "c": 1}}, {}, {"a": {"c": 1}}),
        # Zero is a value, and a number is no boolean.
        ({"a": 0}, {}, {"a": 0}),
        ({"a": ""}, {}, {"a": ""}),
        ({"a": False}, {"a": 0}, {"a": False}),
        ({"a": 1.0}, {"a": 1}, {}),
        # A wanted list replaces the whole list; fields that the server defaults do not count as differences.
        ({"a": [1, 2]}, {"a": [1, 2]}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}, {"a": [1, 2]}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1]}),
        ({"a": (1, 2)}, {"a": [1, 2]}, {}),
        ({"a": []}, {}, {}),
        ({"a": []}, {"a": [1]}, {"a": []}),
        ({"c": [{"name": "web", "image": "nginx"}]}, {"c": [CONTAINER]}, {}),
        ({"c": [{"name": "web", "args": None}]}, {"c": [CONTAINER]}, {}),
        (
            {"c": [{"name": "web", "image": "v2", "x": None}]},
            {"c": [CONTAINER]},
            {"c": [{"name": "web", "image": "v2"}]},
        ),
        # Empty maps are compared, except for those that the server omits.
        ({"emptyDir": {}}, {}, {"emptyDir": {}}),
        ({"emptyDir": {}}, {"emptyDir": {}}, {}),
        ({"labels": {}}, {}, {}),
        # Quantities are compared by value; labels are not quantities.
        ({"c": [{"resources": {"limits": {"cpu": "1000m"}}}]}, {"c": [CONTAINER]}, {}),
        ({"hard": {"pods": 10}}, {"hard": {"pods": "10"}}, {}),
        ({"hard": {"pods": "11"}}, {"hard": {"pods": "10"}}, {"hard": {"pods": "11"}}),
        ({"hard": {"pods": "many"}}, {"hard": {"pods": "10"}}, {"hard": {"pods": "many"}}),
        ({"labels": {"cpu": "1000m"}}, {"labels": {"cpu": "1"}}, {"labels": {"cpu": "1000m"}}),
    ],
)
def test_differences_are_found(wanted: Any, present: Any, expected: Any) -> None:
    assert differences(wanted, present) == expected


def test_none_fields_are_not_created() -> None:
    assert without_none({"a": None, "b": {"c": None, "d": [{"e": None, "f": 0}]}}) == {"b": {"d": [{"f": 0}]}}


def test_quantity_fields_are_those_of_the_api_types() -> None:
    """Every field that is always a quantity is listed, and no field that is never one."""
    quantities, others = set(), set()
    types = built_in_types()
    for name in types:
        type_ = types.find(name)
        assert type_ is not None
        for field in type_.fields.values():
            is_quantity = field.kind == "quantity" and field.form in ("one", "map")
            (quantities if is_quantity else others).add(field.name)
    assert quantities - others <= QUANTITY_FIELDS <= quantities


def test_equal_target_averages_of_an_autoscaler_do_not_differ() -> None:
    wanted = {"target": {"type": "AverageValue", "averageValue": "1000m"}}
    assert differences(wanted, {"target": {"type": "AverageValue", "averageValue": "1"}}) == {}
