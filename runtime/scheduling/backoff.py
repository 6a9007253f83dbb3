"""Exponential backoff: how long to wait before a retry."""

from __future__ import annotations

from protocols.late_methods import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """first · factor^n seconds, at most `most`; plus up to `jitter` times as much, at random."""

    first: float
    factor: float = 2.0
    most: float
    jitter: float = 0.0

    def delay(self, failures: int, chance: float = 0.0) -> float:
        """Seconds to wait. failures: attempts that failed, less one (0 for the first wait). chance: in [0, 1)."""
        try:
            base = self.first * self.factor ** max(0, failures)
        except OverflowError:
            base = self.most
        return min(base, self.most) * (1.0 + self.jitter * chance)
