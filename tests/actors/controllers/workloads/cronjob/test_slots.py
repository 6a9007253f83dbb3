"""Slots that are due, number of missed slots, and delay until the next slot.

Source of the cases: kubernetes v1.36 pkg/controller/cronjob/utils_test.go. Times are after ten o'clock on a Thursday.
"""

from __future__ import annotations

from datetime import UTC

import pytest

from kcm.actors.controllers.workloads.cronjob.jobs import surplus_jobs
from kcm.actors.controllers.workloads.cronjob.slots import (
    MANY_MISSED,
    NoSlotError,
    latest_due,
    seconds_to_next,
    unhandled_since,
    within_deadline,
)
from kcm.protocols.objects import name_of
from kcm.protocols.times import format_time, parse_time
from kcm.runtime.scheduling.cron_schedules import parse_schedule
from tests.actors.controllers.workloads.cronjob.cron_jobs import DAY, HOURLY, cron_job, job

TEN = parse_time(DAY + "10:00:00Z")
MINUTE, HOUR, DAYS = 60, 3600, 86400
WORKDAYS, NOONS = "30 6-16/4 * * 1-5", "30 10,11,12 * * 1-5"
FEW, NONE = "few", "none"


def missed_in_words(missed: int) -> str:
    return "many" if missed > MANY_MISSED else FEW if missed else NONE


@pytest.mark.parametrize(
    ("schedule", "since", "now", "slot", "missed"),
    [
        (HOURLY, 0, 30, None, NONE),
        (HOURLY, 0, 61 * MINUTE, HOUR, NONE),
        (HOURLY, 10, 301 * MINUTE, 300 * MINUTE, FEW),
        (WORKDAYS, 30 * MINUTE, DAYS + 31 * MINUTE, DAYS + 30 * MINUTE, FEW),
        (WORKDAYS, 30 * MINUTE, 4 * DAYS + 31 * MINUTE, 4 * DAYS + 30 * MINUTE, FEW),
        (WORKDAYS, 0, DAYS + 31 * MINUTE, DAYS + 30 * MINUTE, FEW),
        # Missed, and not found: the interval of the first two slots is shorter than the others.
        (NOONS, 30 * MINUTE, 30 * HOUR + 30 * MINUTE, None, FEW),
        ("@every 1h", MINUTE, 7 * DAYS, 6 * DAYS + 23 * HOUR + MINUTE, "many"),
        ("*/5 * * * *", 30 * MINUTE, 31 * MINUTE, None, NONE),
    ],
)
def test_latest_due_slot(schedule: str, since: float, now: float, slot: float | None, missed: str) -> None:
    due = latest_due(parse_schedule(schedule, UTC), since=TEN + since, now=TEN + now)
    assert (None if due.slot is None else due.slot - TEN, missed_in_words(due.missed)) == (slot, missed)


def test_schedule_without_times_has_no_slot() -> None:
    with pytest.raises(NoSlotError, match="time difference between two schedules is less than 1 second"):
        latest_due(parse_schedule("59 23 31 2 *", UTC), since=TEN, now=TEN + HOUR)


@pytest.mark.parametrize(
    ("last", "deadline", "now", "since", "in_time"),
    [
        (None, None, 30, -MINUTE, -MINUTE),
        (0, None, 30, 0, 0),
        (30 * MINUTE, 60, 31 * MINUTE, 30 * MINUTE, 30 * MINUTE),
        (30 * MINUTE, 60, 32 * MINUTE, 30 * MINUTE, 31 * MINUTE),
        (30 * MINUTE, 2**62, 32 * MINUTE, 30 * MINUTE, 30 * MINUTE),
    ],
)
def test_slots_before_the_deadline_are_not_started(
    last: float | None, deadline: int | None, now: float, since: float, in_time: float
) -> None:
    begin = unhandled_since(cron_job(last="" if last is None else format_time(TEN + last)))
    assert (begin - TEN, within_deadline(begin, deadline, now=TEN + now) - TEN) == (since, in_time)


@pytest.mark.parametrize(
    ("schedule", "since", "now", "wait"),
    [
        (WORKDAYS, 30 * MINUTE, DAYS + 31 * MINUTE, 3 * HOUR + 59 * MINUTE),
        (NOONS, 30 * MINUTE, 30 * HOUR + 30 * MINUTE, 66 * HOUR),
        ("0 12 * * 4", 2 * HOUR, 19 * DAYS + 90 * MINUTE, 2 * DAYS + 30 * MINUTE),
        ("0 12 * * 5", 0, 6 * HOUR, 20 * HOUR),
    ],
)
def test_delay_until_the_next_slot(schedule: str, since: float, now: float, wait: float) -> None:
    found = seconds_to_next(parse_schedule(schedule, UTC), since=TEN + since, now=TEN + now)
    assert found == pytest.approx(wait + 0.1)


@pytest.mark.parametrize(
    ("first", "second", "order"),
    [("", "", "ab"), ("", "09", "ba"), ("09", "", "ab"), ("09", "09", "ab"), ("10", "09", "ba")],
)
def test_jobs_are_ordered_by_start_time(first: str, second: str, order: str) -> None:
    """Order the Jobs a and b by the hour of their start; "" is a Job that has not started."""
    started = ("a", first), ("b", second)
    jobs = [job(name, started=f"{DAY}{hour}:00:00Z" if hour else "") for name, hour in started]
    assert "".join(map(name_of, surplus_jobs(jobs, 0))) == order
