"""Next times of a cron schedule, through changes to and from daylight saving time.

A time in a skipped hour is not due that day; a time in a repeated hour is due twice.

Source: github.com/robfig/cron v3 spec.go, constantdelay.go. Difference: if a zone skipped a whole day
(Pacific/Apia, 2011), the search continues; upstream's never ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import tzinfo
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from kcm.runtime.scheduling.time_zones import moment_of, wall_time

_YEARS = 5  # limit of the search
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


class Schedule(Protocol):
    def next(self, after: float) -> int | None:
        """Return the first time later than `after`, in Unix seconds, or None if none is within five years."""


class Every(Struct, frozen=True):
    """Schedule of "@every". delay: seconds, at least 1."""

    delay: int

    def next(self, after: float) -> int | None:
        return math.floor(after) + self.delay


class Fields(Struct, frozen=True, kw_only=True):
    """Schedule of five fields.

    days_of_week: 0 is Sunday.
    any_day: one of the two fields of days is a star, so that both must match; otherwise one match suffices.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    days_of_week: frozenset[int]
    any_day: bool
    zone: tzinfo

    def next(self, after: float) -> int | None:
        if not (self.minutes and self.hours):
            return None
        try:
            start = math.floor(after) + 1
        except (ValueError, OverflowError):
            return None
        return _first(self, start)


@lru_cache(maxsize=4096)
def _first(fields: Fields, start: int) -> int | None:
    """Return the first time from `start` on. Cached, because CronJobs often share a schedule."""
    try:
        return _Search(fields, start).run()
    except (ValueError, OverflowError):  # beyond the year 9999
        return None


class _Search:
    """Search for the next matching time, the largest unit first, as upstream's SpecSchedule.Next.

    A unit that does not match is incremented; the first increment also resets the smaller units. If an increment
    overflows into the next larger unit, the search restarts with that unit.
    """

    def __init__(self, fields: Fields, start: int) -> None:
        self._fields, self._begun = fields, False
        self._to(start)

    def run(self) -> int | None:
        last = self._wall.year + _YEARS
        while self._wall.year <= last:
            if self._month() and self._day() and self._hour() and self._minute() and self._second():
                return self._moment
        return None

    def _to(self, moment: int) -> None:
        self._moment, self._wall = moment, wall_time(self._fields.zone, moment)

    def _show(self, *, month: int | None = None, day: int | None = None, time: Iterable[int] | None = None) -> None:
        """Move to the time with this month, day and time of day, and the current values for the others."""
        wall = self._wall
        time = (wall.hour, wall.minute, wall.second) if time is None else time
        moment = moment_of(self._fields.zone, wall.year, month or wall.month, day or wall.day, *time)
        self._to(moment)

    def _is_first_step(self) -> bool:
        first, self._begun = not self._begun, True
        return first

    def _month(self) -> bool:
        while self._wall.month not in self._fields.months:
            if self._is_first_step():
                self._show(day=1, time=(0, 0, 0))
            self._show(month=self._wall.month + 1)
            if self._wall.month == 1:
                return False
        return True

    def _day(self) -> bool:
        while not self._is_day():
            if self._is_first_step():
                self._show(time=(0, 0, 0))
            before = self._moment
            self._show(day=self._wall.day + 1)
            if self._moment <= before:
                self._to(before + _DAY)
            hour = self._wall.hour  # not midnight if a clock change skipped midnight
            if hour:
                self._to(self._moment + ((24 - hour) if hour > 12 else -hour) * _HOUR)
            if self._wall.day == 1:
                return False
        return True

    def _is_day(self) -> bool:
        fields, wall = self._fields, self._wall
        of_month, of_week = wall.day in fields.days, wall.isoweekday() % 7 in fields.days_of_week
        return of_month and of_week if fields.any_day else of_month or of_week

    def _hour(self) -> bool:
        while self._wall.hour not in self._fields.hours:
            if self._is_first_step():
                self._show(time=(self._wall.hour, 0, 0))
            self._to(self._moment + _HOUR)
            if self._wall.hour == 0:
                return False
        return True

    def _minute(self) -> bool:
        while self._wall.minute not in self._fields.minutes:
            if self._is_first_step():
                self._to(self._moment - self._moment % _MINUTE)
            self._to(self._moment + _MINUTE)
            if self._wall.minute == 0:
                return False
        return True

    def _second(self) -> bool:
        if self._wall.second == 0:
            return True
        self._begun = True
        self._to(self._moment + _MINUTE - self._wall.second)
        return False
