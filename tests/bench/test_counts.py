from __future__ import annotations

import json

import pytest

from tests.bench import counts
from tests.bench.counts import Difference, accept, compare, failure_text, recorded, take, this_python


def test_hot_path_costs_no_more_than_recorded():
    python = this_python()
    figures = recorded()["figures"].get(python)
    if figures is None:
        pytest.skip(f"no counts are recorded for {python}; to record them: {counts.ACCEPT}")
    taken = {scene: costs["cost"] for scene, costs in take().items()}
    risen = [difference for difference in compare(figures, taken) if difference.has_risen]
    assert not risen, "\n" + failure_text(risen, python=python)


def test_count_that_rises_by_more_than_five_percent_is_reported_with_recorded_value():
    taken = {"a get": {"bytecodes": 106.0, "c_calls": 105.0, "codings": 1.0}}
    differences = compare({"a get": {"bytecodes": 100.0, "c_calls": 100.0, "codings": 0.0}}, taken)

    risen = [difference for difference in differences if difference.has_risen]

    assert [difference.figure for difference in risen] == ["bytecodes", "codings"]
    text = failure_text(risen, python="CPython 3.11")
    assert "a get: bytecodes 100 → 106 (+6.0 %)" in text
    assert "bin/run-bench counts --accept" in text


def test_usual_variation_of_memory_does_not_count_as_a_rise():
    assert not Difference("a get", "kept_blocks", 0.3, 1.2).has_risen
    assert Difference("a get", "kept_blocks", 40.0, 44.0).has_risen


def test_unrecorded_count_has_neither_risen_nor_fallen():
    (new,) = compare({}, {"a get": {"bytecodes": 106.0}})

    assert (new.has_risen, new.has_fallen) == (False, False)
    assert str(new) == "a get: bytecodes not recorded → 106"


def test_accepted_counts_are_recorded_with_reason_and_python_version(tmp_path, monkeypatch):
    monkeypatch.setattr(counts, "RECORD", tmp_path / "counts.json")
    accept({"a get": {"bytecodes": 100.0}}, "the first", python="CPython 3.12")
    changed = accept({"a get": {"bytecodes": 110.0}}, "it does more", python="CPython 3.12")

    assert [str(difference) for difference in changed] == ["a get: bytecodes 100 → 110 (+10.0 %)"]
    record = json.loads((tmp_path / "counts.json").read_text())
    assert record["figures"] == {"CPython 3.12": {"a get": {"bytecodes": 110.0}}}
    assert [(entry["python"], entry["reason"]) for entry in record["accepted"]] == [
        ("CPython 3.12", "the first"),
        ("CPython 3.12", "it does more"),
    ]
