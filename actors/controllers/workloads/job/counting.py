"""The status of a Job: what is counted is written first, then pods lose their finalizer, then they are in the counters.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (trackJobStatusAndRemoveFinalizers,
flushUncountedAndRemoveFinalizers, enactJobFinished, recordJobFinished).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcm.actors.controllers.workloads.job.backoff import Failures
from kcm.actors.controllers.workloads.job.conditions import COMPLETE, FINAL, condition, with_status
from kcm.actors.controllers.workloads.job.fields import JobSpec, status_of
from kcm.actors.controllers.workloads.job.metrics import JobMetrics
from kcm.actors.controllers.workloads.job.observing import Observed
from kcm.actors.controllers.workloads.job.syncs import LOOK_AGAIN, Sync
from kcm.actors.controllers.workloads.job.tracking import Tally, Tracking, plan_tracking, tally_of, tracked_uids
from kcm.actors.controllers.workloads.job.writing import (
    Running,
    completion_time,
    running_pods,
    untrack,
    written_status,
)
from kcm.actors.reconciliation import Step, must, record, together, update
from kcm.protocols.messages.events import RecordType
from kcm.protocols.messages.outcomes import CommandError, Done, NotFound
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.resources import JOBS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


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
