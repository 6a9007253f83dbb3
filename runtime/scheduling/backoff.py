"""Exponential backoff of retries."""

from __future__ import annotations

from msgspec import Struct

from kcm.protocols.arguments import check_number


class Backoff(Struct, frozen=True, kw_only=True):
    """Delays of first · factor^n seconds, at most `most`, plus a random part of up to `jitter` times the delay."""

    first: float
    factor: float = 2.0
    most: float
    jitter: float = 0.0

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError for an invalid number."""
        check_number("first of a Backoff", self.first, above=0)
        check_number("most of a Backoff", self.most, above=0)
        check_number("factor of a Backoff", self.factor, least=1)
        check_number("jitter of a Backoff", self.jitter, least=0)

    def delay(self, failures: int, chance: float = 0.0) -> float:
        """Return the seconds to wait. failures: earlier failures, 0 for the first wait. chance: random, in [0, 1)."""
        try:
            base = self.first * self.factor ** max(0, failures)
        except OverflowError:
            base = self.most
        return min(base, self.most) * (1.0 + self.jitter * chance)
