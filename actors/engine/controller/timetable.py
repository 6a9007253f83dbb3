"""Timetable of periodic work of a controller: resyncs and cleanup."""

from __future__ import annotations

import math

TIDY = 60.0  # seconds between two cleanups of the overlay


class Timetable:
    """Schedule of periodic work, in monotonic seconds. Resyncs start with begin_resyncs."""

    def __init__(self, *, now: float, resync: float) -> None:
        """Create a timetable. resync: seconds between two resyncs; 0: never."""
        self._resync = resync
        self._tidy_at = now + TIDY
        self._resync_at = math.inf

    def begin_resyncs(self, now: float) -> None:
        if self._resync > 0:
            self._resync_at = now + self._resync

    def is_resync_due(self, now: float) -> bool:
        """Report whether a resync is due, once for each period."""
        if now < self._resync_at:
            return False
        self._resync_at = now + self._resync
        return True

    def is_tidying_due(self, now: float) -> bool:
        """Report whether a cleanup is due, once for each period."""
        if now < self._tidy_at:
            return False
        self._tidy_at = now + TIDY
        return True

    def next_due(self) -> float:
        return min(self._tidy_at, self._resync_at)
