"""Shrinking a failing plan to the faults that matter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.runtime.simulation.shrinker import shrunk


@pytest.mark.parametrize("needed", [{7}, {0, 19}, {3, 4, 11}])
def test_only_the_faults_that_make_it_fail_are_left(needed: set[int]) -> None:
    assert set(shrunk(range(20), lambda plan: needed <= set(plan))) == needed


def test_a_run_that_fails_without_faults_needs_none() -> None:
    assert shrunk(range(8), lambda _plan: True) == ()


def test_a_plan_of_which_every_part_matters_is_left_alone() -> None:
    assert shrunk(range(5), lambda plan: len(plan) == 5) == (0, 1, 2, 3, 4)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(0, 30))
def test_the_result_fails_and_its_order_is_the_plans(plan: list[int], least: int) -> None:
    def fails(part: tuple[int, ...]) -> bool:
        return sum(part) >= min(least, sum(plan))

    kept = shrunk(plan, fails)
    assert fails(kept)
    rest = iter(plan)
    assert all(item in rest for item in kept)


def test_no_more_runs_are_made_than_allowed() -> None:
    runs: list[tuple[int, ...]] = []

    def fails(part: tuple[int, ...]) -> bool:
        runs.append(part)
        return 99 in part

    assert 99 in shrunk(range(100), fails, most_runs=5)
    assert len(runs) == 5
