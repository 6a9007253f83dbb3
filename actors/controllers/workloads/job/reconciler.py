"""Reconciler of Jobs.

Reads Jobs and their pods; with the feature gate WorkloadWithJob also Workloads and PodGroups (gang.py). Creates and
deletes pods (at most 500 per sync), patches their finalizers and owner references, writes the status subresource, and
records events on the Job.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (syncJob). Differences:

- There are no expectations and no consistency store: listers show our own writes. Before the first write for a Job, the
  writes of an earlier leader are read from the server. Upstream counts a pod again if its finalizer was removed on the
  server and the cache does not contain that change yet.
- The controller chooses pod names (actors/controllers/shared/generated_names.py), so that a creation with unknown
  outcome is retried under the same name.
- The finalizer of a surplus active pod is removed only if the pod has not changed since it was read, so that a pod that
  has just succeeded is counted. A missing finalizer of an active pod is added again; upstream never counts such a pod.
- While the replacement of failed pods is delayed, status.active contains the number of active pods; upstream writes 0.
- The Job finishes in the same sync if the listers no longer contain its last pods; upstream waits for the next sync.
- The events Suspended and Resumed are recorded after the status has been written.
- A completion index cannot both succeed and fail: the status has precedence, then a success. The server rejects a
  status that contains both, and upstream's Job hangs.
- A suspended Job that finishes gets a startTime, which the server requires. Upstream's status update is rejected until
  the Job is resumed.
- completionTime is never before startTime, even if a leader whose clock is ahead wrote the startTime. Upstream uses the
  time of the condition, and the server rejects its status until its own clock has reached startTime.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from kcm.actors.controllers.shared.ownership import claim
from kcm.actors.controllers.shared.pod_control import delete_pods
from kcm.actors.controllers.shared.unknown_outcomes import RETRY_DELAY, UNREADABLE_DELAY, is_current
from kcm.actors.controllers.workloads.job.backoff import next_failures
from kcm.actors.controllers.workloads.job.fields import (
    FINALIZER,
    INDEXED,
    NON_INDEXED,
    JobSpec,
    external_manager,
    job_spec,
    job_status,
    status_of,
)
from kcm.actors.controllers.workloads.job.finalizers import FinalizerTracker, StatusUpdate
from kcm.actors.controllers.workloads.job.gang import Gangs
from kcm.actors.controllers.workloads.job.metrics import (
    RECONCILING,
    JobMetrics,
)
from kcm.actors.controllers.workloads.job.observed import Observed, observe
from kcm.actors.controllers.workloads.job.plan import (
    JobPodPlan,
    completed,
    finished_condition,
    plan_pods,
    seconds_to_deadline,
)
from kcm.actors.controllers.workloads.job.pod_control import JobPodControl
from kcm.actors.controllers.workloads.job.pods import JobPod, is_settled
from kcm.actors.controllers.workloads.job.reasons import reason_of
from kcm.actors.controllers.workloads.job.status import SUSPENDED, condition, running_pods, with_status
from kcm.actors.controllers.workloads.job.sync import JobMemories, JobMemory, Managed, Sync, read_live_pods
from kcm.actors.reconciliation import Because, Reconciliation, RequeueAfter, Retry, Step, record
from kcm.protocols.jobs import is_finished
from kcm.protocols.messages.events import RecordType
from kcm.protocols.objects import Key, is_deleting, split_key
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import JOBS, PODS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SUSPENDED_EVENT: tuple[RecordType, str, str] = ("Normal", "Suspended", "Job suspended")
RESUMED_EVENT: tuple[RecordType, str, str] = ("Normal", "Resumed", "Job resumed")


class JobReconciler:
    """Reconciles Jobs. Key: "namespace/name" of a Job."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        metrics: JobMetrics,
        log: FilteringBoundLogger,
        clears_start_time: bool,
        gangs: Gangs | None = None,
    ) -> None:
        """Create a reconciler.

        clears_start_time: whether suspending a Job removes its startTime (MutableSchedulingDirectivesForSuspendedJobs).
        gangs: None if the feature gate WorkloadWithJob is disabled.
        """
        self._clears_start_time, self._gangs = clears_start_time, gangs
        self._jobs, self._pods = tables[JOBS], tables[PODS]
        self._clock, self._metrics = clock, metrics
        self._pod_control = JobPodControl(pods=self._pods, metrics=metrics, log=log)
        self._tracker = FinalizerTracker(pods=self._pods, clock=clock, metrics=metrics, log=log)
        self._memories = JobMemories()
        self._managed_elsewhere: dict[Key, str] = {}  # uids of Jobs that another controller manages

    def reconcile(self, key: Key) -> Reconciliation:
        """Sync a Job. Source: syncJob."""
        self._jobs.require(key)
        entry = self._jobs.entry(key)
        if entry is None:
            self._forget(key)
            self._managed_elsewhere.pop(key, None)
            return None
        job = self._jobs.object_of(entry)
        manager = external_manager(job)
        if manager is not None:
            if self._managed_elsewhere.get(key) != entry.uid:
                self._managed_elsewhere[key] = entry.uid
                self._metrics.managed_elsewhere(manager)
            yield Because(f"spec.managedBy is {manager}: another controller reconciles it")
            return None
        if is_finished(job):
            self._forget(key)
            return None
        mode = (job.get("spec") or {}).get("completionMode") or NON_INDEXED
        if mode not in (NON_INDEXED, INDEXED):
            text = "Skipped Job sync because completion mode is unknown"
            yield Because(f"spec.completionMode {mode} is unknown")
            yield record(JOBS, job, "Warning", "UnknownCompletionMode", text)
            return None
        sync = Sync(entry, job, self._memories.of(key, entry.uid))
        began = self._clock.monotonic()
        try:
            yield from self._sync(sync)
        except Retry:
            raise  # the sync has not begun, so it is not counted
        except Exception:
            self._metrics.synced(mode, succeeded=False, action=sync.action, seconds=self._clock.monotonic() - began)
            raise
        self._metrics.synced(mode, succeeded=True, action=sync.action, seconds=self._clock.monotonic() - began)
        return RequeueAfter(max(0.0, min(sync.delays))) if sync.delays else None

    def _forget(self, key: Key) -> None:
        self._metrics.tracked_finished(added=0, removed=len(self._memories.forget(key)))

    def _sync(self, sync: Sync) -> Step[None]:
        """Sync an unfinished Job. Source: the part of syncJob from getPodsForJob on."""
        job = yield from self._observe(sync)
        if job is None:
            return
        now = self._clock.now()
        started = job.status.started
        if started is None and not job.spec.is_suspended:
            started = now
        failures = next_failures(sync.memory.failures, succeeded=job.new_succeeded, failed=job.new_failed)
        update = StatusUpdate(
            job=job,
            finished=finished_condition(job, started=started, now=now),
            conditions=job.status.conditions,
            started=started,
            failures=failures,
        )
        plan = JobPodPlan()
        if update.finished is None:
            maybe_deleted = sync.memory.unknown.maybe_deleted
            plan = plan_pods(job, failures=failures, now=now, maybe_deleted=maybe_deleted)
        reason = reason_of(job, plan, update)
        if reason:
            yield Because(reason)
        if not (yield from self._predecessor_is_shown(sync, update, plan)):
            return
        if update.finished is not None:
            managed, update = yield from self._delete_active(sync, update)
        else:
            managed, update = yield from self._manage(sync, update, plan, now=now)
        sync.action = managed.action
        sync.requeue_after(managed.delay)
        if (yield from self._tracker.track(sync, update)) and managed.failure is not None:
            raise managed.failure

    def _observe(self, sync: Sync) -> Step[Observed | None]:
        """Claim the Job's pods, find or create its PodGroup, and return the observed state.

        Returns None if the Job has changed since it was read.
        """
        spec = job_spec(sync.job)
        status = job_status(status_of(sync.job))  # raises before any pod is adopted or released
        owned, settled = self._pods.entries_owned_by(sync.entry.uid), sync.memory.settled
        settled.intersection_update(owned)  # the others have changed, or were deleted
        candidates = [entry for entry in owned if entry not in settled] if settled else owned
        claimed = yield from claim(
            [*candidates, *self._pods.orphan_entries(split_key(sync.entry.key)[0])],
            lister=self._pods,
            owner=sync.job,
            owner_resource=JOBS,
            matches=spec.selector.matches,
            finalizers=(FINALIZER,),
        )
        if not self._is_current(sync):
            return None
        if self._gangs is not None:
            # As upstream before anything is decided, so that the first pod names its PodGroup.
            sync.pod_group = yield from self._gangs.pod_group_of(sync.job, spec, has_pods=bool(claimed or settled))
            if not self._is_current(sync):
                return None
        pods = self._parsed_pods(sync.memory, claimed, spec)
        return observe(uid=sync.entry.uid, spec=spec, status=status, pods=pods, is_deleting=is_deleting(sync.job))

    def _is_current(self, sync: Sync) -> bool:
        """Report whether the Job is unchanged since it was read. If it has changed, requeue it at once."""
        if is_current(self._jobs, sync.entry):
            return True
        sync.requeue_after(0.0)
        return False

    def _parsed_pods(self, memory: JobMemory, entries: Iterable[Entry], spec: JobSpec) -> Collection[JobPod]:
        """Return the claimed pods that are not settled, reusing parsed pods of the last sync that have not changed."""
        pods = {}
        for entry in entries:
            if is_settled(entry, spec):
                memory.settled.add(entry)
                continue
            known = memory.pods.get(entry.uid)
            pods[entry.uid] = known if known is not None and known.entry is entry else self._parsed_pod(entry)
        memory.pods = pods
        finished = frozenset(pod.uid for pod in pods.values() if pod.is_tracked and is_terminal(pod.facts))
        self._metrics.tracked_finished(added=len(finished - memory.finished), removed=len(memory.finished - finished))
        memory.finished = finished
        return pods.values()

    def _parsed_pod(self, entry: Entry) -> JobPod:
        return JobPod(entry, self._pods.object_of)

    def _predecessor_is_shown(self, sync: Sync, update: StatusUpdate, plan: JobPodPlan) -> Step[bool]:
        """Report whether this sync may write, because the tables contain all writes of an earlier leader for this Job.

        The check is made once per Job and leader, and skipped if the sync would not write anything. Returns False if
        the server has a newer version of the Job. Raises Retry if the table of pods is stale.
        """
        memory, job = sync.memory, update.job
        if not status_of(sync.job):
            memory.shows_predecessor = True  # no leader has synced this Job
        uncounted = job.status.uncounted_succeeded or job.status.uncounted_failed
        writes = update.finished is not None or plan.delete or plan.create or job.new_succeeded or job.new_failed
        if memory.shows_predecessor or not (writes or uncounted):
            return True
        if memory.live_pods is None:
            memory.live_pods = yield from read_live_pods(sync.entry, job.spec, pods=self._pods)
        if not memory.live_pods.is_shown(self._pods):
            self._metrics.stale(PODS)
            raise Retry("the table of pods is stale", after=RETRY_DELAY)
        memory.shows_predecessor = True
        return self._is_current(sync)

    def _delete_active(self, sync: Sync, update: StatusUpdate) -> Step[tuple[Managed, StatusUpdate]]:
        """Delete the active pods of a Job that finishes.

        If pods remain active, the Job does not finish in this sync.
        """
        active = [pod.entry for pod in update.job.active]
        deletions = yield from delete_pods(active, owner=sync.job, owner_resource=JOBS)
        if self._active(sync):
            # The Job does not finish yet: these pods must be deleted and counted first.
            update = update._replace(finished=None)
        return Managed(RECONCILING, deletions.failure, RETRY_DELAY if deletions.conflicting else None), update

    def _manage(
        self, sync: Sync, update: StatusUpdate, plan: JobPodPlan, *, now: float
    ) -> Step[tuple[Managed, StatusUpdate]]:
        """Create or delete the planned pods, then add the condition if the Job is completed, suspended or resumed."""
        job = update.job
        sync.requeue_after(seconds_to_deadline(job, started=update.started, now=now))
        managed = Managed(RECONCILING)
        manages = not job.is_deleting and (yield from self._all_readable(sync))
        if manages:
            managed = yield from self._pod_control.manage(sync, job, plan)
        finished = completed(job, active=self._active(sync), now=now)
        if finished is not None:
            return managed, update._replace(finished=finished)
        return managed, self._with_suspension(update, now=now) if manages else update

    def _active(self, sync: Sync) -> int:
        return running_pods(self._pods, sync.entry.uid, settled=sync.memory.settled).active

    def _all_readable(self, sync: Sync) -> Step[bool]:
        """Report whether all pods of the Job are readable. An unreadable pod may be one that seems to be missing."""
        if self._pods.first_unreadable(split_key(sync.entry.key)[0], owner=sync.entry.uid) is None:
            return True
        yield Because("one of its pods is unreadable: creates and deletes none")
        sync.requeue_after(UNREADABLE_DELAY)
        return False

    def _with_suspension(self, update: StatusUpdate, *, now: float) -> StatusUpdate:
        """Add or update the condition Suspended if the Job was suspended or resumed."""
        if update.job.spec.is_suspended:
            suspended = condition(SUSPENDED, "JobSuspended", "Job suspended", now=now)
            started, event = None if self._clears_start_time else update.started, SUSPENDED_EVENT
        else:
            suspended = condition(SUSPENDED, "JobResumed", "Job resumed", now=now, status="False")
            # The deadline counts from here: activeDeadlineSeconds limits the time for which the Job is active.
            started, event = now, RESUMED_EVENT
        conditions = with_status(update.conditions, suspended)
        if conditions is None:
            return update
        return update._replace(conditions=conditions, started=started, events=(event,))
