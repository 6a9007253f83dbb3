"""Which slots of a schedule are due, and when the next one is. Times are Unix seconds.

Source: kubernetes v1.36 pkg/controller/cronjob/utils.go (mostRecentScheduleTime, nextScheduleTimeDuration).
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.protocols.objects import Object, metadata
from kcm.protocols.times import parse_time
from kcm.runtime.scheduling.cron_times import Schedule

MANY = 100
DELTA = 0.1  # seconds after a slot, for clocks that differ


class NoSlotError(ValueError):
    """A schedule that is well-formed, and has no slots: on the 31st of February."""


class Due(NamedTuple):
    """slot: the latest that is due; None if none is. missed: about how many are, all in all."""

    slot: int | None
    missed: int


def earliest(cron_job: Object) -> float:
    """Slots after this are not yet done. Raises ValueError on what are no times."""
    last = (cron_job.get("status") or {}).get("lastScheduleTime")
    return parse_time(last or str(metadata(cron_job).get("creationTimestamp")))


def still_in_time(cron_job: Object, now: float) -> float:
    """The same; what the deadline has left behind is not started any more.

    An "@every" that is longer than the deadline is never due, as upstream: it counts from here.
    """
    deadline = cron_job["spec"].get("startingDeadlineSeconds")
    since = earliest(cron_job)
    return since if deadline is None else max(since, now - deadline)


def latest_due(schedule: Schedule, *, since: float, now: float) -> Due:
    """The latest slot after `since`, and until now. Raises NoSlotError.

    The number is reckoned from the first two slots, so that a year of minutes costs no more than an hour of them. Where
    these are closer together than others it may be that slots are missed and none is found.
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
    # One step before the last that fits in: slots may lie unevenly, and those of "@every" have to keep their places.
    found, slot = None, schedule.next(first + (missed - 2) * gap)
    while slot is not None and slot <= now:
        found, slot = slot, schedule.next(slot)
    return Due(found, missed)


def seconds_to_next(schedule: Schedule, *, since: float, now: float) -> float | None:
    """Until shortly after the next slot; None if there is none."""
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
