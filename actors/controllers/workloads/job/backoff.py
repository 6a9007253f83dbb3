"""Backoff before failed pods are replaced: 10 s after the first failure, doubled by each further failure, up to 10 min.

Source: kubernetes v1.36 pkg/controller/job/backoff_utils.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from kcm.actors.controllers.workloads.job.pods import JobPod, finish_time
from kcm.runtime.scheduling.backoff import Backoff

POD_BACKOFF = Backoff(first=10.0, most=600.0)


class Failures(Struct, frozen=True, kw_only=True):
    """Number of a Job's failed pods since its last succeeded pod. Source: backoffRecord."""

    of: str  # the Job's uid
    count: int = 0
    last: float = 0.0  # when the last of these pods finished, in Unix seconds

    def delay(self, now: float) -> float:
        """Return the seconds until new pods may be created; 0 if they may be created now."""
        return seconds_left(self.count, self.last, now=now)


def next_failures(before: Failures, *, succeeded: Sequence[JobPod], failed: Sequence[JobPod]) -> Failures:
    """Return the failures after these pods have also finished. Failures before the last success are not counted."""
    if not failed:  # the usual case, in which no pod needs to be parsed for its finish time
        return Failures(of=before.of) if succeeded else before
    count, since = before.count, float("-inf")
    if succeeded:
        count, since = 0, max(_finish_times(succeeded))
    later = [at for at in _finish_times(failed) if at > since]
    if not later:
        return Failures(of=before.of)
    return Failures(of=before.of, count=count + len(later), last=max(later))


def index_delay(last_failed: JobPod | None, now: float) -> float:
    """Return the seconds until a pod of this completion index may be created.

    last_failed: the failed pod to replace; None if the index has none.
    """
    if last_failed is None:
        return 0.0
    count = last_failed.failures + last_failed.ignored_failures + 1
    return seconds_left(count, finish_time(last_failed.object), now=now)


def seconds_left(failures: int, last: float, *, now: float) -> float:
    """Return the remaining seconds of the backoff after this number of failures.

    If the clock was set back, the result is limited to the whole backoff. last: finish time of the last failed pod, in
    Unix seconds.
    """
    if failures == 0:
        return 0.0
    whole = POD_BACKOFF.delay(failures - 1)
    return min(whole, max(0.0, whole - (now - last)))


def _finish_times(pods: Iterable[JobPod]) -> list[float]:
    return [finish_time(pod.object) for pod in pods]
