"""job-controller: runs pods until enough of them have succeeded, and counts each of them once.

In: changes of Jobs and pods. Out: pods created and deleted (500 a sync at most), their finalizer, adoption and release
patches, the status subresource, events on the Job. Key: "namespace/name".

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (syncJob). Differences:
- No expectations and no consistency store: listers show our own writes. What an earlier leader wrote is looked for
  before we act on a Job for the first time; upstream counts a pod again whose finalizer is gone already on the server
  and not yet in its cache.
- Pod names are chosen here (actors/controllers/shared/generated_names.py), so that a creation is not made twice.
- Active pods that are too many lose their finalizer only as they were read: one that has just succeeded is counted.
  An active pod without the finalizer gets it back; upstream never counts it.
- While failed pods are not replaced yet, the status says how many are active; upstream says 0.
- A pod that ended with its Job and is gone from the listers is not waited for until the next sync.
- Events of suspending and resuming are recorded once the status says so.
- completionTime is never before startTime, which a leader with a clock ahead may have written. Upstream's is the time
  of the condition, and until its own clock is that far the server refuses the status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from actors.controllers.shared.ownership import claim
from actors.controllers.shared.pod_control import create_each, delete_pods, fetch_existing
from actors.controllers.workloads.job.backoff import Failures, next_failures
from actors.controllers.workloads.job.conditions import (
    COMPLETE,
    FINAL,
    SUSPENDED,
    condition,
    with_status,
)
from actors.controllers.workloads.job.fields import (
    FINALIZER,
    INDEXED,
    NON_INDEXED,
    JobSpec,
    is_finished,
    job_spec,
    job_status,
    manager_elsewhere,
    status_of,
)
from actors.controllers.workloads.job.finishing import completed, end_of, seconds_to_deadline
from actors.controllers.workloads.job.forms import NewPod, indexed_pods, plain_pods
from actors.controllers.workloads.job.making_sure import ask
from actors.controllers.workloads.job.managing import PodPlan, plan_pods
from actors.controllers.workloads.job.memory import Memories, Memory
from actors.controllers.workloads.job.metrics import (
    PODS_ARE_CREATED,
    PODS_ARE_DELETED,
    RECONCILING,
    TRACKING,
    JobMetrics,
)
from actors.controllers.workloads.job.observing import Observed, observe
from actors.controllers.workloads.job.pods import JobPod
from actors.controllers.workloads.job.tracking import Tally, Tracking, plan_tracking, tally_of, tracked_uids
from actors.controllers.workloads.job.writing import (
    Running,
    completion_time,
    running_pods,
    track,
    untrack,
    written_status,
)
from actors.reconciliation import (
    Reconciliation,
    RequeueAfter,
    Retry,
    Step,
    must,
    record,
    together,
    update,
)
from protocols.messages.outcomes import CommandFailed, Conflict, Done, NotFound, Refused
from protocols.messages.recording import Record, RecordType
from protocols.objects import Key, Object, decode_object, is_deleting, make_key, split_key
from protocols.pods import is_terminal
from protocols.resources import JOBS, PODS
from runtime.scheduling.clock import Clock
from runtime.tables.overlay import Tables
from runtime.tables.table import Entry

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SUSPENDED_EVENT: tuple[RecordType, str, str] = ("Normal", "Suspended", "Job suspended")
RESUMED_EVENT: tuple[RecordType, str, str] = ("Normal", "Resumed", "Job resumed")
UNREADABLE_WAIT = 10.0  # seconds until a pod that cannot be read is looked at again
LOOK_AGAIN = 1.0  # seconds after a pod's name was found to exist, a pod had changed, or more is to be counted


class _Managed(NamedTuple):
    """action: what was done, as metrics call it. failure: what the sync raises once the status is written. wait:
    seconds to requeue after.
    """

    action: str = TRACKING
    failure: CommandFailed | None = None
    wait: float | None = None


class _Sync:
    """One sync of a Job. action: what it does, as metrics call it."""

    __slots__ = ("action", "entry", "job", "memory", "waits")

    def __init__(self, entry: Entry, job: Object, memory: Memory) -> None:
        self.entry, self.job, self.memory = entry, job, memory
        self.action = RECONCILING
        self.waits: list[float] = []

    def look_again(self, after: float | None) -> None:
        if after is not None:
            self.waits.append(after)


class _NewPods(NamedTuple):
    """indexes: by the pod's name, where pods have some."""

    pods: list[NewPod]
    indexes: Mapping[str, int]


