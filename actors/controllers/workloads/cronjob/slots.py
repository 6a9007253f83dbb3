"""Computation of the slots (scheduled times) of a CronJob that are due, and of the next slot. Times are Unix seconds.

Source: kubernetes v1.36 pkg/controller/cronjob/utils.go (mostRecentScheduleTime, nextScheduleTimeDuration).
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.protocols.objects import Object, metadata
from kcm.protocols.times import parse_time
from kcm.runtime.scheduling.cron_times import Schedule

MANY_MISSED = 100  # number of missed slots above which the event TooManyMissedTimes is recorded
DELTA = 0.1  # seconds added to the delay until the next slot, because clocks differ; upstream's nextScheduleDelta


class NoSlotError(ValueError):
    """Raised for a well-formed schedule that has no slots, such as the 31st of February."""


class Due(NamedTuple):
    """Slots of a schedule that are due: the latest slot, and how many there are."""

    slot: int | None  # the latest slot that is due; None if no slot is due
    missed: int  # approximate number of slots that are due, including the latest


def unhandled_since(cron_job: Object) -> float:
    """Return the time after which slots of the CronJob have not been handled yet.

    This is status.lastScheduleTime, or the creation time of the CronJob. Raises ValueError if it is malformed.
    """
    last = (cron_job.get("status") or {}).get("lastScheduleTime")
    return parse_time(last or str(metadata(cron_job).get("creationTimestamp")))


def within_deadline(since: float, deadline: int | None, *, now: float) -> float:
    """Return the later of `since` and the time before which slots are too old to be started.

    As upstream, an "@every" schedule with an interval longer than the deadline is never due, because its intervals are
    counted from the result.

    deadline: startingDeadlineSeconds of the CronJob; None without a deadline.
    """
    return since if deadline is None else max(since, now - deadline)


def latest_due(schedule: Schedule, *, since: float, now: float) -> Due:
    """Return the latest slot after `since` and not after `now`, and the number of slots in this period.

    The number is estimated from the interval between the first two slots, so that the computation is fast even if there
    are very many. If other intervals are longer, the estimate is too high, and `slot` may be None although `missed` is
    positive.

    Raises NoSlotError if the schedule has no slots. Source: mostRecentScheduleTime.
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
    # Begin one interval earlier than the estimate, because intervals differ, and slots of "@every" depend on the start.
    found, slot = None, schedule.next(first + (missed - 2) * gap)
    while slot is not None and slot <= now:
        found, slot = slot, schedule.next(slot)
    return Due(found, missed)


def seconds_to_next(schedule: Schedule, *, since: float, now: float, due: Due | None = None) -> float | None:
    """Return the seconds until DELTA after the next slot; None if there is no further slot.

    since: time of the last handled slot.
    due: result of latest_due for the same times, if it is known.

    Source: nextScheduleTimeDuration.
    """
    try:
        due = latest_due(schedule, since=since, now=now) if due is None else due
    except NoSlotError:
        base = now
    else:
        if due.slot is not None:
            base = due.slot
        else:
            base = now if due.missed else since
    slot = schedule.next(base)
    return None if slot is None else max(slot + DELTA - now, 0.0)
