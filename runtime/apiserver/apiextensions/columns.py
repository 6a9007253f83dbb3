"""Printer columns of custom kinds: Name, then additionalPrinterColumns or Age.

Source: apiextensions-apiserver pkg/registry/customresource/tableconvertor/tableconvertor.go,
pkg/apiserver/helpers.go (getColumnsForVersion; v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.times import human_duration, parse_time
from kcm.runtime.apiserver.apiextensions.json_path import JsonPath, JsonPathError, as_text
from kcm.runtime.apiserver.registry.printers import NAME, Column, Printer
from kcm.runtime.apiserver.rules.cells import UNKNOWN, name_cell

_AGE: Object = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}

# Formats a value that is set as a cell: (value, now in Unix seconds) → cell.
_Cell = Callable[[Any, float], Any]


def printer_for(given: Sequence[Object]) -> Printer:
    """Return a printer with the columns in additionalPrinterColumns.

    The first column whose JSONPath is invalid and all columns after it are omitted, as upstream.
    """
    columns, paths = [NAME], list[tuple[JsonPath, _Cell]]()
    for column in given or (_AGE,):
        path = column["jsonPath"]
        try:
            paths.append((JsonPath(path), _CELLS[column["type"]]))
        except JsonPathError:
            break
        description = column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
        columns.append(
            Column(column["name"], column["type"], column.get("format") or "", column.get("priority") or 0, description)
        )

    def cells(obj: Object, now: float) -> list[Any]:
        return [name_cell(obj), *(_cell(path, show, obj, now) for path, show in paths)]

    return Printer(tuple(columns), cells)


def _cell(path: JsonPath, show: _Cell, obj: Object, now: float) -> Any:
    try:
        found = path.find(obj)
    except JsonPathError:
        return None
    return show(found[0], now) if found else None


def _integer(value: Any, _now: float) -> int | None:
    return int(value) if type(value) in (int, float) else None


def _number(value: Any, _now: float) -> float | None:
    return value if type(value) in (int, float) else None


def _boolean(value: Any, _now: float) -> bool | None:
    return value if isinstance(value, bool) else None


def _string(value: Any, _now: float) -> str:
    return as_text(value)


def _date(value: Any, now: float) -> str | None:
    if not isinstance(value, str):
        return None
    if not value:
        return UNKNOWN
    try:
        return human_duration(now - parse_time(value))
    except ValueError:
        return "<invalid>"


_CELLS: dict[str, _Cell] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "string": _string,
    "date": _date,
}
