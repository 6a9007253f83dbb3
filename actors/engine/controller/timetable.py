"""Timetable of periodic work of a controller: resyncs and cleanup."""

from __future__ import annotations

import math

TIDY = 60.0  # seconds between two cleanups of the overlay


class Timetable:
    """Schedule of periodic work, in monotonic seconds. Resyncs start with begin_resyncs.

    due: when the next work is due.
    """

    def __init__(self, *, now: float, resync: float) -> None:
        """Create a timetable. resync: seconds between two resyncs; 0: never."""
        self._resync = resync
        self._tidy_at = now + TIDY
        self._resync_at = math.inf
        self.due = self._tidy_at

    def begin_resyncs(self, now: float) -> None:
        if self._resync > 0:
            self._resync_at = now + self._resync
        self._set_due()

    def is_resync_due(self, now: float) -> bool:
        """Report whether a resync is due, once for each period."""
        if now < self._resync_at:
            return False
        self._resync_at = now + self._resync
        self._set_due()
        return True

    def is_tidying_due(self, now: float) -> bool:
        """Report whether a cleanup is due, once for each period."""
        if now < self._tidy_at:
            return False
        self._tidy_at = now + TIDY
        self._set_due()
        return True

    def _set_due(self) -> None:
        self.due = min(self._tidy_at, self._resync_at)
