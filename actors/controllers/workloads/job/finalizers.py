"""Finished pods are counted in the status, exactly once, and lose their finalizer.

1. The status is written with the uids of finished pods (uncountedTerminatedPods) or with their completion indexes.
2. These pods lose the finalizer.
3. The status is written again, with those uids moved into the counters.

A sync may end between any two steps. The next one counts a recorded uid whose pod has no finalizer any more, and does
not record a pod again that the status contains already.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (trackJobStatusAndRemoveFinalizers, canRemoveFinalizer,
cleanUncountedPodsWithoutFinalizers, flushUncountedAndRemoveFinalizers, enactJobFinished, recordJobFinished).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kcm.actors.controllers.workloads.job.backoff import Failures
from kcm.actors.controllers.workloads.job.fields import FINALIZER, JobSpec, status_of
from kcm.actors.controllers.workloads.job.metrics import JobMetrics
from kcm.actors.controllers.workloads.job.observed import Observed
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.actors.controllers.workloads.job.policies import failure_verdict
from kcm.actors.controllers.workloads.job.status import (
    COMPLETE,
    FINAL,
    SUCCESS_CRITERIA_MET,
    Running,
    Tally,
    completion_time,
    condition,
    running_pods,
    tally_of,
    with_status,
    written_status,
)
from kcm.actors.controllers.workloads.job.sync import LOOK_AGAIN, Sync
from kcm.actors.reconciliation import Step, must, patch, record, together, update
from kcm.protocols.completion_indexes import Indexes
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.commands import Patch, PatchType
from kcm.protocols.messages.events import RecordType
from kcm.protocols.messages.outcomes import CommandError, Done, NotFound
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.resources import JOBS, PODS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def untrack(pod: Entry, *, unchanged: bool = False) -> Patch:
    """Remove the finalizer. unchanged: only if the pod is as it was read."""
    meta: Object = {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    if unchanged:
        meta["resourceVersion"] = str(pod.resource_version)
    return patch(PODS, pod.key, {"metadata": meta}, patch_type=PatchType.STRATEGIC)


def track(pod: Entry) -> Patch:
    """Add the finalizer, if the pod is as it was read."""
    meta: Object = {"uid": pod.uid, "resourceVersion": str(pod.resource_version), "finalizers": [FINALIZER]}
    return patch(PODS, pod.key, {"metadata": meta}, patch_type=PatchType.STRATEGIC)


MOST_UNCOUNTED = 500


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


class Ending(NamedTuple):
    """How a sync leaves a Job. end: the condition with which it ends, None while it goes on. conditions: that it has,
    without that. started: Unix seconds. events: to record once the status says so.
    """

    job: Observed
    end: Object | None
    conditions: Sequence[Object]
    started: float | None
    events: tuple[tuple[RecordType, str, str], ...]


class Counting:
    def __init__(self, *, pods: Lister, clock: Clock, metrics: JobMetrics, log: FilteringBoundLogger) -> None:
        self._pods, self._clock, self._metrics, self._log = pods, clock, metrics, log

    def track(self, sync: Sync, ending: Ending, failures: Failures) -> Step[bool]:
        """Write what is to be counted, let the pods go, and count them. False if the Job is gone."""
        job, end = ending.job, ending.end
        tracking = plan_tracking(job, end)
        conditions = [*ending.conditions]
        if end is not None and end["type"] in FINAL and end not in conditions:
            conditions.append(end)
        running = running_pods(self._pods, sync.entry.uid)
        before, tally = tally_of(job.status), tracking.tally
        changed = conditions != list(job.status.conditions) or running.differs_from(status_of(sync.job))
        if changed or tally != before:
            ending = ending._replace(conditions=conditions)
            if not (yield from self._write(sync, ending, running, before, tally)):
                return False
            sync.memory.failures = failures
            for event in ending.events:
                yield record(JOBS, sync.job, *event)
        self._metrics.judged(tracking.by_action)
        tracked, failure = yield from self._release(job, tracking)
        counted = tally.settled(tracked, is_indexed=job.spec.is_indexed)
        if failure is not None:
            if counted != tally:
                yield from self._write(sync, ending, running, tally, counted)
            raise failure
        if tracking.is_full:
            sync.look_again(LOOK_AGAIN)
        running = running_pods(self._pods, sync.entry.uid)
        is_over = end is not None and not (tracking.is_full or counted.has_uncounted or running.terminating)
        if end is None or not is_over:
            if counted != tally:
                return (yield from self._write(sync, ending, running, tally, counted))
            return True
        now = self._clock.now()
        final = _final(end, now=now)
        started = ending.started
        if started is None and job.spec.completions != 0:  # it is suspended, and the server wants to know
            started = now
        ending = ending._replace(conditions=with_status(conditions, final) or conditions, end=final, started=started)
        if not (yield from self._write(sync, ending, running, tally, counted, completed=final["type"] == COMPLETE)):
            return False
        yield from self._report(sync, job.spec, counted, final)
        return True

    def _write(
        self, sync: Sync, ending: Ending, running: Running, before: Tally, tally: Tally, *, completed: bool = False
    ) -> Step[bool]:
        """PUT the status to the version that was read. False if the Job is gone."""
        status = written_status(
            status_of(sync.job), tally=tally, running=running, conditions=ending.conditions, started=ending.started
        )
        if completed:
            status["completionTime"] = completion_time(ending.conditions[-1], started=ending.started)
        outcome = yield from must(update(JOBS, {**sync.job, "status": status}, subresource="status"), but=(NotFound,))
        if not isinstance(outcome, Done):
            return False
        sync.job = decode_object(outcome.body)
        self._metrics.counted(ending.job.spec, before, tally)
        return True

    def _release(self, job: Observed, tracking: Tracking) -> Step[tuple[set[str], CommandError | None]]:
        """Remove finalizers. Returns the uids of pods that still have it, and the first failure."""
        tracked = tracked_uids(job.pods)
        commands = [untrack(pod.entry) for pod in tracking.release]
        outcomes = yield from together(commands)
        failure: CommandError | None = None
        for pod, command, outcome in zip(tracking.release, commands, outcomes, strict=True):
            if isinstance(outcome, Done | NotFound):
                tracked.discard(pod.uid)
            elif failure is None:
                failure = CommandError(command, outcome)
        return tracked, failure

    def _report(self, sync: Sync, spec: JobSpec, tally: Tally, end: Object) -> Step[None]:
        self._metrics.finished(spec.mode, end)
        self._log.info("job finished", key=sync.entry.key, condition=end["type"], reason=end.get("reason"))
        if end["type"] != COMPLETE:
            yield record(JOBS, sync.job, "Warning", end.get("reason") or "", end.get("message") or "")
            return
        if spec.completions is not None and tally.succeeded > spec.completions:
            text = "Too many succeeded pods running after completion count reached"
            yield record(JOBS, sync.job, "Warning", "TooManySucceededPods", text)
        yield record(JOBS, sync.job, "Normal", "Completed", "Job completed")


def _final(end: Object, *, now: float) -> Object:
    """What the Job is, now that its pods are gone and counted."""
    if end["type"] not in FINAL:
        return end
    return condition(FINAL[end["type"]], end.get("reason") or "", end.get("message") or "", now=now)
