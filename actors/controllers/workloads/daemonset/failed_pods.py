"""Backoff for pods that fail on a node, as those do that its kubelet rejects: they are deleted later each time.

Source: kubernetes v1.36 client-go util/flowcontrol/backoff.go, and failedPodsBackoff in
pkg/controller/daemon/daemon_controller.go.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.runtime.scheduling.backoff import Backoff

BACKOFF = Backoff(first=1.0, most=15 * 60.0)
FORGOTTEN = 2 * BACKOFF.most  # seconds without a failure after which it starts over


class Attempt(NamedTuple):
    """uid: the DaemonSet's. generation: its status.observedGeneration: a changed spec starts over."""

    uid: str
    generation: int
    node: str


class _Waiting(NamedTuple):
    level: int
    since: float


class FailedPods:
    """When the failed pods of which node may be deleted. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._waiting: dict[Attempt, _Waiting] = {}  # in the order of their last failure

    def seconds_left(self, attempt: Attempt, now: float) -> float:
        """Until a failed pod may be deleted; 0.0 is now."""
        waiting = self._waiting.get(attempt)
        if waiting is None or now - waiting.since > FORGOTTEN:
            return 0.0
        return max(0.0, waiting.since + BACKOFF.delay(waiting.level) - now)

    def deleting(self, attempt: Attempt, now: float) -> None:
        """One is deleted: the next one waits, twice as long as the last."""
        for old in [old for old, waiting in self._waiting.items() if now - waiting.since > FORGOTTEN]:
            del self._waiting[old]
        before = self._waiting.pop(attempt, None)
        self._waiting[attempt] = _Waiting(0 if before is None else before.level + 1, now)

    def forget(self, uid: str) -> None:
        """A DaemonSet is gone."""
        for attempt in [attempt for attempt in self._waiting if attempt.uid == uid]:
            del self._waiting[attempt]
