"""Pods that could not be scheduled, and when they are tried again.

Source: kubernetes v1.36 pkg/scheduler/backend/queue.
"""

from __future__ import annotations

from msgspec import Struct

from kcm.actors.hollow.intervals import look_again
from kcm.actors.hollow.scheduler.demand import Demand
from kcm.actors.reconciliation import RequeueAfter
from kcm.protocols.objects import Key

FIRST_BACKOFF, MOST_BACKOFF = 1.0, 10.0  # seconds


class _Wait(Struct):
    """State of an unschedulable pod.

    changes: the count of changes that may help the pod at the last attempt.
    until: earliest time of the next attempt, in monotonic seconds.
    """

    demand: Demand
    attempts: int = 0
    changes: int = -1
    until: float = 0.0
    looks: int = 0

    def backoff(self, tries: int) -> float:
        return min(MOST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(tries - 1, 10))


class UnschedulablePods:
    """Unschedulable pods, by key."""

    def __init__(self) -> None:
        self._waits: dict[Key, _Wait] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._waits

    def forget(self, key: Key) -> None:
        self._waits.pop(key, None)

    def too_early(
        self, key: Key, demand: Demand, *, changes: int, has_volumes: bool, now: float
    ) -> RequeueAfter | None:
        """Return a requeue if it is too early to retry a pod, else None.

        changes: a number that rises with every change that may help the pod. Changes of PersistentVolumeClaims are not
            counted.
        now: monotonic seconds.
        """
        wait = self._waits.get(key)
        if wait is None or wait.demand != demand:
            return None
        if now < wait.until:
            return look_again(due=wait.until, now=now)
        if wait.changes == changes and not has_volumes:
            wait.looks += 1
            return RequeueAfter(wait.backoff(wait.looks))
        return None

    def failed(self, key: Key, demand: Demand, *, changes: int, now: float) -> float:
        """Record a failed attempt, and return the seconds until the next one."""
        wait = self._waits.get(key)
        if wait is None or wait.demand != demand:
            wait = self._waits[key] = _Wait(demand)
        wait.attempts, wait.looks = wait.attempts + 1, 0
        wait.changes = changes
        backoff = wait.backoff(wait.attempts)
        wait.until = now + backoff
        return backoff
