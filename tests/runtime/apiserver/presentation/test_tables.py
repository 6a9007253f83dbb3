"""Tables (metav1.Table) in responses: rows, columns and included objects."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.presentation.tables import table, table_row
from tests.runtime.apiserver.kinds.printers import META, NOW, printer_for


@pytest.mark.parametrize(
    "include, expected",
    [
        ("None", None),
        ("Metadata", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": META}),
        ("Object", {"metadata": META, "status": {"phase": "Failed"}}),
    ],
)
def test_row_contains_the_object_as_requested_by_includeobject(include: str, expected: Any) -> None:
    row = table_row(
        printer_for("v1", "Pod"), {"metadata": META, "status": {"phase": "Failed"}}, now=NOW, include=include
    )
    assert row["object"] == expected
    assert row["conditions"][0]["type"] == "Completed"


def test_a_table_names_its_columns_once() -> None:
    printer = printer_for("v1", "Namespace")
    whole = table(printer, [], {"resourceVersion": "7"})
    assert (whole["kind"], whole["apiVersion"], whole["metadata"]) == (
        "Table",
        "meta.k8s.io/v1",
        {"resourceVersion": "7"},
    )
    assert [column["name"] for column in whole["columnDefinitions"]] == ["Name", "Status", "Age"]
    assert table(printer, [], {}, with_columns=False)["columnDefinitions"] is None
