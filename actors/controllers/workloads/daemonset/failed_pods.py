"""Backoff for replacing the failed pods of a DaemonSet on a node, for example if the kubelet rejects every pod.

Each failed pod on the node is deleted, and then replaced, after a longer delay than the previous one.

Source: kubernetes v1.36 client-go util/flowcontrol/backoff.go, and failedPodsBackoff in
pkg/controller/daemon/daemon_controller.go.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.runtime.scheduling.backoff import Backoff

BACKOFF = Backoff(first=1.0, most=15 * 60.0)
RESET_AFTER = 2 * BACKOFF.most  # seconds without a failure


class FailedPodKey(NamedTuple):
    uid: str  # of the DaemonSet
    observed_generation: int  # a changed spec starts over
    node: str


class _Wait(NamedTuple):
    level: int  # how often the delay was doubled
    since: float


class FailedPodsBackoff:
    """Delays before failed pods are deleted, per DaemonSet and node. All times are monotonic seconds."""

    def __init__(self) -> None:
        self._waits: dict[FailedPodKey, _Wait] = {}  # in the order of the last failure

    def seconds_left(self, key: FailedPodKey, now: float) -> float:
        """Return the seconds until a failed pod of this node may be deleted; 0.0 if it may be deleted now."""
        wait = self._waits.get(key)
        if wait is None or now - wait.since > RESET_AFTER:
            return 0.0
        return max(0.0, wait.since + BACKOFF.delay(wait.level) - now)

    def record_deletion(self, key: FailedPodKey, now: float) -> None:
        """Record that a failed pod was deleted, which doubles the delay for the next failed pod."""
        for expired in [known for known, wait in self._waits.items() if now - wait.since > RESET_AFTER]:
            del self._waits[expired]
        before = self._waits.pop(key, None)
        self._waits[key] = _Wait(0 if before is None else before.level + 1, now)

    def forget(self, uid: str) -> None:
        """Remove all entries of a deleted DaemonSet."""
        for key in [key for key in self._waits if key.uid == uid]:
            del self._waits[key]
