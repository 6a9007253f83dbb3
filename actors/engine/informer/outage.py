"""Outage of an API server, shared by its informers: one of them probes the server, the others wait.

Sixty informers that each retry by themselves, as client-go's reflectors do, send ten requests a second at first and one
or two later, and some of them have not recovered half a minute after the server has.
"""

from __future__ import annotations

from kcm.runtime.scheduling.backoff import Backoff

BETWEEN_PROBES = Backoff(first=0.8, factor=2.0, most=2.0, jitter=1.0)


class Outage:
    """Outage that begins with a request without any response and lasts until a probe has one.

    Two informers may call it at once, on two threads. Then both may probe, or one may wait until the next probe is due.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.next_probe = 0.0  # by the monotonic clock
        self._probes = 0
        self._since = 0.0
        self._waiting: dict[str, None] = {}

    def begin(self, now: float, *, chance: float) -> bool:
        """Record a request without a response. Return True if the outage begins with it.

        chance: in [0, 1).
        """
        if self.is_on:
            return False
        self.is_on, self._probes, self._since = True, 0, now
        self.next_probe = now + BETWEEN_PROBES.delay(0, chance)
        return True

    def seconds(self, now: float) -> float:
        """Return how long the outage has lasted."""
        return now - self._since

    def may_probe(self, now: float, *, chance: float) -> bool:
        """Return True if the caller must probe now. A failed probe needs no report: the next informer probes anyway."""
        if now < self.next_probe:
            return False
        self._probes += 1
        self.next_probe = now + BETWEEN_PROBES.delay(self._probes, chance)
        return True

    def wait(self, informer: str) -> None:
        """Add an informer, by its actor's name, to those that `end` returns."""
        self._waiting[informer] = None

    def end(self) -> tuple[str, ...]:
        """End the outage, as the server responds. Return the names of the informers that wait."""
        self.is_on = False
        waiting, self._waiting = self._waiting, {}
        return tuple(waiting)
