"""Token buckets with explicit times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.runtime.scheduling.limiters import TokenBucket


def test_bucket_permits_its_burst_and_then_its_rate() -> None:
    bucket = TokenBucket(qps=10.0, burst=3, now=0.0)
    assert [bucket.try_take(0.0) for _ in range(4)] == [True, True, True, False]
    assert bucket.next_token(0.0) == pytest.approx(0.1)
    assert not bucket.try_take(0.09)
    assert bucket.try_take(0.1)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.001, 1000.0), st.floats(0.0, 1e6))
def test_token_is_available_at_the_predicted_time(qps: float, start: float) -> None:
    bucket = TokenBucket(qps=qps, burst=1, now=start)
    assert bucket.try_take(start)
    assert bucket.try_take(bucket.next_token(start))


def test_rate_of_zero_permits_nothing_and_negative_rate_everything() -> None:
    nothing = TokenBucket(qps=0.0, burst=1, now=0.0)
    assert nothing.try_take(0.0)
    assert not nothing.try_take(1e9)
    assert nothing.next_token(0.0) == math.inf
    everything = TokenBucket(qps=-1.0, burst=1, now=0.0)
    assert all(everything.try_take(0.0) for _ in range(1000))


def test_reserved_tokens_are_spread_over_time_until_the_limit() -> None:
    bucket = TokenBucket(qps=2.0, burst=2, now=0.0)
    assert [bucket.reserve(0.0, until=1.0) for _ in range(5)] == [0.0, 0.0, 0.5, 1.0, None]
    assert not bucket.try_take(1.0), "both tokens of the first second are reserved"
    assert bucket.try_take(1.5)


def test_nothing_is_reserved_without_tokens_and_everything_without_a_limit() -> None:
    nothing = TokenBucket(qps=0.0, burst=1, now=0.0)
    assert [nothing.reserve(0.0, until=100.0) for _ in range(2)] == [0.0, None]
    everything = TokenBucket(qps=-1.0, burst=1, now=0.0)
    assert [everything.reserve(5.0, until=5.0) for _ in range(3)] == [5.0] * 3
