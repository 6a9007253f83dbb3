"""Cells of additionalPrinterColumns."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.apiextensions.columns import printer_for
from kcm.runtime.apiserver.apiextensions.json_path import JsonPath, JsonPathError

NOW = 1_000_000_000.0
OBJECT: dict[str, Any] = {
    "metadata": {"name": "w", "creationTimestamp": "2001-09-09T01:46:35Z", "labels": {"a.b/c": "x"}},
    "spec": {"replicas": 3, "ratio": 0.5, "on": True, "color": "red", "tags": ["a", "b"], "map": {"b": 1, "a": 2}},
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "n": 1}, {"type": "Synced", "status": "False", "n": 2}],
        "at": "2001-09-09T00:46:40Z",
        "nothing": None,
    },
}


@pytest.mark.parametrize(
    ("type_", "path", "expected"),
    [
        ("string", ".spec.color", "red"),
        ("string", ".spec.none", None),
        ("string", ".spec.replicas", "3"),
        ("string", ".spec.ratio", "0.5"),
        ("string", ".spec.on", "true"),
        ("string", ".spec.tags", '["a","b"]'),
        ("string", ".spec.map", '{"a":2,"b":1}'),
        ("string", ".status.nothing", "<no value>"),
        ("string", ".spec.tags[1]", "b"),
        ("string", ".spec.tags[-1]", "b"),
        ("string", ".spec.tags[5]", None),
        ("string", ".spec.tags[*]", "a"),
        ("string", ".spec.color[0]", None),
        ("string", '.status.conditions[?(@.type=="Ready")].status', "True"),
        ("string", ".status.conditions[?(@.type=='Synced')].status", "False"),
        ("string", '.status.conditions[?(@.type=="None")].status', None),
        ("string", ".status.conditions[?(@.n>1)].type", "Synced"),
        ("string", ".status.conditions[?(@.status)].type", "Ready"),
        ("string", ".metadata.labels.a\\.b/c", "x"),
        ("string", ".metadata.labels['a\\.b/c']", "x"),
        ("string", "..color", "red"),
        ("integer", ".spec.replicas", 3),
        ("integer", ".spec.ratio", 0),
        ("integer", ".spec.color", None),
        ("number", ".spec.ratio", 0.5),
        ("boolean", ".spec.on", True),
        ("boolean", ".spec.color", None),
        ("date", ".status.at", "60m"),
        ("date", ".spec.color", "<invalid>"),
        ("date", ".spec.replicas", None),
    ],
)
def test_cell_has_the_value_at_its_path(type_: str, path: str, expected: Any) -> None:
    printer = printer_for([{"name": "C", "type": type_, "jsonPath": path}])
    assert printer.cells(OBJECT, NOW) == ["w", expected]


def test_default_columns_are_name_and_age() -> None:
    printer = printer_for([])
    assert [column.name for column in printer.columns] == ["Name", "Age"]
    assert printer.cells(OBJECT, NOW) == ["w", "5s"]


def test_column_with_an_unreadable_path_and_later_ones_are_omitted() -> None:
    given = [
        {"name": name, "type": "string", "jsonPath": path} for name, path in (("A", ".a"), ("B", ".b["), ("C", ".c"))
    ]
    assert [column.name for column in printer_for(given).columns] == ["Name", "A"]


@pytest.mark.parametrize("text", [".a[", ".a[x]", ".a[?(@.b", ".a{", "a", '.a[0]"b'])
def test_invalid_path_is_rejected(text: str) -> None:
    with pytest.raises(JsonPathError):
        JsonPath(text)
