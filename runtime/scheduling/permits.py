"""Permits: deadlines for the start of a request or call, passed to the thread that starts it.

It does not suffice that a leader checks its lease before it passes a write to another thread, because that thread may
run seconds later. So a permit is passed with the write, and checked just before the first byte is sent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct


class Tenure:
    """Time until which this process holds its lease, by the clock's monotonic(). Expired at first.

    A process that acquires its lease again has a new tenure, so that no permit of the earlier one becomes valid again.

    One thread at a time extends and ends it; any thread may read it.
    """

    def __init__(self, outer: Tenure | None = None) -> None:
        """Create an expired tenure. outer: tenure of another lease that is required as well."""
        self._until, self._outer = -math.inf, outer

    @property
    def until(self) -> float:
        return self._until if self._outer is None else min(self._until, self._outer.until)

    def extend(self, until: float) -> None:
        self._until = until

    def end(self) -> None:
        """End at once, for example when the lease is released and another process may acquire it."""
        self._until = -math.inf


class Terms:
    """The present tenure of each lease of a process, by the lease's elector. Outlives the dispatcher."""

    def __init__(self, within: Mapping[str, str] | None = None) -> None:
        """Create it without tenures. within: electors by those whose lease is required in addition."""
        self._within = within or {}
        self._tenures: dict[str, Tenure] = {}

    def of(self, elector: str) -> Tenure:
        tenure = self._tenures.get(elector)
        if tenure is None:
            outer = self._within.get(elector)
            tenure = self._tenures[elector] = Tenure(None if outer is None else self.of(outer))
        return tenure

    def end(self, elector: str) -> None:
        """End the present tenure, with all permits that are based on it, and the tenures within it."""
        for ended in (elector, *(inner for inner, outer in self._within.items() if outer == elector)):
            tenure = self._tenures.pop(ended, None)
            if tenure is not None:
                tenure.end()


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
