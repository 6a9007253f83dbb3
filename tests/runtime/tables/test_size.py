"""What a table weighs: a large cluster has more pods than anything else."""

from __future__ import annotations

import tracemalloc

from kcm.protocols.objects import encode_object
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import PODS
from kcm.protocols.watch_lines import parse_watch_line, strip
from kcm.runtime.tables.table import Table
from tests.support.objects import owned_by, pod

COUNT = 2000
MOST_BESIDE = 550  # bytes a pod; 534 when it was measured with Python 3.11, 714 before equal values were shared


def lines() -> list[bytes]:
    """As a server sends them: of two owners, with nothing in common but what is equal."""
    owners = [owned_by("11111111-1111-1111-1111-111111111111"), owned_by("22222222-2222-2222-2222-222222222222")]
    return [
        encode_object({"type": "ADDED", "object": pod(f"pod-{i:05}", version=1000 + i, owner=owners[i % 2])})
        for i in range(COUNT)
    ]


def listed(table: Table, received: list[bytes]) -> int:
    """Fill the table; returns how many bytes of JSON it keeps."""
    entries = []
    for line in received:
        obj = parse_watch_line(line).object
        entries.append(table.make_entry(obj, strip(obj)))
    table.claim().replace(entries, 5000)
    return sum(len(entry.raw) for entry in entries)


def test_an_entry_of_a_pod_takes_little_beside_its_json() -> None:
    received = lines()
    listed(Table(PODS, derive=pod_facts), received[:2])  # what is shared by all tables
    table = Table(PODS, derive=pod_facts)
    tracemalloc.start()
    try:
        raw = listed(table, received)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (kept - raw) / COUNT < MOST_BESIDE


def test_objects_with_equal_values_share_them() -> None:
    table = Table(PODS, derive=pod_facts)
    listed(table, lines())
    assert len({id(entry.values) for entry in table.entries()}) == 2
    assert len({id(entry.controller) for entry in table.entries()}) == 2
