"""Slots of a schedule: the scheduled times that are due, and the next one. Times are Unix seconds.

Source: kubernetes v1.36 pkg/controller/cronjob/utils.go (mostRecentScheduleTime, nextScheduleTimeDuration).
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.protocols.objects import Object, metadata
from kcm.protocols.times import parse_time
from kcm.runtime.scheduling.cron_times import Schedule

MANY = 100  # missed slots after which TooManyMissedTimes is recorded
DELTA = 0.1  # seconds added to the next slot, because clocks differ; upstream's nextScheduleDelta


class NoSlotError(ValueError):
    """A well-formed schedule without slots, such as the 31st of February."""


class Due(NamedTuple):
    """Result of latest_due."""

    slot: int | None  # the latest slot that is due; None without one
    missed: int  # approximate number of slots that are due


def earliest(cron_job: Object) -> float:
    """Return the time of the last handled slot, or of the creation. Raises ValueError if the times are malformed."""
    last = (cron_job.get("status") or {}).get("lastScheduleTime")
    return parse_time(last or str(metadata(cron_job).get("creationTimestamp")))


def within_deadline(since: float, deadline: int | None, *, now: float) -> float:
    """Return `since`, moved forward so that no slot before the deadline is started.

    As upstream, an "@every" with an interval longer than the deadline is never due, because it counts from here.

    deadline: startingDeadlineSeconds.
    """
    return since if deadline is None else max(since, now - deadline)


def latest_due(schedule: Schedule, *, since: float, now: float) -> Due:
    """Return the latest slot after `since` and until `now`. Raises NoSlotError. Source: mostRecentScheduleTime.

    The number of missed slots is estimated from the interval between the first two, so that a year of minutes costs no
    more than an hour of minutes. If that interval is shorter than others, slots may be missed although none is found.
    """
    first = schedule.next(since)
    if first is not None and now < first:
        return Due(None, 0)
    second = None if first is None else schedule.next(first)
    if first is not None and second is not None and now < second:
        return Due(first, 0)
    if first is None or second is None or second - first < 1:
        raise NoSlotError("time difference between two schedules is less than 1 second")
    gap = second - first
    missed = int(now - first) // gap + 1
    # Begin one interval earlier than the estimate: intervals differ, and slots of "@every" depend on the start.
    found, slot = None, schedule.next(first + (missed - 2) * gap)
    while slot is not None and slot <= now:
        found, slot = slot, schedule.next(slot)
    return Due(found, missed)


def seconds_to_next(schedule: Schedule, *, since: float, now: float) -> float | None:
    """Return the seconds until shortly after the next slot; None without one. Source: nextScheduleTimeDuration."""
    try:
        due = latest_due(schedule, since=since, now=now)
    except NoSlotError:
        base = now
    else:
        if due.slot is not None:
            base = due.slot
        else:
            base = now if due.missed else since
    slot = schedule.next(base)
    return None if slot is None else max(slot + DELTA - now, 0.0)