class _Ending(NamedTuple):
    """How a sync leaves a Job. end: the condition with which it ends, None while it goes on. conditions: that it has,
    without that. started: Unix seconds. events: to record once the status says so.
    """

    job: Observed
    end: Object | None
    conditions: Sequence[Object]
    started: float | None
    events: tuple[tuple[RecordType, str, str], ...]


class JobReconciler:
    """Key: "namespace/name" of a Job."""

    def __init__(self, *, tables: Tables, clock: Clock, metrics: JobMetrics, log: FilteringBoundLogger) -> None:
        self._jobs, self._pods = tables[JOBS], tables[PODS]
        self._clock, self._metrics, self._log = clock, metrics, log
        self._memories = Memories()
        self._elsewhere: dict[Key, str] = {}  # uids of Jobs that others manage

    def reconcile(self, key: Key) -> Reconciliation:
        self._jobs.require(key)
        entry = self._jobs.entry(key)
        if entry is None:
            self._forget(key)
            self._elsewhere.pop(key, None)
            return None
        job = self._jobs.object_of(entry)
        manager = manager_elsewhere(job)
        if manager is not None:
            if self._elsewhere.get(key) != entry.uid:
                self._elsewhere[key] = entry.uid
                self._metrics.managed_elsewhere(manager)
            return None
        if is_finished(job):
            self._forget(key)
            return None
        mode = (job.get("spec") or {}).get("completionMode") or NON_INDEXED
        if mode not in (NON_INDEXED, INDEXED):
            text = "Skipped Job sync because completion mode is unknown"
            yield record(JOBS, job, "Warning", "UnknownCompletionMode", text)
            return None
        sync = _Sync(entry, job, self._memories.of(key, entry.uid))
        began = self._clock.monotonic()
        try:
            yield from self._sync(sync)
        except Retry:
            raise  # it has not begun
        except Exception:
            self._metrics.synced(mode, succeeded=False, action=sync.action, seconds=self._clock.monotonic() - began)
            raise
        self._metrics.synced(mode, succeeded=True, action=sync.action, seconds=self._clock.monotonic() - began)
        return RequeueAfter(min(sync.waits)) if sync.waits else None

    def _forget(self, key: Key) -> None:
        """Of what has finished, or is gone, no pod is waited for."""
        self._metrics.tracked_ended(added=0, gone=len(self._memories.forget(key)))

    def _sync(self, sync: _Sync) -> Step[None]:
        spec = job_spec(sync.job)
        job_status(status_of(sync.job))  # what cannot be read is left alone, and its pods with it
        claimed = yield from claim(
            self._candidates(sync.entry),
            lister=self._pods,
            owner=sync.job,
            owners=JOBS,
            matches=spec.selector.matches,
            finalizers=(FINALIZER,),
        )
        if not self._is_current(sync):
            return
        job = self._observed(sync, spec, claimed)
        now = self._clock.now()
        started = job.status.started
        if started is None and not spec.is_suspended:
            started = now
        failures = next_failures(sync.memory.failures, succeeded=job.new_succeeded, failed=job.new_failed)
        end = end_of(job, started=started, now=now)
        plan = PodPlan() if end is not None else plan_pods(job, failures=failures, now=now)
        if not (yield from self._make_sure(sync, job, end, plan)):
            return
        conditions: Sequence[Object] = job.status.conditions
        events: list[tuple[RecordType, str, str]] = []
        managed = _Managed(RECONCILING)
        if end is not None:
            gone = yield from delete_pods([pod.entry for pod in job.active], owner=sync.job, owners=JOBS)
            managed = _Managed(RECONCILING, gone.failure, LOOK_AGAIN if gone.conflicting else None)
            if running_pods(self._pods, sync.entry.uid).active:
                end = None  # there is more to delete, and to count
        else:
            sync.look_again(seconds_to_deadline(job, started=started, now=now))
            is_managed = not job.is_going and self._is_known(sync)
            if is_managed:
                managed = yield from self._manage(sync, job, plan)
            end = completed(job, active=running_pods(self._pods, sync.entry.uid).active, now=now)
            if end is None and is_managed:
                changed = with_status(conditions, _suspension(spec, now=now))
                if changed is not None:
                    conditions = changed
                    started = None if spec.is_suspended else now
                    events.append(SUSPENDED_EVENT if spec.is_suspended else RESUMED_EVENT)
        sync.action = managed.action
        sync.look_again(managed.wait)
        ending = _Ending(job, end, conditions, started, tuple(events))
        if (yield from self._track(sync, ending, failures)) and managed.failure is not None:
            raise managed.failure

    def _candidates(self, owner: Entry) -> Iterator[Entry]:
        yield from self._pods.entries_owned_by(owner.uid)
        yield from self._pods.orphan_entries(split_key(owner.key)[0])

    def _is_current(self, sync: _Sync) -> bool:
        """False if the Job has changed or is gone since: no decision rests on it and on its pods as they are now."""
        now = self._jobs.entry(sync.entry.key)
        if now is not None and (now.uid, now.resource_version) == (sync.entry.uid, sync.entry.resource_version):
            return True
        sync.look_again(0.0)
        return False

    def _observed(self, sync: _Sync, spec: JobSpec, claimed: Sequence[Entry]) -> Observed:
        memory = sync.memory
        pods = {}
        for entry in claimed:
            known = memory.pods.get(entry.uid)
            pods[entry.uid] = (
                JobPod(entry, self._pods.object_of) if known is None or known.entry is not entry else known
            )
        memory.pods = pods
        ended = frozenset(pod.uid for pod in pods.values() if pod.is_tracked and is_terminal(pod.facts))
        self._metrics.tracked_ended(added=len(ended - memory.ended), gone=len(memory.ended - ended))
        memory.ended = ended
        return observe(
            uid=sync.entry.uid,
            spec=spec,
            status=job_status(status_of(sync.job)),
            pods=pods.values(),
            is_going=is_deleting(sync.job),
        )

    def _make_sure(self, sync: _Sync, job: Observed, end: Object | None, plan: PodPlan) -> Step[bool]:
        """False if it turns out that the Job has changed. Raises Retry while a table is late."""
        memory = sync.memory
        if not status_of(sync.job):
            memory.is_sure = True  # nobody has done anything about it yet
        said = job.status.uncounted_succeeded or job.status.uncounted_failed
        acts = end is not None or plan.remove or plan.create or job.new_succeeded or job.new_failed or said
        if memory.is_sure or not acts:
            return True
        if memory.live is None:
            memory.live = yield from ask(sync.entry, job.spec, pods=self._pods)
        if not memory.live.is_shown(self._pods):
            self._metrics.stale(PODS)
            raise Retry("the table of pods is late", after=LOOK_AGAIN)
        memory.is_sure = True
        return self._is_current(sync)

    def _is_known(self, sync: _Sync) -> bool:
        """Whether all of its pods can be read. Else one that seems to be missing may be there."""
        if self._pods.in_doubt(split_key(sync.entry.key)[0], owner=sync.entry.uid) is None:
            return True
        sync.look_again(UNREADABLE_WAIT)
        return False

    # Its pods.

    def _manage(self, sync: _Sync, job: Observed, plan: PodPlan) -> Step[_Managed]:
        if plan.remove or job.spec.is_suspended:
            return (yield from self._remove(sync, plan.remove))
        lost = [pod.entry for pod in job.active if not pod.is_tracked]
        outcomes = yield from together([track(entry) for entry in lost])
        for entry, outcome in zip(lost, outcomes, strict=True):
            if not isinstance(outcome, Done | NotFound | Conflict):
                raise CommandFailed(track(entry), outcome)
        if plan.create:
            return (yield from self._create(sync, job, plan))
        return _Managed(PODS_ARE_CREATED if plan.wait is not None else TRACKING, wait=plan.wait)

    def _remove(self, sync: _Sync, pods: Sequence[JobPod]) -> Step[_Managed]:
        """Their finalizer goes first: they are not counted."""
        untracked = [pod.entry for pod in pods if not pod.is_tracked]
        tracked = [pod.entry for pod in pods if pod.is_tracked]
        commands = [untrack(entry, unchanged=True) for entry in tracked]
        outcomes = yield from together(commands)
        failure: CommandFailed | None = None
        wait: float | None = None
        for entry, command, outcome in zip(tracked, commands, outcomes, strict=True):
            if isinstance(outcome, Done):
                untracked.append(entry)
            elif isinstance(outcome, Conflict):
                wait = LOOK_AGAIN
            elif not isinstance(outcome, NotFound) and failure is None:
                failure = CommandFailed(command, outcome)
        gone = yield from delete_pods(untracked, owner=sync.job, owners=JOBS)
        if gone.deleted:
            self._log.info("pods deleted", key=sync.entry.key, count=len(gone.deleted))
        if gone.conflicting:
            wait = LOOK_AGAIN
        return _Managed(PODS_ARE_DELETED, failure or gone.failure, wait)

    def _create(self, sync: _Sync, job: Observed, plan: PodPlan) -> Step[_Managed]:
        new = self._new_pods(sync, job, plan)
        made = yield from create_each(new.pods, owner=sync.job, owners=JOBS)
        if made.created:
            self._log.info("pods created", key=sync.entry.key, count=len(made.created))
        self._metrics.created(job, made=len(made.created), failed=made.failed)
        yield from fetch_existing(made)  # so that the next sync counts them or takes other names
        sync.memory.unsure = {name: new.indexes.get(name) for name in made.unanswered}
        if made.failure is not None and (made.unanswered or isinstance(made.failure.failure, Refused)):
            # A status write would change the resourceVersion that the names derive from, and so the retry's names.
            sync.action = PODS_ARE_CREATED
            raise made.failure
        return _Managed(PODS_ARE_CREATED, made.failure, LOOK_AGAIN if made.existing else None)

    def _new_pods(self, sync: _Sync, job: Observed, plan: PodPlan) -> _NewPods:
        """Those whose creation may have succeeded unseen first."""
        namespace, _ = split_key(sync.entry.key)

        def taken(pod: Key) -> bool:
            return self._pods.entry(pod) is not None

        again = {name: i for name, i in sync.memory.unsure.items() if not taken(make_key(namespace, name))}
        if not job.spec.is_indexed:
            pods = plain_pods(sync.job, job.spec, plan.create, again=list(again), taken=taken)
            return _NewPods(pods, {})
        names = {index: name for name, index in again.items() if index is not None}
        pods = indexed_pods(sync.job, job.spec, plan.indexes, again=names, replaced=job.kept.get, taken=taken)
        return _NewPods(pods, {name: i for (_, name), i in zip(pods, plan.indexes, strict=True)})

    # Counting.

    def _track(self, sync: _Sync, ending: _Ending, failures: Failures) -> Step[bool]:
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
                yield self._event(sync, *event)
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
        final = _final(end, now=self._clock.now())
        ending = ending._replace(conditions=with_status(conditions, final) or conditions, end=final)
        if not (yield from self._write(sync, ending, running, tally, counted, completed=final["type"] == COMPLETE)):
            return False
        yield from self._report(sync, job.spec, counted, final)
        return True

    def _write(
        self, sync: _Sync, ending: _Ending, running: Running, before: Tally, tally: Tally, *, completed: bool = False
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

    def _release(self, job: Observed, tracking: Tracking) -> Step[tuple[set[str], CommandFailed | None]]:
        """Remove finalizers. Returns the uids of pods that still have it, and the first failure."""
        tracked = tracked_uids(job.pods)
        commands = [untrack(pod.entry) for pod in tracking.release]
        outcomes = yield from together(commands)
        failure: CommandFailed | None = None
        for pod, command, outcome in zip(tracking.release, commands, outcomes, strict=True):
            if isinstance(outcome, Done | NotFound):
                tracked.discard(pod.uid)
            elif failure is None:
                failure = CommandFailed(command, outcome)
        return tracked, failure

    def _report(self, sync: _Sync, spec: JobSpec, tally: Tally, end: Object) -> Step[None]:
        self._metrics.finished(spec.mode, end)
        self._log.info("job finished", key=sync.entry.key, condition=end["type"], reason=end.get("reason"))
        if end["type"] != COMPLETE:
            yield self._event(sync, "Warning", end.get("reason") or "", end.get("message") or "")
            return
        if spec.completions is not None and tally.succeeded > spec.completions:
            text = "Too many succeeded pods running after completion count reached"
            yield self._event(sync, "Warning", "TooManySucceededPods", text)
        yield self._event(sync, "Normal", "Completed", "Job completed")

    def _event(self, sync: _Sync, type: RecordType, reason: str, message: str) -> Record:
        return record(JOBS, sync.job, type, reason, message)


def _suspension(spec: JobSpec, *, now: float) -> Object:
    if spec.is_suspended:
        return condition(SUSPENDED, "JobSuspended", "Job suspended", now=now)
    return condition(SUSPENDED, "JobResumed", "Job resumed", now=now, status="False")


def _final(end: Object, *, now: float) -> Object:
    """What the Job is, now that its pods are gone and counted."""
    if end["type"] not in FINAL:
        return end
    return condition(FINAL[end["type"]], end.get("reason") or "", end.get("message") or "", now=now)
