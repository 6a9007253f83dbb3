"""A table of pods with its writer."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import PODS
from kcm.runtime.tables.table import Entry, Table, TableWriter


@pytest.fixture
def table() -> Table:
    return Table(PODS, indexes={"node": lambda obj: (obj.get("spec", {}).get("nodeName") or "",)}, decoded_bound=2)


@pytest.fixture
def writer(table: Table) -> TableWriter:
    return table.claim()


def entry(table: Table, obj: Object) -> Entry:
    return table.make_entry(obj, encode_object(obj))


def put(writer: TableWriter, obj: Object) -> None:
    """Add or replace an object, as an informer does for a watch event."""
    writer.put(entry(writer.table, obj))


def keys(entries: Iterable[Entry]) -> list[str]:
    return sorted(entry.key for entry in entries)
