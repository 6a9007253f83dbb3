"""Rate limits. The caller passes the time."""

from __future__ import annotations

import math

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
