"""Tables (metav1.Table) for `kubectl get`, with the columns and cells of a kind's printer.

Source: apiserver pkg/registry/rest/table.go, pkg/endpoints/handlers/response.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object, metadata
from kcm.runtime.apiserver.kinds.bodies import BODIES
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import NAME_AND_CREATION_TIME, Printer
from kcm.runtime.apiserver.registry.subresources import subresource_of


def printer_of(definition: ResourceDefinition, subresource: str = "") -> Printer:
    """Return the printer for a resource or for the body of its subresource, which may be another kind (Scale)."""
    kind = subresource_of(subresource).kind if subresource else None
    if kind is None:
        return definition.printer
    body = BODIES.get(kind)
    return NAME_AND_CREATION_TIME if body is None else body.printer


def partial_metadata(obj: Object, version: str = "v1") -> dict[str, Any]:
    """Return the metadata of an object as a PartialObjectMetadata. version: version of meta.k8s.io."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": metadata(obj)}


def table_row(printer: Printer, obj: Object, *, now: float, include: str, version: str = "v1") -> dict[str, Any]:
    """Return the table row of an object.

    now: Unix time in seconds, for ages
    include: part of the object that the row contains: "None", "Metadata" or "Object"
    version: version of meta.k8s.io
    """
    row: dict[str, Any] = {"cells": printer.cells(obj, now)}
    if conditions := printer.conditions(obj):
        row["conditions"] = conditions
    row["object"] = obj if include == "Object" else None if include == "None" else partial_metadata(obj, version)
    return row


def table(
    printer: Printer,
    rows: Sequence[Mapping[str, Any]],
    list_meta: Mapping[str, Any],
    *,
    version: str = "v1",
    with_columns: bool = True,
) -> dict[str, Any]:
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": list_meta,
        "columnDefinitions": _column_definitions(printer) if with_columns else None,
        "rows": rows,
    }


def _column_definitions(printer: Printer) -> list[dict[str, Any]]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in printer.columns
    ]
