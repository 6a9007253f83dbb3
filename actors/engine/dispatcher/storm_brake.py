"""Storm brake: holds back deletions and evictions of all controllers when there are far more than usual.

It engages when their number exceeds a limit, or at the request of an operator, and stays engaged until an operator
releases it: the cause of a storm, such as an empty list of a broken API server, needs a person. Writes that are held
back wait in the dispatcher, and their keys with them; other writes continue.
"""

from __future__ import annotations

from msgspec import Struct

from kcm.protocols.messages.commands import Command, Create, Delete, DeleteCollection
from kcm.runtime.metrics.families import DESTRUCTIVE_WRITES, STORM_BRAKE
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.limiters import TokenBucket

LANE = "storm-brake"  # queue of the dispatcher with the writes that are held back
DELETIONS = (Delete, DeleteCollection)


class BrakeLimits(Struct, frozen=True, kw_only=True):
    """Settings of the storm brake.

    limit: number of destructive writes within `window` seconds above which it engages; 0: only by request.
    qps: writes per second that it lets through.
    """

    limit: int = 0
    window: float = 60.0
    qps: float = 0.0


class BrakeState(Struct, frozen=True, kw_only=True):
    """State of an engaged brake."""

    since: float  # monotonic time
    reason: str  # one line
    qps: float  # writes per second that are let through


def is_destructive(command: Command) -> bool:
    kind = type(command)
    return kind in DELETIONS or (kind is Create and command.subresource == "eviction")  # type: ignore[union-attr]


class StormBrake:
    """Brake of all writers, which outlives the incarnations of the dispatcher. Only the dispatcher changes it.

    state: None while it is released. Read from any thread, as are the numbers.
    passed: destructive writes that were sent while it was engaged.
    """

    def __init__(self, limits: BrakeLimits, *, metrics: Metrics, now: float) -> None:
        self.limits, self.state, self.passed = limits, None, 0
        self.bucket = TokenBucket(qps=limits.qps, burst=1, now=now)
        self._written, self._gauge = metrics.counter(DESTRUCTIVE_WRITES), metrics.gauge(STORM_BRAKE)
        self._usual = self._new_usual(now)
        self._approved = 0  # writes that do not count

    state: BrakeState | None

    def _new_usual(self, now: float) -> TokenBucket | None:
        """Return a bucket that is empty once there are too many writes; None without a limit."""
        limits = self.limits
        if not limits.limit:
            return None
        return TokenBucket(qps=limits.limit / limits.window, burst=limits.limit, now=now)

    def count(self, now: float) -> bool:
        """Count a destructive write that is about to be sent. Return True if the brake engages instead."""
        if self._approved and self.state is None:
            self._approved -= 1
        elif self.state is None and self._usual is not None and not self._usual.try_take(now):
            limits = self.limits
            reason = f"more than {limits.limit} deletions and evictions in {limits.window:g} s"
            self.engage(reason, now=now)
            return True
        self._written.inc()
        if self.state is not None:
            self.passed += 1
        return False

    def engage(self, reason: str, *, now: float, qps: float | None = None) -> None:
        """Engage the brake. qps: None for the value of the flags."""
        allowed = self.limits.qps if qps is None else qps
        since = now if self.state is None else self.state.since
        self.state = BrakeState(since=since, reason=reason, qps=allowed)
        self.bucket.set_limits(qps=allowed, burst=1, now=now)
        self.bucket.try_take(now)  # empty at first
        self._gauge.set(1)

    def release(self, now: float, *, held: int) -> None:
        """Release the brake. held: number of writes that were held back, which do not count: a person has seen them."""
        self.state, self.passed, self._usual, self._approved = None, 0, self._new_usual(now), held
        self._gauge.set(0)
