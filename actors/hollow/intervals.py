"""Delays and concurrency of the hollow cluster's controllers."""

from __future__ import annotations

from kcm.actors.reconciliation import RequeueAfter

MOMENT = 0.001  # seconds


def look_again(*, due: float, now: float) -> RequeueAfter:
    """Return a requeue at `due`, but at least MOMENT from now.

    A sum of floats may be slightly less than `due`, which would otherwise cause a series of immediate retries.
    """
    return RequeueAfter(max(MOMENT, due - now))


MANY = 64  # concurrently reconciled keys; they mostly wait for the server, not for the CPU
