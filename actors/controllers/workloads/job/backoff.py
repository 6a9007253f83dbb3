"""How long failed pods are not replaced: 10 s after the first failure, doubled by each further one, up to 10 minutes.

Source: kubernetes v1.36 pkg/controller/job/backoff_utils.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcm.actors.controllers.workloads.job.pods import JobPod, finish_time
from kcm.protocols.late_methods import dataclass
from kcm.runtime.scheduling.backoff import Backoff

POD_BACKOFF = Backoff(first=10.0, most=600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """of: the Job's uid. count: since its last success. last: Unix seconds of the last of them."""

    of: str
    count: int = 0
    last: float = 0.0

    def wait(self, now: float) -> float:
        """Seconds until pods are created again; 0 now."""
        return seconds_left(self.count, self.last, now=now)


def next_failures(before: Failures, *, succeeded: Sequence[JobPod], failed: Sequence[JobPod]) -> Failures:
    """After these pods have ended. A success forgives all failures up to it."""
    if not failed:  # as nearly always; when pods ended is read from the pods themselves
        return Failures(of=before.of) if succeeded else before
    count, since = before.count, float("-inf")
    if succeeded:
        count, since = 0, max(_ends(succeeded))
    later = [at for at in _ends(failed) if at > since]
    if not later:
        return Failures(of=before.of)
    return Failures(of=before.of, count=count + len(later), last=max(later))


def index_wait(last_failed: JobPod | None, now: float) -> float:
    """The same for an index with failures of its own; last_failed: its pod that is to be replaced."""
    if last_failed is None:
        return 0.0
    count = last_failed.failures + last_failed.ignored_failures + 1
    return seconds_left(count, finish_time(last_failed.object), now=now)


def seconds_left(failures: int, last: float, *, now: float) -> float:
    """By a clock that was set back it is no more than the whole time."""
    if failures == 0:
        return 0.0
    whole = POD_BACKOFF.delay(failures - 1)
    return min(whole, max(0.0, whole - (now - last)))


def _ends(pods: Iterable[JobPod]) -> list[float]:
    return [finish_time(pod.object) for pod in pods]
