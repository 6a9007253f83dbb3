"""Rate limits. The caller passes the time."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

# Less than 1, so that a rounding error does not make a caller find no token at the time that next_token returned.
A_TOKEN = 1.0 - 1e-4


class TokenBucket:
    """Token bucket with `qps` tokens per second and at most `burst`; full at first.

    qps < 0: no limit, as in client-go. qps == 0: no tokens after the first burst.
    """

    __slots__ = ("_at", "_burst", "_qps", "_tokens", "usual")

    def __init__(self, *, qps: float, burst: int, now: float) -> None:
        self._qps, self._burst = qps, max(1, burst)
        self.usual = self._qps, self._burst  # limits before set_limits
        self._tokens, self._at = float(self._burst), now

    @property
    def qps(self) -> float:
        return self._qps

    @property
    def burst(self) -> int:
        return self._burst

    def set_limits(self, *, qps: float | None, burst: int | None, now: float) -> None:
        """Change the limits. No token is added, and those above the new burst are lost. None: the usual value."""
        self._refill(now)
        self._qps = self.usual[0] if qps is None else qps
        self._burst = self.usual[1] if burst is None else max(1, burst)
        self._tokens = min(self._tokens, float(self._burst))

    def try_take(self, now: float) -> bool:
        """Take a token if there is one."""
        if self._qps < 0:
            return True
        self._refill(now)
        if self._tokens < A_TOKEN:
            return False
        self._tokens = max(0.0, self._tokens - 1.0)
        return True

    def reserve(self, now: float, *, until: float) -> float | None:
        """Take the next token and return its time: now, or later if the bucket is empty.

        Return None, and take no token, if its time is after `until`.
        """
        due = self.next_token(now)
        if due > until:
            return None
        self._tokens -= 1.0  # below 0: further tokens are reserved
        return due

    def next_token(self, now: float) -> float:
        """Return the time of the next token: now, later, or never (math.inf)."""
        if self._qps < 0:
            return now
        self._refill(now)
        if self._tokens >= A_TOKEN:
            return now
        return now + (1.0 - self._tokens) / self._qps if self._qps > 0 else math.inf

    def saturation(self, now: float) -> float:
        """Return the used share of the burst: 0 if idle, 1 if exhausted. Any thread, because it changes nothing."""
        return 1.0 - self._tokens_at(now) / self._burst

    def _refill(self, now: float) -> None:
        if now > self._at:
            self._tokens = self._tokens_at(now)
            self._at = now

    def _tokens_at(self, now: float) -> float:
        return min(float(self._burst), self._tokens + max(0.0, self._qps) * max(0.0, now - self._at))


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


class StormBrake:
    """Brake of all writers, which outlives the incarnations of the dispatcher. Only the dispatcher changes it.

    It holds back deletions and evictions when there are far more than usual. It engages when their number exceeds a
    limit, or at the request of an operator, and stays engaged until an operator releases it: the cause of a storm,
    such as an empty list of a broken API server, needs a person.

    state: None while it is released. Read from any thread, as are the numbers.
    passed: destructive writes that were sent while it was engaged.
    """

    def __init__(
        self,
        limits: BrakeLimits,
        *,
        now: float,
        count: Callable[[], None] = lambda: None,
        show: Callable[[float], None] = lambda _engaged: None,
    ) -> None:
        """Create a brake that is released.

        count: called for each destructive write.
        show: called with 1 when it engages, and 0 when it is released.
        """
        self.limits, self.state, self.passed = limits, None, 0
        self.bucket = TokenBucket(qps=limits.qps, burst=1, now=now)
        self._count, self._show = count, show
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
        self._count()
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
        self._show(1)

    def release(self, now: float, *, held: int) -> None:
        """Release the brake. held: number of writes that were held back, which do not count: a person has seen them."""
        self.state, self.passed, self._usual, self._approved = None, 0, self._new_usual(now), held
        self._show(0)
