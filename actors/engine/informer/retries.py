"""When an informer asks the server again: after its backoff; in an outage once somebody's probe was answered."""

from __future__ import annotations

import random
from enum import Enum

from actors.engine.informer.outage import Outage
from runtime.scheduling.backoff import Backoff

BACKOFF = Backoff(first=0.8, factor=2.0, most=30.0, jitter=1.0)
QUIET = 120.0  # seconds without a failure after which the backoff starts over
SPREAD = 1.0  # seconds within which those that an outage held up ask again


class Turn(Enum):
    """What an informer does whose time has come."""

    ASK = "ask"
    PROBE = "probe"  # ask for all informers whether the server responds
    WAIT = "wait"


class Retries:
    """Of one informer. due: when it asks again, by the monotonic clock; None while it waits for an answer."""

    def __init__(self, outage: Outage, *, informer: str, chance: random.Random) -> None:
        """informer: the name under which it is sent Wake when an outage ends."""
        self.due: float | None = None
        self._outage, self._informer, self._chance = outage, informer, chance
        self._failures = 0
        self._failed_at = 0.0
        self._is_held_up = False  # its backoff is over, the outage is not

    def asked(self) -> None:
        self.due = None

    def listed(self) -> None:
        """A whole list came: the next failure is the first."""
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
        """Who is held up asks again soon after the outage; not all at the same moment."""
        if self._is_held_up and not self._outage.is_on:
            self._is_held_up = False
            self.due = now + SPREAD * self._chance.random()

    @property
    def is_outage(self) -> bool:
        """The server has just answered nobody."""
        return self._outage.is_on

    def turn(self, now: float) -> Turn:
        """It is due."""
        if not self._outage.is_on:
            return Turn.ASK
        return Turn.PROBE if self._outage.may_probe(now, chance=self._chance.random()) else Turn.WAIT

    def hold_up(self) -> float:
        """Until somebody's probe is answered. Returns when to look at it again, at the latest."""
        self._outage.wait(self._informer)
        self._is_held_up, self.due = True, self._outage.next_probe
        return self.due

    def outage_seconds(self, now: float) -> float:
        """Return how long the current outage has lasted."""
        return self._outage.seconds(now)

    def end_outage(self) -> tuple[str, ...]:
        """Our probe was answered. Returns the names of those that are held up."""
        self._is_held_up = False
        return tuple(name for name in self._outage.end() if name != self._informer)
