from __future__ import annotations

import json

import pytest

from tests.bench import counts
from tests.bench.counts import Difference, accept, compare, complaint, recorded, take, this_python


def test_the_hot_path_costs_no_more_than_what_is_recorded():
    """In counts, which no load of the machine changes. If it fails, it says what to do."""
    python = this_python()
    figures = recorded()["figures"].get(python)
    if figures is None:
        pytest.skip(f"no counts are recorded for {python}; to record them: {counts.ACCEPT}")
    taken = {scene: found["cost"] for scene, found in take().items()}
    risen = [one for one in compare(figures, taken) if one.has_risen]
    assert not risen, "\n" + complaint(risen, python=python)


def test_a_count_that_rises_by_more_than_five_percent_is_named_with_what_it_was():
    taken = {"a get": {"bytecodes": 106.0, "c_calls": 105.0, "codings": 1.0}}
    differences = compare({"a get": {"bytecodes": 100.0, "c_calls": 100.0, "codings": 0.0}}, taken)

    risen = [one for one in differences if one.has_risen]

    assert [one.figure for one in risen] == ["bytecodes", "codings"]
    said = complaint(risen, python="CPython 3.11")
    assert "a get: bytecodes 100 → 106 (+6.0 %)" in said
    assert "bin/run-bench counts --accept" in said


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

    assert [str(one) for one in changed] == ["a get: bytecodes 100 → 110 (+10.0 %)"]
    record = json.loads((tmp_path / "counts.json").read_text())
    assert record["figures"] == {"CPython 3.12": {"a get": {"bytecodes": 110.0}}}
    assert [(one["python"], one["reason"]) for one in record["accepted"]] == [
        ("CPython 3.12", "the first"),
        ("CPython 3.12", "it does more"),
    ]
