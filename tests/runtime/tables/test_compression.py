"""Compressed entries: their JSON, which of them are compressed, and the memory of a table."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.informer import contents
from kcm.actors.engine.informer.contents import Contents
from kcm.protocols.objects import Object
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import PODS
from kcm.protocols.watch_lines import strip
from kcm.runtime.tables import cold_entries
from kcm.runtime.tables.cold_entries import EVERY, ColdEntries
from kcm.runtime.tables.compression import LEAST, MOST, NEXT_SAMPLE, WORTHWHILE, Compressor
from kcm.runtime.tables.table import Entry, Table, TableWriter
from tests.runtime.tables.conftest import entry
from tests.support.objects import pod

ENVIRONMENT = [{"name": f"SETTING_{number}", "value": f"value {number}"} for number in range(40)]
COUNT = 50


def large_pod(name: str, *, version: int) -> Object:
    obj = pod(name, version=version)
    obj["spec"]["containers"] = [{"name": "main", "image": "nginx:1", "env": ENVIRONMENT}]
    return obj


def listed(table: Table, writer: TableWriter, versions: range = range(1, COUNT + 1)) -> None:
    """Replace the table by a list of pods."""
    pods = [large_pod(f"pod-{version:03}", version=version) for version in versions]
    writer.replace([entry(table, each) for each in pods], versions.stop)


def compressed(table: Table) -> set[str]:
    return {each.key.removeprefix("default/") for each in table.entries() if each.is_compressed}


@pytest.fixture
def small_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_entries, "LARGE", 10)
    monkeypatch.setattr(cold_entries, "SLICE", 20 * len(strip(large_pod("pod-000", version=1))))


def run_pass(cold: ColdEntries, tables: dict[str, Table], *, at: float) -> int:
    """Run a pass to its end, and return the number of calls."""
    calls = 1
    cold.look(tables, at)
    while cold._pass is not None:
        cold.look(tables, at)
        calls += 1
    return calls


texts = st.binary(max_size=3000)


@given(similar=st.lists(st.tuples(texts, st.sampled_from((LEAST, 2000, 9000, 40_000, MOST))), max_size=8), rest=texts)
def test_decompressed_json_equals_the_original(similar: list[tuple[bytes, int]], rest: bytes) -> None:
    compressor = Compressor()
    for text, size in similar:
        raw = text + b"x" * max(0, size - len(text) - len(rest)) + rest
        found = compressor.compress(raw)
        if found is not None:
            assert (found.json(), found.size) == (raw, len(raw))
            assert len(found.body) <= WORTHWHILE * len(raw)


def test_a_sample_is_replaced_when_objects_differ_from_it() -> None:
    compressor = Compressor()
    first, second = (random.Random(seed).randbytes(2000) for seed in (1, 2))
    assert compressor.compress(first) is None, "the sample"
    found = compressor.compress(first)
    assert found is not None
    assert found.sample is first
    results = [compressor.compress(second) for _ in range(NEXT_SAMPLE + 2)]
    assert [result.sample is second for result in results if result is not None][-1:] == [True]


@pytest.mark.parametrize("size", [LEAST - 1, MOST + 1])
def test_short_and_very_long_json_is_kept(size: int) -> None:
    compressor = Compressor()
    assert [compressor.compress(b"x" * size) for _ in range(3)] == [None] * 3


def test_compressed_entry_reads_as_before(table: Table, writer: TableWriter) -> None:
    listed(table, writer)
    before = {each.key: (each.raw, each.size) for each in table.entries()}
    assert sum(table.compress(each) for each in table.entries()) == COUNT - 1, "all but the sample"
    assert {each.key: (each.raw, each.size) for each in table.entries()} == before
    last = table.get("default/pod-050")
    assert last is not None
    assert table.object_of(last)["spec"]["containers"][0]["env"] == ENVIRONMENT
    assert table.decoded_entries() == [last]
    table.forget_decoded(last)
    assert table.decoded_entries() == []


@pytest.mark.usefixtures("small_passes")
def test_entries_without_a_change_since_the_pass_before_are_compressed(
    table: Table, writer: TableWriter, log: FilteringBoundLogger
) -> None:
    cold, tables = ColdEntries(0.0, log), {table.id: table}
    listed(table, writer)
    run_pass(cold, tables, at=EVERY)
    assert compressed(table) == set(), "the pass sees them for the first time"
    writer.put(entry(table, large_pod("pod-007", version=100)))
    cold.look(tables, 2 * EVERY - 0.1)
    assert compressed(table) == set(), "the next pass is not due"
    assert run_pass(cold, tables, at=2 * EVERY) == 4, "three slices, and the end"
    assert len(compressed(table)) == COUNT - 2
    assert not compressed(table) & {"pod-001", "pod-007"}, "the sample and the changed one"
    run_pass(cold, tables, at=3 * EVERY)
    assert "pod-007" in compressed(table)


@pytest.mark.usefixtures("small_passes")
def test_each_version_is_considered_once(
    table: Table, writer: TableWriter, log: FilteringBoundLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Entry] = []
    monkeypatch.setattr(table, "compress", lambda each: bool(asked.append(each)))
    cold, tables = ColdEntries(0.0, log), {table.id: table}
    listed(table, writer)
    for number in range(1, 5):
        run_pass(cold, tables, at=number * EVERY)
    assert len(asked) == COUNT
    listed(table, writer)
    for number in range(5, 8):
        run_pass(cold, tables, at=number * EVERY)
    assert len(asked) == 2 * COUNT, "a list brings new entries of the same versions"


@pytest.mark.usefixtures("small_passes")
def test_an_error_ends_the_compression_and_nothing_else(
    table: Table, writer: TableWriter, log: FilteringBoundLogger, logs: LogCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_entry: Entry) -> bool:
        raise ValueError("malformed")

    cold, tables = ColdEntries(0.0, log), {table.id: table}
    listed(table, writer)
    with monkeypatch.context() as patched:
        patched.setattr(table, "compress", fail)
        for number in range(1, 4):
            cold.look(tables, number * EVERY)
            cold.look(tables, number * EVERY)
    assert [line["event"] for line in logs.entries] == [
        "compression of entries failed, they stay as they are until the next start"
    ]
    cold.look(tables, 5 * EVERY)
    assert compressed(table) == set()


def test_entries_of_small_tables_stay_as_they_are(table: Table, writer: TableWriter, log: FilteringBoundLogger) -> None:
    cold = ColdEntries(0.0, log)
    listed(table, writer)
    for number in range(1, 4):
        run_pass(cold, {table.id: table}, at=number * EVERY)
    assert compressed(table) == set()


def test_objects_of_a_long_list_are_compressed_at_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "COMPRESSED_FROM", 10)
    filled = Contents(table, table.claim(), malformed=_fail, unreadable=_fail, healed=_fail)
    filled.begin_list()
    for version in range(1, COUNT + 1):
        filled.gather(large_pod(f"pod-{version:03}", version=version))
    filled.end_list(COUNT)
    assert len(compressed(table)) == COUNT - 10 - 1, "all but the first ten and the sample"


def test_a_compressed_pod_needs_a_fraction_of_the_memory() -> None:
    def kept(*, compress: bool) -> float:
        """Return the memory of a table, in bytes for each pod."""
        table = Table(PODS, derive=pod_facts)
        tracemalloc.start()
        try:
            entries = []
            for version in range(1, 501):
                obj = large_pod(f"pod-{version:03}", version=version)
                entries.append(table.make_entry(obj, strip(obj)))
                if compress:
                    table.compress(entries[-1])
                del obj
            table.claim().replace(entries, 500)
            return tracemalloc.get_traced_memory()[0] / 500
        finally:
            tracemalloc.stop()

    kept(compress=False)  # creates the values that all tables share
    assert kept(compress=True) < kept(compress=False) / 2


def _fail(*arguments: object) -> None:
    raise AssertionError(arguments)
