"""Counts finished pods in the status, exactly once, and removes their finalizer.

1. The uids of finished pods (uncountedTerminatedPods) or their completion indexes are written to the status.
2. The finalizer of these pods is removed.
3. The status is written again, with those uids moved into the counters.

A sync may be interrupted between any two steps. The next sync adds a recorded uid to the counters if its pod has no
finalizer any more, and does not record a pod that the status already contains.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (trackJobStatusAndRemoveFinalizers, canRemoveFinalizer,
cleanUncountedPodsWithoutFinalizers, flushUncountedAndRemoveFinalizers, enactJobFinished, recordJobFinished).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.controllers.shared.unknown_outcomes import RETRY_DELAY
from kcm.actors.controllers.workloads.job.backoff import Failures
from kcm.actors.controllers.workloads.job.fields import FINALIZER, JobSpec, status_of
from kcm.actors.controllers.workloads.job.metrics import JobMetrics
from kcm.actors.controllers.workloads.job.observed import Observed
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.actors.controllers.workloads.job.policies import match_failure_policy
from kcm.actors.controllers.workloads.job.status import (
    COMPLETE,
    FINAL,
    SUCCESS_CRITERIA_MET,
    RunningPods,
    Tally,
    completion_time,
    condition,
    running_pods,
    tally_of,
    with_status,
    written_status,
)
from kcm.actors.controllers.workloads.job.sync import Sync
from kcm.actors.reconciliation import Step, must, patch, record, together
from kcm.actors.reconciliation import update as update_object
from kcm.protocols.completion_indexes import Indexes
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Patch, PatchType
from kcm.protocols.messages.events import RecordType
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.resources import JOBS, PODS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def untrack(pod: Entry, *, unchanged: bool = False) -> Patch:
    """Return a patch that removes the tracking finalizer from a pod.

    unchanged: makes the patch fail with a Conflict if the pod has changed since it was read.
    """
    meta: Object = {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    if unchanged:
        meta["resourceVersion"] = str(pod.resource_version)
    return patch(PODS, pod.key, {"metadata": meta}, patch_type=PatchType.STRATEGIC)


def track(pod: Entry) -> Patch:
    """Return a patch that adds the tracking finalizer.

    It fails with a Conflict if the pod has changed since it was read.
    """
    meta: Object = {"uid": pod.uid, "resourceVersion": str(pod.resource_version), "finalizers": [FINALIZER]}
    return patch(PODS, pod.key, {"metadata": meta}, patch_type=PatchType.STRATEGIC)


MAX_UNCOUNTED = 500  # pods recorded in one status, so that it does not grow too large


class TrackingPlan(Struct, frozen=True, kw_only=True):
    """Finished pods to record in the status, and pods whose finalizer to remove."""

    recorded: Tally  # what the status must contain before finalizers are removed
    release: Sequence[JobPod]  # pods that lose the finalizer once that status is written
    is_full: bool  # more pods must be counted in a later sync, so the Job does not finish in this one
    by_action: Mapping[str, int]  # failed pods by the action of the pod failure policy's rule that matched


def plan_tracking(job: Observed, finished: Object | None, *, limit: int = MAX_UNCOUNTED) -> TrackingPlan:
    """Select the finished pods to count in this sync, and the pods whose finalizer to remove.

    finished: the condition with which the Job finishes; None if it continues.
    limit: maximum number of pods to record in the status.
    """
    tally = tally_of(job.status).settled(tracked_uids(job.pods), is_indexed=job.spec.is_indexed)
    succeeded, failed = list(tally.uncounted_succeeded), list(tally.uncounted_failed)
    known_succeeded, known_failed = set(job.status.uncounted_succeeded), set(job.status.uncounted_failed)
    new_indexes: list[int] = []
    release: list[JobPod] = []
    by_action: Counter[str] = Counter()
    job_fails = finished is not None and finished["type"] != SUCCESS_CRITERIA_MET
    is_full = False
    for pod in job.pods:
        if not pod.is_tracked or not _may_release(job, pod, finished):
            continue
        release.append(pod)
        if pod.has_succeeded and job.spec.is_indexed:
            index = pod.index
            if index is not None and job.succeeded_indexes.has(index) and not job.succeeded_before.has(index):
                new_indexes.append(index)
        elif pod.has_succeeded and pod.uid not in known_failed:
            if pod.uid not in known_succeeded:
                succeeded.append(pod.uid)
        # When a Job fails, all its remaining pods are counted as failed.
        elif (pod.has_failed(job.spec) or job_fails) and pod.uid not in known_failed:
            if _counts_as_failed(job, pod, by_action):
                failed.append(pod.uid)
        if len(new_indexes) + len(succeeded) + len(failed) >= limit:
            is_full = True
            break
    completed = job.succeeded_before.merged(Indexes.of(new_indexes))
    return TrackingPlan(
        recorded=replace(
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


def _may_release(job: Observed, pod: JobPod, finished: Object | None) -> bool:
    """Report whether the finalizer may be removed from this pod. Source: canRemoveFinalizer."""
    if job.is_deleting or finished is not None or pod.has_succeeded:
        return True
    if not pod.has_failed(job.spec):
        return False
    delayed = None if pod.index is None or not job.delayed_deletion else job.delayed_deletion.get(pod.index)
    return delayed is None or delayed.uid != pod.uid


def _counts_as_failed(job: Observed, pod: JobPod, by_action: Counter[str]) -> bool:
    if job.spec.is_indexed and not job.spec.has_index(pod.index):
        return False
    match = match_failure_policy(job.spec.failure_rules, pod.object)
    if match.action is not None:
        by_action[match.action] += 1
    return match.counts


class StatusUpdate(NamedTuple):
    """Changes that a sync makes to the status of a Job, apart from the pod counts."""

    job: Observed
    finished: Object | None  # the condition with which the Job finishes; None while it continues
    conditions: Sequence[Object]  # without `finished`
    started: float | None  # startTime, in Unix seconds
    failures: Failures  # kept in memory once the status is written
    events: tuple[tuple[RecordType, str, str], ...] = ()  # recorded once the status is written

    def with_finished_condition(self) -> StatusUpdate:
        """Add the interim condition FailureTarget or SuccessCriteriaMet. `_finish` adds the final one, Failed or
        Complete.
        """
        finished = self.finished
        if finished is None or finished["type"] not in FINAL or finished in self.conditions:
            return self
        return self._replace(conditions=[*self.conditions, finished])


class FinalizerTracker:
    """Counts finished pods in the status, and removes their finalizers."""

    def __init__(self, *, pods: Lister, clock: Clock, metrics: JobMetrics, log: FilteringBoundLogger) -> None:
        self._pods, self._clock, self._metrics, self._log = pods, clock, metrics, log

    def track(self, sync: Sync, update: StatusUpdate) -> Step[bool]:
        """Do the three steps of this module, and finish the Job if all its pods are counted.

        Returns False if the Job no longer exists. Raises CommandError if a write fails.
        """
        job = update.job
        plan = plan_tracking(job, update.finished)
        before, recorded = tally_of(job.status), plan.recorded
        update = update.with_finished_condition()
        running = running_pods(self._pods, sync.entry.uid, settled=sync.memory.settled)
        changed = list(update.conditions) != list(job.status.conditions) or running.differs_from(status_of(sync.job))
        if changed or recorded != before:
            if not (yield from self._write(sync, update, running, before, recorded)):
                return False
            sync.memory.failures = update.failures
            for event in update.events:
                yield record(JOBS, sync.job, *event)
        self._metrics.failures_handled(plan.by_action)
        tracked, failure = yield from self._release(job, plan)
        counted = recorded.settled(tracked, is_indexed=job.spec.is_indexed)
        if failure is not None:
            if counted != recorded:
                yield from self._write(sync, update, running, recorded, counted)
            raise failure
        if plan.is_full:
            sync.requeue_after(RETRY_DELAY)
        running = running_pods(self._pods, sync.entry.uid, settled=sync.memory.settled)
        all_counted = not (plan.is_full or counted.has_uncounted or running.terminating)
        if update.finished is not None and all_counted:
            return (yield from self._finish(sync, update, update.finished, running, recorded, counted))
        if counted != recorded:
            return (yield from self._write(sync, update, running, recorded, counted))
        return True

    def _release(self, job: Observed, plan: TrackingPlan) -> Step[tuple[set[str], CommandError | None]]:
        """Remove the finalizer from the pods to release.

        Returns the uids of pods that still have the finalizer, and the first failure, or None.
        """
        tracked = tracked_uids(job.pods)
        commands = [untrack(pod.entry) for pod in plan.release]
        outcomes = yield from together(commands)
        failure: CommandError | None = None
        for pod, command, outcome in zip(plan.release, commands, outcomes, strict=True):
            if isinstance(outcome, Done | NotFound):
                tracked.discard(pod.uid)
            elif failure is None:
                failure = CommandError(command, outcome)
        return tracked, failure

    def _finish(
        self, sync: Sync, update: StatusUpdate, finished: Object, running: RunningPods, recorded: Tally, counted: Tally
    ) -> Step[bool]:
        """Write the final condition, Complete or Failed, to the status. Source: enactJobFinished, recordJobFinished.

        Returns False if the Job no longer exists.
        """
        now = self._clock.now()
        final, started = _final(finished, now=now), update.started
        if started is None and update.job.spec.completions != 0:
            started = now  # the Job is suspended, and the server rejects a finished Job without startTime
        conditions = with_status(update.conditions, final) or update.conditions
        update = update._replace(conditions=conditions, finished=final, started=started)
        if not (yield from self._write(sync, update, running, recorded, counted)):
            return False
        yield from self._report(sync, update.job.spec, counted, final)
        return True

    def _write(self, sync: Sync, update: StatusUpdate, running: RunningPods, before: Tally, tally: Tally) -> Step[bool]:
        """Update the status, and count newly counted pods in the metrics. Return False if the Job no longer exists.

        before: the counts that the stored status contains. tally: the counts to write.
        """
        status = written_status(
            status_of(sync.job), tally=tally, running=running, conditions=update.conditions, started=update.started
        )
        if update.finished is not None and update.finished["type"] == COMPLETE:
            status["completionTime"] = completion_time(update.finished, started=update.started)
        outcome = yield from must(
            update_object(JOBS, {**sync.job, "status": status}, subresource="status"), but=(NotFound,)
        )
        if not isinstance(outcome, Done):
            return False
        sync.job = decode_object(outcome.body)
        self._metrics.counted(update.job.spec, before, tally)
        return True

    def _report(self, sync: Sync, spec: JobSpec, tally: Tally, finished: Object) -> Step[None]:
        self._metrics.finished(spec.mode, finished)
        self._log.info("job finished", key=sync.entry.key, condition=finished["type"], reason=finished.get("reason"))
        if finished["type"] != COMPLETE:
            yield record(JOBS, sync.job, "Warning", finished.get("reason") or "", finished.get("message") or "")
            return
        if spec.completions is not None and tally.succeeded > spec.completions:
            text = "Too many succeeded pods running after completion count reached"
            yield record(JOBS, sync.job, "Warning", "TooManySucceededPods", text)
        yield record(JOBS, sync.job, "Normal", "Completed", "Job completed")


def _final(finished: Object, *, now: float) -> Object:
    """Return the final condition for an interim one: Failed for FailureTarget, Complete for SuccessCriteriaMet."""
    if finished["type"] not in FINAL:
        return finished
    return condition(FINAL[finished["type"]], finished.get("reason") or "", finished.get("message") or "", now=now)
