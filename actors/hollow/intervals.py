"""Delays and concurrency of the hollow cluster's controllers."""

from __future__ import annotations

from kcm.actors.reconciliation import RequeueAfter

MOMENT = 0.001  # seconds


def look_again(*, due: float, now: float) -> RequeueAfter:
    """At `due`, but a moment from now at the earliest: a sum of floats may fall just short of it, time and again."""
    return RequeueAfter(max(MOMENT, due - now))


MANY = 64  # keys in work at once: they wait for the server, hardly for the processor
