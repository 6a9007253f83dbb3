from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.actors.controllers.shared.replacements import QUICK, ReplacementDelay, Replacements, next_delay
from kcm.runtime.scheduling.backoff import Backoff

SHORT = Backoff(first=1.0, most=10.0)


def failing_at_once(delay: ReplacementDelay, start: float, rounds: int) -> tuple[ReplacementDelay | list[float], ...]:
    """Return when a pod is created that fails at once each time."""
    now, times = start, []
    for _ in range(rounds):
        times.append(now)
        delay = next_delay(delay, quick_failures=1, missing=1, now=now, backoff=SHORT)
        assert delay.held == 1
        now = delay.until
    return times, delay


def test_delay_doubles_up_to_the_maximum() -> None:
    times, _ = failing_at_once(ReplacementDelay(), 0.0, 7)
    assert times == [0, 1, 3, 7, 15, 25, 35]


# seconds since the delay was last increased, the next delay
QUIET = [(10.0, 10.0), (20.0, 10.0), (20.1, 1.0), (1000.0, 1.0)]


@pytest.mark.parametrize(("quiet", "wait"), QUIET)
def test_delay_starts_over_after_twice_the_maximum(quiet: float, wait: float) -> None:
    _, delay = failing_at_once(ReplacementDelay(), 0.0, 7)
    now = delay.since + quiet
    delay = next_delay(delay, quick_failures=1, missing=1, now=now, backoff=SHORT)
    assert delay.until == now + wait


# delayed before, and until when; failed at once, missing, now; delayed after, and until when
CASES = {
    "nothing fails": (0, -1.0, 0, 5, 0.0, 0, -1.0),
    "nothing is missing, so nothing is held": (2, 5.0, 0, 0, 0.0, 0, 5.0),
    "there is too much": (2, 5.0, 0, -3, 0.0, 0, 5.0),
    "what failed at once is held": (0, -1.0, 2, 5, 0.0, 2, 1.0),
    "no more than is missing": (0, -1.0, 7, 5, 0.0, 5, 1.0),
    "more failures join the wait": (2, 5.0, 1, 5, 0.0, 3, 5.0),
    "the wait goes on": (2, 5.0, 0, 5, 4.9, 2, 5.0),
    "the wait is over": (2, 5.0, 0, 5, 5.0, 0, 5.0),
    "the wait is over for those that were held and begins for others": (2, 5.0, 1, 5, 5.0, 1, 6.0),
}


@pytest.mark.parametrize(("held", "until", "failed", "missing", "now", "then", "wait"), CASES.values(), ids=CASES)
def test_number_of_delayed_replacements(
    held: int, until: float, failed: int, missing: int, now: float, then: int, wait: float
) -> None:
    before = ReplacementDelay(held=held, until=until)
    after = next_delay(before, quick_failures=failed, missing=missing, now=now, backoff=SHORT)
    assert (after.held, after.until) == (then, wait)


@given(st.lists(st.tuples(st.floats(0, 60), st.integers(0, 5), st.integers(-2, 9)), max_size=40))
def test_delayed_replacements_are_bounded_in_number_and_time(
    steps: Sequence[tuple[float, ...]],
) -> None:
    delay, now = ReplacementDelay(), 0.0
    for seconds, failed, missing in steps:
        now += seconds
        delay = next_delay(delay, quick_failures=failed, missing=missing, now=now, backoff=SHORT)
        assert 0 <= delay.held <= max(0, missing)
        assert delay.held == 0 or now < delay.until <= now + SHORT.most


def test_pod_that_fails_at_once_is_counted_once() -> None:
    replacements = Replacements("uid")
    replacements.record_creations(["a", "b", "c"], 0.0)
    assert replacements.count_quick_failures(["a", "old"], 1.0) == 1
    assert replacements.count_quick_failures(["a", "b", "old"], 2.0) == 1
    assert replacements.count_quick_failures(["a", "b", "old"], 3.0) == 0


@pytest.mark.parametrize(("lived", "counts"), [(QUICK, 1), (QUICK + 0.1, 0)])
def test_pod_that_ran_for_a_while_has_not_failed_at_once(lived: float, counts: int) -> None:
    replacements = Replacements("uid")
    replacements.record_creations(["a"], 500.0)
    assert replacements.count_quick_failures(["a"], 500.0 + lived) == counts
