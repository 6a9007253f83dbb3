"""Memory of a table of pods, the most numerous objects of a large cluster."""

from __future__ import annotations

import tracemalloc

from kcm.protocols.objects import encode_object
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import PODS
from kcm.protocols.watch_lines import parse_watch_line, strip
from kcm.runtime.tables.table import Table
from tests.support.objects import owned_by, pod

COUNT = 2000
MAX_OVERHEAD = 545  # bytes per pod; measured with Python 3.11: 534, and 714 before equal values were shared


def lines() -> list[bytes]:
    """Return watch lines of pods with two owners, as separate values."""
    owners = [owned_by("11111111-1111-1111-1111-111111111111"), owned_by("22222222-2222-2222-2222-222222222222")]
    return [
        encode_object({"type": "ADDED", "object": pod(f"pod-{i:05}", version=1000 + i, owner=owners[i % 2])})
        for i in range(COUNT)
    ]


def listed(table: Table, received: list[bytes]) -> int:
    """Fill the table, and return the number of bytes of JSON that it keeps."""
    entries = []
    for line in received:
        obj = parse_watch_line(line).object
        entries.append(table.make_entry(obj, strip(obj)))
    table.claim().replace(entries, 5000)
    return sum(len(entry.raw) for entry in entries)


def test_overhead_of_a_pods_entry_is_bounded() -> None:
    received = lines()
    listed(Table(PODS, derive=pod_facts), received[:2])  # creates the values that all tables share
    table = Table(PODS, derive=pod_facts)
    tracemalloc.start()
    try:
        raw = listed(table, received)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (kept - raw) / COUNT < MAX_OVERHEAD


def test_objects_with_equal_values_share_them() -> None:
    table = Table(PODS, derive=pod_facts)
    listed(table, lines())
    assert len({id(entry.values) for entry in table.entries()}) == 2
    assert len({id(entry.controller) for entry in table.entries()}) == 2
