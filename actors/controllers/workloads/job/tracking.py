"""Which pods are counted, and in which steps, so that each is counted once whenever we are stopped in between.

A pod that has ended keeps its finalizer until the status speaks of it: of its uid among the uncounted ones, or of its
index. Then the finalizer goes, then the uid moves into a counter. Whoever finds the uid of a pod without the finalizer
counts it; whoever finds a pod with the finalizer that the status speaks of does not count it again.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (trackJobStatusAndRemoveFinalizers, canRemoveFinalizer,
cleanUncountedPodsWithoutFinalizers).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from kcm.actors.controllers.workloads.job.conditions import SUCCESS_CRITERIA_MET
from kcm.actors.controllers.workloads.job.fields import JobStatus
from kcm.actors.controllers.workloads.job.intervals import Indexes
from kcm.actors.controllers.workloads.job.observing import Observed
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.actors.controllers.workloads.job.policies import failure_verdict
from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Object

MOST_UNCOUNTED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The counting part of a status. failed_indexes: None where the Job has none."""

    succeeded: int
    failed: int
    uncounted_succeeded: tuple[str, ...]
    uncounted_failed: tuple[str, ...]
    completed_indexes: str
    failed_indexes: str | None

    @property
    def has_uncounted(self) -> bool:
        return bool(self.uncounted_succeeded or self.uncounted_failed)

    def settled(self, tracked: Container[str], *, is_indexed: bool) -> Tally:
        """With the uncounted ones in the counters whose finalizer is gone. tracked: uids of pods that have it.

        With indexes, the indexes say how many have succeeded.
        """
        succeeded = tuple(uid for uid in self.uncounted_succeeded if uid in tracked)
        failed = tuple(uid for uid in self.uncounted_failed if uid in tracked)
        gone = 0 if is_indexed else len(self.uncounted_succeeded) - len(succeeded)
        return replace(
            self,
            succeeded=self.succeeded + gone,
            failed=self.failed + len(self.uncounted_failed) - len(failed),
            uncounted_succeeded=succeeded,
            uncounted_failed=failed,
        )


def tally_of(status: JobStatus) -> Tally:
    return Tally(
        succeeded=status.succeeded,
        failed=status.failed,
        uncounted_succeeded=status.uncounted_succeeded,
        uncounted_failed=status.uncounted_failed,
        completed_indexes=status.completed_indexes,
        failed_indexes=status.failed_indexes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """tally: what the status is to say before finalizers go. release: pods whose finalizer goes then.

    is_full: more are to follow, so the Job does not end yet. by_action: how many failures a rule of the pod failure
    policy decided about.
    """

    tally: Tally
    release: Sequence[JobPod]
    is_full: bool
    by_action: Mapping[str, int]


def plan_tracking(job: Observed, end: Object | None, *, most: int = MOST_UNCOUNTED) -> Tracking:
    """end: the condition with which the Job ends, None while it goes on."""
    tracked = tracked_uids(job.pods)
    tally = tally_of(job.status).settled(tracked, is_indexed=job.spec.is_indexed)
    succeeded, failed = list(tally.uncounted_succeeded), list(tally.uncounted_failed)
    known_succeeded, known_failed = set(job.status.uncounted_succeeded), set(job.status.uncounted_failed)
    new_indexes: list[int] = []
    release: list[JobPod] = []
    by_action: Counter[str] = Counter()
    all_fail = end is not None and end["type"] != SUCCESS_CRITERIA_MET
    is_full = False
    for pod in job.pods:
        if not pod.is_tracked or not _may_go(job, pod, end):
            continue
        release.append(pod)
        if pod.has_succeeded and job.spec.is_indexed:
            index = pod.index
            if index is not None and job.succeeded_indexes.has(index) and not job.succeeded_before.has(index):
                new_indexes.append(index)
        elif pod.has_succeeded and pod.uid not in known_failed:
            if pod.uid not in known_succeeded:
                succeeded.append(pod.uid)
        elif (pod.has_failed(job.spec) or all_fail) and pod.uid not in known_failed:
            if _counts_as_failed(job, pod, by_action):
                failed.append(pod.uid)
        if len(new_indexes) + len(succeeded) + len(failed) >= most:
            is_full = True
            break
    completed = job.succeeded_before.merged(Indexes.of(new_indexes))
    return Tracking(
        tally=replace(
            tally,
            succeeded=completed.total if job.spec.is_indexed else tally.succeeded,
            uncounted_succeeded=tuple(succeeded),
            uncounted_failed=tuple(failed),
            completed_indexes=str(completed) if job.spec.is_indexed else tally.completed_indexes,
            failed_indexes=None if job.failed_indexes is None else str(job.failed_indexes),
        ),
        release=release,
        is_full=is_full,
        by_action=by_action,
    )


def tracked_uids(pods: Sequence[JobPod]) -> set[str]:
    return {pod.uid for pod in pods if pod.is_tracked}


def _may_go(job: Observed, pod: JobPod, end: Object | None) -> bool:
    """Whether its finalizer may be removed."""
    if job.is_going or end is not None or pod.has_succeeded:
        return True
    if not pod.has_failed(job.spec):
        return False
    kept = None if pod.index is None or not job.kept else job.kept.get(pod.index)
    return kept is None or kept.uid != pod.uid


def _counts_as_failed(job: Observed, pod: JobPod, by_action: Counter[str]) -> bool:
    if job.spec.is_indexed and not job.spec.has_index(pod.index):
        return False
    verdict = failure_verdict(job.spec.failure_rules, pod.object)
    if verdict.action is not None:
        by_action[verdict.action] += 1
    return verdict.counts
