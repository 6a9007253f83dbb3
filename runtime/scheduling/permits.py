"""Until when something may begin, handed down to the thread that begins it.

A leader that checks its lease and then hands a write to another thread has checked nothing: that thread may come to it
seconds later. So the permit goes along, and is looked at just before the first byte goes out, or the call begins.
"""

from __future__ import annotations

import math

from kcm.protocols.late_methods import dataclass


class Tenure:
    """Until when this process may write, as far as it knows: by the clock's monotonic(). Over at first.

    One thread at a time extends and ends it; any thread may look.
    """

    def __init__(self) -> None:
        self.until = -math.inf

    def extend(self, until: float) -> None:
        self.until = until

    def end(self) -> None:
        """At once, as when the lease is given back: somebody else may have it from now on."""
        self.until = -math.inf


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to begin something. until: by the clock's monotonic(); whatever began is cut off then, where it can be.

    tenure: what is begun is also of no use once this is over; None for what needs no lease.
    """

    until: float = math.inf
    tenure: Tenure | None = None

    def is_over(self, now: float) -> bool:
        return now >= self.until or (self.tenure is not None and now >= self.tenure.until)

    def within(self, until: float) -> Permit:
        """The same, but no longer than that."""
        return self if self.until <= until else Permit(until, self.tenure)


ALWAYS = Permit()
