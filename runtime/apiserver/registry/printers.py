"""Table columns of a kind, and the cells of an object's row.

Source: kubernetes pkg/printers/internalversion/printers.go for the columns of each kind, apiserver
pkg/registry/rest/table.go for kinds without columns of their own (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kcm.protocols.objects import Object, metadata


class Column(NamedTuple):
    """Column of a table (metav1.TableColumnDefinition).

    priority: 0 is always shown, 1 only with `-o wide`
    """

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


NAME = Column("Name", format="name")
AGE = Column("Age")


def number(name: str) -> Column:
    return Column(name, "integer")


def boolean(name: str) -> Column:
    return Column(name, "boolean")


def wide(name: str) -> Column:
    return Column(name, priority=1)


Cells = Callable[[Object, float], list[Any]]
RowConditions = Callable[[Object], Sequence[dict[str, str]]]


def _no_conditions(_obj: Object) -> Sequence[dict[str, str]]:
    return ()


class Printer(NamedTuple):
    """Table columns of a kind, with functions for the cells and conditions of an object's row.

    cells: receives a stored object and the time in Unix seconds; returns one value for each column. Optional fields of
      the object may be missing, but fields that exist have the type of the schema.
    conditions: returns the conditions of the row
    """

    columns: tuple[Column, ...]
    cells: Cells
    conditions: RowConditions = _no_conditions


def _name_and_creation_time(obj: Object, _now: float) -> list[Any]:
    meta = metadata(obj)
    return [str(meta.get("name") or ""), meta.get("creationTimestamp") or "<unknown>"]


NAME_AND_CREATION_TIME = Printer((NAME, Column("Created At", "date")), _name_and_creation_time)
