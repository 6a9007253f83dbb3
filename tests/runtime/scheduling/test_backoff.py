"""Delays between retries."""

from __future__ import annotations

import pytest

from kcm.runtime.scheduling.backoff import Backoff

BACKOFF = Backoff(first=0.5, factor=3.0, most=10.0)


def test_delays_grow_by_the_factor_up_to_the_maximum() -> None:
    assert [BACKOFF.delay(failures) for failures in range(5)] == [0.5, 1.5, 4.5, 10.0, 10.0]


def test_first_delay_is_the_minimum() -> None:
    assert BACKOFF.delay(-1) == 0.5


def test_any_number_of_failures_has_a_delay() -> None:
    assert BACKOFF.delay(10**6) == 10.0


@pytest.mark.parametrize(("chance", "delay"), [(0.0, 8.0), (0.5, 10.0), (0.999, 11.996)])
def test_jitter_is_added_to_the_maximum_delay_too(chance: float, delay: float) -> None:
    assert Backoff(first=8.0, most=8.0, jitter=0.5).delay(3, chance) == pytest.approx(delay)
