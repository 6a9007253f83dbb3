"""Permits: deadlines for the start of a request or call, passed to the thread that starts it.

It does not suffice that a leader checks its lease before it passes a write to another thread, because that thread may
run seconds later. So a permit is passed with the write, and checked just before the first byte is sent.
"""

from __future__ import annotations

import math

from msgspec import Struct


class Tenure:
    """Time until which this process holds its lease, by the clock's monotonic(). Expired at first.

    A process that acquires its lease again has a new tenure, so that no permit of the earlier one becomes valid again.

    One thread at a time extends and ends it; any thread may read it.
    """

    def __init__(self) -> None:
        self.until = -math.inf

    def extend(self, until: float) -> None:
        self.until = until

    def end(self) -> None:
        """End at once, for example when the lease is released and another process may acquire it."""
        self.until = -math.inf


class Terms:
    """The present tenure of each lease of a process, by the lease's elector. Outlives the dispatcher."""

    def __init__(self) -> None:
        self._tenures: dict[str, Tenure] = {}

    def of(self, elector: str) -> Tenure:
        tenure = self._tenures.get(elector)
        if tenure is None:
            tenure = self._tenures[elector] = Tenure()
        return tenure

    def end(self, elector: str) -> None:
        """End the present tenure, with all permits that are based on it."""
        self.of(elector).end()
        self._tenures[elector] = Tenure()


class Permit(Struct, frozen=True):
    """Permission to start a request or call.

    until: by the clock's monotonic(); a request that is still running then is cancelled, if possible.
    tenure: the permit also ends with it; None if no lease is required.
    """

    until: float = math.inf
    tenure: Tenure | None = None

    def is_over(self, now: float) -> bool:
        return now >= self.until or (self.tenure is not None and now >= self.tenure.until)

    def within(self, until: float) -> Permit:
        """Return the permit, limited to this time."""
        return self if self.until <= until else Permit(until, self.tenure)


ALWAYS = Permit()
