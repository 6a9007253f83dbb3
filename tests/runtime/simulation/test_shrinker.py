"""Shrinking of a failing plan to the necessary faults."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.runtime.simulation.shrinker import shrunk


@pytest.mark.parametrize("needed", [{7}, {0, 19}, {3, 4, 11}])
def test_only_faults_that_cause_the_failure_remain(needed: set[int]) -> None:
    assert set(shrunk(range(20), lambda plan: needed <= set(plan))) == needed


def test_run_that_fails_without_faults_shrinks_to_an_empty_plan() -> None:
    assert shrunk(range(8), lambda _plan: True) == ()


def test_plan_whose_faults_are_all_necessary_is_unchanged() -> None:
    assert shrunk(range(5), lambda plan: len(plan) == 5) == (0, 1, 2, 3, 4)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(0, 30))
def test_shrunk_plan_fails_and_keeps_the_order(plan: list[int], least: int) -> None:
    def fails(part: tuple[int, ...]) -> bool:
        return sum(part) >= min(least, sum(plan))

    kept = shrunk(plan, fails)
    assert fails(kept)
    rest = iter(plan)
    assert all(item in rest for item in kept)


def test_number_of_runs_is_limited() -> None:
    runs: list[tuple[int, ...]] = []

    def fails(part: tuple[int, ...]) -> bool:
        runs.append(part)
        return 99 in part

    assert 99 in shrunk(range(100), fails, most_runs=5)
    assert len(runs) == 5
