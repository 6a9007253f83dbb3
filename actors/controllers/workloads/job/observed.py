"""State of a Job and its pods at the beginning of a sync. All decisions of the sync are derived from this state.

Source: kubernetes v1.36 pkg/controller/job (syncJobCtx, getNewFinishedPods, calculateSucceededIndexes,
calculateFailedIndexes, getPodsWithDelayedDeletionPerIndex).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from kcm.actors.controllers.workloads.job.fields import JobSpec, JobStatus
from kcm.actors.controllers.workloads.job.pods import JobPod, finish_time
from kcm.actors.controllers.workloads.job.policies import FailureAction, match_failure_policy
from kcm.protocols.completion_indexes import Indexes


class Observed(Struct, frozen=True, kw_only=True):
    """Observed state of a Job and its pods. Source: syncJobCtx."""

    uid: str
    spec: JobSpec
    status: JobStatus
    pods: Sequence[JobPod]  # without settled ones; sorted by completion index if the Job is Indexed
    is_deleting: bool
    active: Sequence[JobPod]
    terminating: int
    ready: int
    new_succeeded: Sequence[JobPod]  # finished pods that are neither counted nor recorded in the status
    new_failed: Sequence[JobPod]
    succeeded: int  # all pods, or for an Indexed Job all indexes, that have succeeded
    failed: int  # all failed pods that count
    succeeded_before: Indexes  # as in the status
    succeeded_indexes: Indexes  # with those of new pods
    failed_indexes: Indexes | None  # None without backoffLimitPerIndex
    # By index, the failed pod that keeps its finalizer until its replacement exists: the replacement's annotations are
    # computed from its failure counts.
    delayed_deletion: Mapping[int, JobPod]


def observe(
    *, uid: str, spec: JobSpec, status: JobStatus, pods: Iterable[JobPod], is_deleting: bool = False
) -> Observed:
    """Derive the state of a Job from its parsed spec and status and its pods.

    uid: of the Job.
    """
    if spec.is_indexed:
        pods = sorted(pods, key=_by_index)
    pods = list(pods)
    active = [pod for pod in pods if pod.is_active]
    new_succeeded = _new_finished(pods, spec, JobPod.has_succeeded.fget, uncounted=status.uncounted_succeeded)  # type: ignore[attr-defined]
    new_failed = _new_finished(pods, spec, lambda pod: pod.has_failed(spec), uncounted=status.uncounted_failed)
    succeeded = status.succeeded + len(new_succeeded) + len(status.uncounted_succeeded)
    failed = status.failed + len(status.uncounted_failed)
    failed += sum(_counts(spec, pod) for pod in new_failed)
    before = after = Indexes()
    failed_indexes: Indexes | None = None
    delayed_deletion: Mapping[int, JobPod] = {}
    if spec.is_indexed:
        before, after = _succeeded_indexes(spec, status, pods)
        succeeded = after.total
        if spec.limit_per_index is not None:
            failed_indexes = _failed_indexes(spec, status, pods, after)
            delayed_deletion = _delayed_deletion(spec, pods, active, after.merged(failed_indexes))
    return Observed(
        uid=uid,
        spec=spec,
        status=status,
        pods=pods,
        is_deleting=is_deleting,
        active=active,
        terminating=sum(pod.is_terminating for pod in pods),
        ready=sum(pod.facts.ready for pod in active),
        new_succeeded=new_succeeded,
        new_failed=new_failed,
        succeeded=succeeded,
        failed=failed,
        succeeded_before=before,
        succeeded_indexes=after,
        failed_indexes=failed_indexes,
        delayed_deletion=delayed_deletion,
    )


def _by_index(pod: JobPod) -> int:
    return -1 if pod.index is None else pod.index


def _new_finished(
    pods: Iterable[JobPod], spec: JobSpec, has_finished: Callable[[JobPod], bool], *, uncounted: Iterable[str]
) -> list[JobPod]:
    """Return the finished pods that neither the counters nor status.uncountedTerminatedPods include yet.

    uncounted: uids in status.uncountedTerminatedPods. Source: getNewFinishedPods.
    """
    recorded = frozenset(uncounted)
    return [
        pod
        for pod in pods
        if pod.is_tracked and has_finished(pod) and pod.uid not in recorded and _has_valid_index(spec, pod)
    ]


def _has_valid_index(spec: JobSpec, pod: JobPod) -> bool:
    return not spec.is_indexed or spec.has_index(pod.index)  # the index is only parsed if the Job is Indexed


def _counts(spec: JobSpec, failed: JobPod) -> bool:
    return spec.failure_rules is None or match_failure_policy(spec.failure_rules, failed.object).counts


def _succeeded_indexes(spec: JobSpec, status: JobStatus, pods: Iterable[JobPod]) -> tuple[Indexes, Indexes]:
    """Return the succeeded indexes in the status, and the same indexes plus those of newly succeeded pods.

    An index in status.failedIndexes stays failed, even if another pod of it succeeds. Source:
    calculateSucceededIndexes.
    """
    before = Indexes.parse(status.completed_indexes, completions=spec.completions or 0)
    failed = Indexes() if spec.limit_per_index is None else _known_failed(spec, status)
    new = (pod.index for pod in pods if pod.is_tracked and pod.has_succeeded and spec.has_index(pod.index))
    return before, before.merged(Indexes.of(index for index in new if index is not None and not failed.has(index)))


def _failed_indexes(spec: JobSpec, status: JobStatus, pods: Iterable[JobPod], succeeded: Indexes) -> Indexes:
    """Return the failed indexes in the status plus the newly failed ones. Source: calculateFailedIndexes.

    Succeeded indexes are left out, because the server rejects a status in which an index has succeeded and failed.
    """
    new = (pod.index for pod in pods if pod.is_tracked and spec.has_index(pod.index) and _fails_index(spec, pod))
    failed = Indexes.of(index for index in new if index is not None and not succeeded.has(index))
    return _known_failed(spec, status).merged(failed)


def _known_failed(spec: JobSpec, status: JobStatus) -> Indexes:
    return Indexes.parse(status.failed_indexes or "", completions=spec.completions or 0)


def _fails_index(spec: JobSpec, pod: JobPod) -> bool:
    if not pod.has_failed(spec):
        return False
    match = match_failure_policy(spec.failure_rules, pod.object)
    if match.action is FailureAction.FAIL_INDEX:
        return True
    return match.counts and pod.failures >= (spec.limit_per_index or 0)


def _delayed_deletion(
    spec: JobSpec, pods: Iterable[JobPod], active: Iterable[JobPod], decided: Indexes
) -> Mapping[int, JobPod]:
    """Return, for each undecided index without an active pod, its last failed pod, whose deletion is delayed.

    decided: indexes that have succeeded or failed. Source: getPodsWithDelayedDeletionPerIndex.
    """
    running = {pod.index for pod in active}
    kept: dict[int, JobPod] = {}
    for pod in pods:
        index = pod.index
        if index is None or not pod.is_tracked or not spec.has_index(index) or not pod.has_failed(spec):
            continue
        if index in running or decided.has(index):
            continue
        if index not in kept or _is_later(pod, kept[index]):
            kept[index] = pod
    return kept


def _is_later(pod: JobPod, other: JobPod) -> bool:
    def failures(of: JobPod) -> int:
        return of.failures + of.ignored_failures

    return failures(other) <= failures(pod) and finish_time(pod.object) >= finish_time(other.object)
