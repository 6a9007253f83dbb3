"""Restart policy for failed actors, as pure functions.

The terms are those of OTP's supervisor (intensity, period). Unlike OTP's, a supervisor whose child fails too often does
not fail itself: the child stays stopped, its health check fails with the reason, and the others continue.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kcm.runtime.scheduling.backoff import Backoff

RESTART_BACKOFF = Backoff(first=0.1, factor=2.0, most=30.0, jitter=0.2)


class RestartPolicy(Struct, frozen=True, kw_only=True):
    """Limit of `intensity` restarts within `period` seconds, with delays between them that `backoff` determines."""

    intensity: int = 8
    period: float = 300.0
    backoff: Backoff = RESTART_BACKOFF


def restart_delay(failures: Sequence[float], *, now: float, policy: RestartPolicy, chance: float) -> float | None:
    """Return the seconds until the child is restarted; None if it has failed too often and stays stopped.

    failures: times of its failures, by the monotonic clock, including this one.
    chance: uniform in [0, 1).
    """
    recent = sum(1 for at in failures if now - at < policy.period)
    if recent > policy.intensity:
        return None
    return policy.backoff.delay(recent - 1, chance)
