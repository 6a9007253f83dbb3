from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.runtime.client.retries import MAX_RETRIES, is_read, retry_delay


@pytest.mark.parametrize(
    ("method", "status", "retry_after", "retries", "remaining", "delay"),
    [
        ("POST", 429, 1.0, 0, 30.0, 1.0),
        ("GET", 429, 1.0, 0, 30.0, 1.0),
        ("POST", 503, 2.0, 0, 30.0, 2.0),
        ("GET", 500, 2.0, 0, 30.0, 2.0),
        ("GET", 504, 2.0, 0, 30.0, 2.0),
        ("POST", 500, 2.0, 0, 30.0, None),  # its outcome is unknown
        ("PUT", 504, 2.0, 0, 30.0, None),
        ("GET", 429, 0.0, 0, 30.0, None),  # without Retry-After
        ("GET", 503, 0.0, 0, 30.0, None),
        ("GET", 409, 1.0, 0, 30.0, None),
        ("GET", 200, 1.0, 0, 30.0, None),
        ("GET", 0, 1.0, 0, 30.0, None),
        ("GET", 429, 1.0, MAX_RETRIES - 1, 30.0, 1.0),
        ("GET", 429, 1.0, MAX_RETRIES, 30.0, None),
        ("GET", 429, 1.0, 0, 1.0, None),  # would begin after its timeout
        ("GET", 429, 1.0, 0, 1.5, 1.0),
    ],
)
def test_request_is_retried_after_retry_after_if_time_is_left(
    method: str, status: int, retry_after: float, retries: int, remaining: float, delay: float | None
) -> None:
    assert delay == retry_delay(
        method=method, status=status, retry_after=retry_after, retries=retries, remaining=remaining
    )


@given(
    status=st.integers(0, 599),
    retry_after=st.floats(0, 100),
    retries=st.integers(0, 20),
    remaining=st.floats(-10, 100),
)
def test_write_is_retried_only_after_a_response_that_rejects_it(
    status: int, retry_after: float, retries: int, remaining: float
) -> None:
    delay = retry_delay(method="POST", status=status, retry_after=retry_after, retries=retries, remaining=remaining)
    assert delay is None or (status in (429, 503) and 0 < delay < remaining and retries < MAX_RETRIES)


@pytest.mark.parametrize(
    ("method", "read"),
    [("GET", True), ("HEAD", True), ("POST", False), ("PUT", False), ("PATCH", False), ("DELETE", False)],
)
def test_only_reads_are_repeatable(method: str, read: bool) -> None:
    assert is_read(method) is read
