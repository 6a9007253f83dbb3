"""Rate limits; the caller passes the time in."""

from __future__ import annotations

import math

# A token that is due but for a rounding error is there, else a wake-up at next_token would find none.
A_TOKEN = 1.0 - 1e-4


class TokenBucket:
    """`qps` tokens a second, at most `burst` at once; full at first.

    qps < 0: no limit, as client-go has it. qps == 0: none at all, once the first burst is gone.
    """

    def __init__(self, *, qps: float, burst: int, now: float) -> None:
        self._qps, self._burst = qps, max(1, burst)
        self._tokens, self._at = float(self._burst), now

    @property
    def qps(self) -> float:
        return self._qps

    def try_take(self, now: float) -> bool:
        """Take a token if there is one."""
        if self._qps < 0:
            return True
        self._refill(now)
        if self._tokens < A_TOKEN:
            return False
        self._tokens = max(0.0, self._tokens - 1.0)
        return True

    def next_token(self, now: float) -> float:
        """When the next token is there: now, later, or never (math.inf)."""
        if self._qps < 0:
            return now
        self._refill(now)
        if self._tokens >= A_TOKEN:
            return now
        return now + (1.0 - self._tokens) / self._qps if self._qps > 0 else math.inf

    def saturation(self, now: float) -> float:
        """How much of the burst is used up: 0 idle, 1 exhausted. May be asked from any thread: it changes nothing."""
        return 1.0 - self._tokens_at(now) / self._burst

    def _refill(self, now: float) -> None:
        if now > self._at:
            self._tokens = self._tokens_at(now)
            self._at = now

    def _tokens_at(self, now: float) -> float:
        return min(float(self._burst), self._tokens + max(0.0, self._qps) * max(0.0, now - self._at))
