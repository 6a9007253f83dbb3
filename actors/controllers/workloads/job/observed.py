"""What is known of a Job and its pods at one moment: what all decisions rest on.

Source: kubernetes v1.36 pkg/controller/job (syncJobCtx, getNewFinishedPods, calculateSucceededIndexes,
calculateFailedIndexes, getPodsWithDelayedDeletionPerIndex).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kcm.actors.controllers.workloads.job.fields import JobSpec, JobStatus
from kcm.actors.controllers.workloads.job.pods import JobPod, finish_time
from kcm.actors.controllers.workloads.job.policies import Action, failure_verdict
from kcm.protocols.completion_indexes import Indexes
from kcm.protocols.late_methods import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """pods: all of them, with indexes in their order. is_going: the Job is being deleted.

    new_succeeded, new_failed: those that nothing in the status speaks of yet. succeeded, failed: how many in all, with
    those that the status has as uncounted. succeeded_before: indexes of the status alone. failed_indexes: None without
    backoffLimitPerIndex. kept: by index the failed pod that stays until its replacement is made, which takes over how
    often the index failed.
    """

    uid: str
    spec: JobSpec
    status: JobStatus
    pods: Sequence[JobPod]
    is_going: bool
    active: Sequence[JobPod]
    terminating: int
    ready: int
    new_succeeded: Sequence[JobPod]
    new_failed: Sequence[JobPod]
    succeeded: int
    failed: int
    succeeded_before: Indexes
    succeeded_indexes: Indexes
    failed_indexes: Indexes | None
    kept: Mapping[int, JobPod]


def observe(*, uid: str, spec: JobSpec, status: JobStatus, pods: Iterable[JobPod], is_going: bool = False) -> Observed:
    if spec.is_indexed:
        pods = sorted(pods, key=_by_index)
    pods = list(pods)
    active = [pod for pod in pods if pod.is_active]
    new_succeeded = _ended(pods, spec, JobPod.has_succeeded.fget, but=status.uncounted_succeeded)  # type: ignore[attr-defined]
    new_failed = _ended(pods, spec, lambda pod: pod.has_failed(spec), but=status.uncounted_failed)
    succeeded = status.succeeded + len(new_succeeded) + len(status.uncounted_succeeded)
    failed = status.failed + len(status.uncounted_failed)
    failed += sum(_counts(spec, pod) for pod in new_failed)
    before = after = Indexes()
    failed_indexes: Indexes | None = None
    kept: Mapping[int, JobPod] = {}
    if spec.is_indexed:
        before, after = _succeeded_indexes(spec, status, pods)
        succeeded = after.total
        if spec.limit_per_index is not None:
            failed_indexes = _failed_indexes(spec, status, pods, after)
            kept = _kept(spec, pods, active, after.merged(failed_indexes))
    return Observed(
        uid=uid,
        spec=spec,
        status=status,
        pods=pods,
        is_going=is_going,
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
        kept=kept,
    )


def _by_index(pod: JobPod) -> int:
    return -1 if pod.index is None else pod.index


def _ended(
    pods: Iterable[JobPod], spec: JobSpec, has_ended: Callable[[JobPod], bool], *, but: Iterable[str]
) -> list[JobPod]:
    uncounted = frozenset(but)
    return [
        pod for pod in pods if pod.is_tracked and has_ended(pod) and pod.uid not in uncounted and _has_place(spec, pod)
    ]


def _has_place(spec: JobSpec, pod: JobPod) -> bool:
    """Whether it counts: with indexes, one that is in their range."""
    return not spec.is_indexed or spec.has_index(pod.index)


def _counts(spec: JobSpec, failed: JobPod) -> bool:
    return spec.failure_rules is None or failure_verdict(spec.failure_rules, failed.object).counts


def _succeeded_indexes(spec: JobSpec, status: JobStatus, pods: Iterable[JobPod]) -> tuple[Indexes, Indexes]:
    """Those that the status has, and with those that it is to have. One that has failed for good stays so."""
    before = Indexes.parse(status.completed_indexes, completions=spec.completions or 0)
    failed = Indexes() if spec.limit_per_index is None else _known_failed(spec, status)
    new = (pod.index for pod in pods if pod.is_tracked and pod.has_succeeded and spec.has_index(pod.index))
    return before, before.merged(Indexes.of(index for index in new if index is not None and not failed.has(index)))


def _failed_indexes(spec: JobSpec, status: JobStatus, pods: Iterable[JobPod], succeeded: Indexes) -> Indexes:
    """But for those that have succeeded: the server refuses a status that has an index twice."""
    new = (pod.index for pod in pods if pod.is_tracked and spec.has_index(pod.index) and _fails_index(spec, pod))
    failed = Indexes.of(index for index in new if index is not None and not succeeded.has(index))
    return _known_failed(spec, status).merged(failed)


def _known_failed(spec: JobSpec, status: JobStatus) -> Indexes:
    return Indexes.parse(status.failed_indexes or "", completions=spec.completions or 0)


def _fails_index(spec: JobSpec, pod: JobPod) -> bool:
    if not pod.has_failed(spec):
        return False
    verdict = failure_verdict(spec.failure_rules, pod.object)
    if verdict.action is Action.FAIL_INDEX:
        return True
    return verdict.counts and pod.failures >= (spec.limit_per_index or 0)


def _kept(spec: JobSpec, pods: Iterable[JobPod], active: Iterable[JobPod], decided: Indexes) -> Mapping[int, JobPod]:
    """decided: indexes that have succeeded or failed."""
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
    def count(one: JobPod) -> int:
        return one.failures + one.ignored_failures

    return count(other) <= count(pod) and finish_time(pod.object) >= finish_time(other.object)
