"""job-controller: runs pods until enough of them have succeeded, and counts each of them once.

In: changes of Jobs and pods; with the gate WorkloadWithJob, Workloads and PodGroups (gang.py). Out: pods created and
deleted (500 a sync at most), their finalizer, adoption and release patches, the status subresource, events on the Job.
Key: "namespace/name".

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
- An index is never both among those that succeeded and those that failed: what the status says first stays, and else a
  success. The server refuses such a status, and upstream's Job is stuck.
- A suspended Job that ends says that it started then. The server wants to know, and so upstream's stays as it is until
  it is resumed.
- completionTime is never before startTime, which a leader with a clock ahead may have written. Upstream's is the time
  of the condition, and until its own clock is that far the server refuses the status.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kcm.actors.controllers.shared.ownership import claim
from kcm.actors.controllers.shared.pod_control import delete_pods
from kcm.actors.controllers.workloads.job.backoff import next_failures
from kcm.actors.controllers.workloads.job.fields import (
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
from kcm.actors.controllers.workloads.job.finalizers import Counting, Ending
from kcm.actors.controllers.workloads.job.gang import Gangs
from kcm.actors.controllers.workloads.job.metrics import (
    RECONCILING,
    JobMetrics,
)
from kcm.actors.controllers.workloads.job.observed import Observed, observe
from kcm.actors.controllers.workloads.job.plan import PodPlan, completed, end_of, plan_pods, seconds_to_deadline
from kcm.actors.controllers.workloads.job.pod_control import PodActions
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.actors.controllers.workloads.job.status import SUSPENDED, condition, running_pods, with_status
from kcm.actors.controllers.workloads.job.sync import LOOK_AGAIN, Managed, Memories, Sync, ask
from kcm.actors.reconciliation import (
    Reconciliation,
    RequeueAfter,
    Retry,
    Step,
    record,
)
from kcm.protocols.messages.events import RecordType
from kcm.protocols.objects import Key, Object, is_deleting, split_key
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import JOBS, PODS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SUSPENDED_EVENT: tuple[RecordType, str, str] = ("Normal", "Suspended", "Job suspended")
RESUMED_EVENT: tuple[RecordType, str, str] = ("Normal", "Resumed", "Job resumed")
UNREADABLE_WAIT = 10.0  # seconds until a pod that cannot be read is looked at again


class JobReconciler:
    """Key: "namespace/name" of a Job."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        metrics: JobMetrics,
        log: FilteringBoundLogger,
        forgets_start: bool,
        gangs: Gangs | None = None,
    ) -> None:
        """forgets_start: a suspended Job does not say any more when it started. gangs: None without the gate."""
        self._forgets_start, self._gangs = forgets_start, gangs
        self._jobs, self._pods = tables[JOBS], tables[PODS]
        self._clock, self._metrics = clock, metrics
        self._actions = PodActions(pods=self._pods, metrics=metrics, log=log)
        self._counting = Counting(pods=self._pods, clock=clock, metrics=metrics, log=log)
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
        sync = Sync(entry, job, self._memories.of(key, entry.uid))
        began = self._clock.monotonic()
        try:
            yield from self._sync(sync)
        except Retry:
            raise  # it has not begun
        except Exception:
            self._metrics.synced(mode, succeeded=False, action=sync.action, seconds=self._clock.monotonic() - began)
            raise
        self._metrics.synced(mode, succeeded=True, action=sync.action, seconds=self._clock.monotonic() - began)
        return RequeueAfter(max(0.0, min(sync.waits))) if sync.waits else None

    def _forget(self, key: Key) -> None:
        """Of what has finished, or is gone, no pod is waited for."""
        self._metrics.tracked_ended(added=0, gone=len(self._memories.forget(key)))

    def _sync(self, sync: Sync) -> Step[None]:
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
        if self._gangs is not None:
            # As upstream before anything is decided, so that the first pod names its PodGroup.
            sync.pod_group = yield from self._gangs.pod_group_of(sync.job, spec, has_pods=bool(claimed))
            if not self._is_current(sync):
                return
        job = self._observed(sync, spec, claimed)
        now = self._clock.now()
        started = job.status.started
        if started is None and not spec.is_suspended:
            started = now
        failures = next_failures(sync.memory.failures, succeeded=job.new_succeeded, failed=job.new_failed)
        end = end_of(job, started=started, now=now)
        plan = PodPlan() if end is not None else plan_pods(job, failures=failures, now=now, doomed=sync.memory.doomed)
        if not (yield from self._make_sure(sync, job, end, plan)):
            return
        conditions: Sequence[Object] = job.status.conditions
        events: list[tuple[RecordType, str, str]] = []
        managed = Managed(RECONCILING)
        if end is not None:
            gone = yield from delete_pods([pod.entry for pod in job.active], owner=sync.job, owners=JOBS)
            managed = Managed(RECONCILING, gone.failure, LOOK_AGAIN if gone.conflicting else None)
            if running_pods(self._pods, sync.entry.uid).active:
                end = None  # there is more to delete, and to count
        else:
            sync.look_again(seconds_to_deadline(job, started=started, now=now))
            is_managed = not job.is_going and self._is_known(sync)
            if is_managed:
                managed = yield from self._actions.manage(sync, job, plan)
            end = completed(job, active=running_pods(self._pods, sync.entry.uid).active, now=now)
            if end is None and is_managed:
                changed = with_status(conditions, _suspension(spec, now=now))
                if changed is not None:
                    conditions = changed
                    if not spec.is_suspended:
                        started = now
                    elif self._forgets_start:
                        started = None
                    events.append(SUSPENDED_EVENT if spec.is_suspended else RESUMED_EVENT)
        sync.action = managed.action
        sync.look_again(managed.wait)
        ending = Ending(job, end, conditions, started, tuple(events))
        if (yield from self._counting.track(sync, ending, failures)) and managed.failure is not None:
            raise managed.failure

    def _candidates(self, owner: Entry) -> Iterator[Entry]:
        yield from self._pods.entries_owned_by(owner.uid)
        yield from self._pods.orphan_entries(split_key(owner.key)[0])

    def _is_current(self, sync: Sync) -> bool:
        """False if the Job has changed or is gone since: no decision rests on it and on its pods as they are now."""
        now = self._jobs.entry(sync.entry.key)
        if now is not None and (now.uid, now.resource_version) == (sync.entry.uid, sync.entry.resource_version):
            return True
        sync.look_again(0.0)
        return False

    def _observed(self, sync: Sync, spec: JobSpec, claimed: Sequence[Entry]) -> Observed:
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

    def _make_sure(self, sync: Sync, job: Observed, end: Object | None, plan: PodPlan) -> Step[bool]:
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

    def _is_known(self, sync: Sync) -> bool:
        """Whether all of its pods can be read. Else one that seems to be missing may be there."""
        if self._pods.first_unreadable(split_key(sync.entry.key)[0], owner=sync.entry.uid) is None:
            return True
        sync.look_again(UNREADABLE_WAIT)
        return False


def _suspension(spec: JobSpec, *, now: float) -> Object:
    if spec.is_suspended:
        return condition(SUSPENDED, "JobSuspended", "Job suspended", now=now)
    return condition(SUSPENDED, "JobResumed", "Job resumed", now=now, status="False")
