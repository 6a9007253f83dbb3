"""Retries of informers: after a backoff, or during an outage of the server after a successful probe.

Outages are shared by the informers of an API server: one of them probes the server, the others wait. Sixty informers
that each retry by themselves, as client-go's reflectors do, send ten requests a second at first and one or two later,
and some of them have not recovered half a minute after the server has.
"""

from __future__ import annotations

import random
from enum import Enum

from kcm.runtime.scheduling.backoff import Backoff

BACKOFF = Backoff(first=0.8, factor=2.0, most=30.0, jitter=1.0)
QUIET = 120.0  # seconds without a failure after which the backoff starts over
BETWEEN_PROBES = Backoff(first=0.8, factor=2.0, most=2.0, jitter=1.0)
SPREAD = 1.0  # seconds after an outage within which the waiting informers resume, at random


class Outage:
    """Outage of the API server, from a request without any response until a probe with a response.

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
        """Add an informer, by its actor's name, to the informers that `end` returns."""
        self._waiting[informer] = None

    def end(self) -> tuple[str, ...]:
        """End the outage, as the server responds. Return the names of the informers that wait."""
        self.is_on = False
        waiting, self._waiting = self._waiting, {}
        return tuple(waiting)


class RetryAction(Enum):
    """Next action of an informer that has finished waiting."""

    ASK = "ask"
    PROBE = "probe"  # ask for all informers whether the server responds
    WAIT = "wait"


class InformerRetries:
    """Retries of one informer.

    due: time of the next request, by the monotonic clock; None while a request is under way.
    """

    def __init__(self, outage: Outage, *, informer: str, chance: random.Random) -> None:
        """Create the retries of one informer, which shares the outage.

        informer: name of the actor, which receives Wake when the outage ends.
        """
        self.due: float | None = None
        self._outage, self._informer, self._chance = outage, informer, chance
        self._failures = 0
        self._failed_at = 0.0
        self._is_held_up = False  # the backoff is over, but the outage is not

    def asked(self) -> None:
        self.due = None

    def listed(self) -> None:
        """Reset the backoff after a complete list."""
        self._failures = 0

    def failed(self, now: float, *, retry_after: float) -> float:
        """Return the seconds until the next request. retry_after: the server's Retry-After, 0 if it sent none."""
        if now - self._failed_at > QUIET:
            self._failures = 0
        delay = max(retry_after, BACKOFF.delay(self._failures, self._chance.random()))
        self._failures += 1
        self._failed_at, self.due = now, now + delay
        return delay

    def no_response(self, now: float) -> bool:
        """Record a request without any response, not even an error. Return True if an outage begins with it."""
        return self._outage.begin(now, chance=self._chance.random())

    def look(self, now: float) -> None:
        """Schedule the next request of a waiting informer once the outage is over, at a random time within SPREAD."""
        if self._is_held_up and not self._outage.is_on:
            self._is_held_up = False
            self.due = now + SPREAD * self._chance.random()

    @property
    def is_outage(self) -> bool:
        """Report whether the server does not respond to any informer."""
        return self._outage.is_on

    def turn(self, now: float) -> RetryAction:
        """Return what to do when the request is due."""
        if not self._outage.is_on:
            return RetryAction.ASK
        return RetryAction.PROBE if self._outage.may_probe(now, chance=self._chance.random()) else RetryAction.WAIT

    def hold_up(self) -> float:
        """Wait for the end of the outage. Return the time of the next probe."""
        self._outage.wait(self._informer)
        self._is_held_up, self.due = True, self._outage.next_probe
        return self.due

    def outage_seconds(self, now: float) -> float:
        """Return how long the current outage has lasted."""
        return self._outage.seconds(now)

    def end_outage(self) -> tuple[str, ...]:
        """End the outage after a successful probe of this informer. Return the names of the other waiting informers."""
        self._is_held_up = False
        return tuple(name for name in self._outage.end() if name != self._informer)
