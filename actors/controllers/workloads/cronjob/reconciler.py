"""Reconciler of CronJobs: creates a Job for each scheduled time (slot), and deletes old Jobs.

Input: CronJobs and Jobs. Output: Jobs created and deleted, the CronJob's status, and the events SuccessfulCreate,
FailedCreate, SuccessfulDelete, FailedDelete, FailedGet, SawCompletedJob, UnexpectedJob, MissingJob, JobAlreadyActive,
TooManyMissedTimes, UnknownTimeZone, UnsupportedSchedule, UnparseableSchedule, UnParseableCronJobSchedule and
InvalidSchedule. Key: "namespace/name" of a CronJob.

At most one Job is created for each slot:
- The Job's name contains the slot, so a second creation is rejected.
- After the Job is deleted, status.lastScheduleTime records that the slot was started. So the status is written before
  any Job is deleted.
- If the informer cache may be stale, the CronJob is read from the API server before a Job is created: for slots that an
  earlier leader may have started, after a sync that was not completed, and while the watch delivers no events.

Source: kubernetes v1.36 pkg/controller/cronjob/cronjob_controllerv2.go. Further differences:
- Jobs are matched by the uid of their owner; upstream matches by name.
- A Job that this controller created and that is missing in status.active, because a sync ended between two writes, is
  added to it, and counts for the concurrency policy Forbid. Upstream reports it as UnexpectedJob in every sync.
- If a Job with the name for a slot exists, the slot counts as started if the CronJob controls that Job; otherwise the
  controller waits for the next slot. Upstream looks for that Job without its namespace, never finds it, and retries the
  slot endlessly.
- A Job that is already deleted, or being deleted, causes no event FailedDelete.
- A sync of objects that have not changed since the last one repeats its result (settled.py), and changes of a Job's
  status before it is finished cause no sync. So an event about a state that lasts, such as UnexpectedJob, is counted
  less often than upstream.
- As upstream, MissSchedule never occurs: slots before the deadline are not examined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kcm.actors.controllers.shared.pod_control import is_namespace_terminating
from kcm.actors.controllers.workloads.cronjob.fields import CronJobSpec, check_job, cron_job_spec
from kcm.actors.controllers.workloads.cronjob.jobs import (
    COMPLETE,
    FAILED,
    finished_type,
    job_name,
    new_job,
    slot_of,
    surplus_jobs,
)
from kcm.actors.controllers.workloads.cronjob.schedules import schedule_of, zone_of
from kcm.actors.controllers.workloads.cronjob.settled import RepeatableResult, SyncInProgress, versions_of
from kcm.actors.controllers.workloads.cronjob.slots import (
    MANY_MISSED,
    NoSlotError,
    latest_due,
    seconds_to_next,
    unhandled_since,
    within_deadline,
)
from kcm.actors.controllers.workloads.cronjob.status import RunStatus
from kcm.actors.reconciliation import (
    Because,
    Reconciliation,
    RequeueAfter,
    Step,
    controlled_by,
    create,
    delete,
    get_live,
    must,
    must_object,
    perform,
    record,
    update,
)
from kcm.protocols.integers import counted
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound, Refused
from kcm.protocols.objects import (
    Key,
    Object,
    decode_object,
    is_deleting,
    key_of,
    make_key,
    metadata,
    name_of,
    namespace_of,
    uid_of,
)
from kcm.protocols.resources import CRONJOBS, JOBS
from kcm.protocols.times import describe_time, parse_time
from kcm.protocols.versions import own_version
from kcm.runtime.flags.values import quote
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.cron_schedules import ScheduleError
from kcm.runtime.scheduling.cron_times import Schedule
from kcm.runtime.scheduling.time_zones import UnknownZoneError, Zone
from kcm.runtime.tables.tables import Tables

FORBID, REPLACE = "Forbid", "Replace"
DOCUMENTED = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"
MAX_CLOCK_SKEW = 10.0  # seconds between the clocks of two controller managers
MAX_SILENCE = 2.0  # seconds without an event or bookmark, after which the watch may be stalled
STALE_DELAY = 1.0  # seconds until the next sync if the server has another version of the CronJob than the table


class CronJobReconciler:
    """Creates the Jobs of CronJobs at their scheduled times (slots), and deletes old Jobs."""

    def __init__(self, *, tables: Tables, clock: Clock, local: Zone, created: Callable[[float], None]) -> None:
        """Initialize the reconciler.

        local: time zone of schedules without a time zone
        created: called with the seconds between a slot and the creation of its Job, for the metric
        """
        self._cron_jobs, self._jobs = tables[CRONJOBS], tables[JOBS]
        self._clock, self._local, self._created = clock, local, created
        self._began = clock.now()
        self._seen: dict[Key, tuple[object, ...]] = {}  # uid, schedule and time zone at the last sync
        # CronJobs whose last sync failed or was closed: the tables may not contain all of its writes yet.
        self._unfinished: set[Key] = set()
        self._settled: dict[Key, RepeatableResult] = {}

    def reconcile(self, key: Key) -> Reconciliation:
        """Sync a CronJob: update its status, delete old Jobs, and create the Job of the latest slot that is due.

        Raises ValueError if the CronJob or one of its Jobs is malformed, and CommandError if a write failed.
        Source: sync.
        """
        self._cron_jobs.require(key)
        entry = self._cron_jobs.entry(key)
        if entry is None:
            self._seen.pop(key, None)
            self._settled.pop(key, None)
            self._unfinished.discard(key)
            return None
        owned = self._jobs.entries_owned_by(entry.uid)
        settled, now = self._settled.get(key), self._clock.now()
        if settled is not None and now < settled.due and settled.shows(entry, owned):
            yield Because(settled.reason)
            return RequeueAfter(settled.due - now)
        self._settled.pop(key, None)
        cron_job = self._cron_jobs.object_of(entry)
        spec = cron_job_spec(cron_job)
        rescheduled = self._is_rescheduled(key, entry.uid, spec)
        jobs = sorted(map(self._jobs.object_of, owned), key=name_of)
        for job in jobs:
            check_job(job)
        is_stale = key in self._unfinished
        self._unfinished.add(key)
        run = SyncInProgress(versions_of(entry, owned))
        cron_job = yield from self._adopt(cron_job, jobs, run)
        status, failure, result = RunStatus(cron_job), None, None
        try:
            yield from self._delete_finished(cron_job, spec, jobs, status, run)
            yield from self._update_active(cron_job, jobs, status)
            if not is_deleting(cron_job):
                result = yield from self._run(cron_job, spec, status, run, rescheduled=rescheduled, is_stale=is_stale)
        except CommandError as err:
            failure = err
        yield from _write_status(cron_job, status, run)
        if failure is not None:
            raise failure
        self._unfinished.discard(key)
        if run.is_complete and run.reason and not spec.names_zone:  # each sync of a schedule with TZ= records an event
            self._settled[key] = RepeatableResult(run.versions, run.due, run.reason)
        return result

    def _is_rescheduled(self, key: Key, uid: str, spec: CronJobSpec) -> bool:
        now = (uid, spec.schedule, spec.time_zone)
        before = self._seen.get(key)
        self._seen[key] = now
        return before is not None and before != now and before[0] == now[0]

    def _adopt(self, cron_job: Object, jobs: Sequence[Object], run: SyncInProgress) -> Step[Object]:
        """Add to status.active the Jobs whose creation an earlier sync could not record in the status.

        Writes the status, and returns the CronJob as stored by the server.
        """
        status = RunStatus(cron_job)
        for job in jobs:
            slot = slot_of(job, cron_job)
            if slot is None or status.contains(uid_of(job)):
                continue
            if not finished_type(job) and not is_deleting(job) and (yield from _is_running(job)):
                status.add(job)
            status.started(slot)
        written = yield from _write_status(cron_job, status, run)
        return cron_job if written is None else decode_object(written)

    def _delete_finished(
        self, cron_job: Object, spec: CronJobSpec, jobs: Sequence[Object], status: RunStatus, run: SyncInProgress
    ) -> Step[None]:
        """Delete the oldest finished Jobs, so that the history limits of the spec are met.

        Deletions that failed are retried by the next sync. Source: cleanupFinishedJobs.
        """
        for end, limit in ((COMPLETE, spec.successful_limit), (FAILED, spec.failed_limit)):
            if limit is None:
                continue
            for job in surplus_jobs([job for job in jobs if finished_type(job) == end], limit):
                if not is_deleting(job):
                    failure = yield from _delete_job(cron_job, job, status, depends_on_tables=True)
                    run.is_complete = run.is_complete and failure is None

    def _update_active(self, cron_job: Object, jobs: Sequence[Object], status: RunStatus) -> Step[None]:
        """Remove finished and missing Jobs from status.active, and record an event for each. Source: syncCronJob."""
        for job in jobs:
            end, listed = finished_type(job), status.contains(uid_of(job))
            if end and listed:
                status.remove(uid_of(job))
                message = f"Saw completed job: {name_of(job)}, condition: {end}"
                yield record(CRONJOBS, cron_job, "Normal", "SawCompletedJob", message)
            elif not end and not listed and slot_of(job, cron_job) is None:
                message = f"Saw a job that the controller did not create or forgot: {name_of(job)}"
                yield record(CRONJOBS, cron_job, "Warning", "UnexpectedJob", message)
            if end == COMPLETE:
                status.succeeded(job)
        known = {uid_of(job) for job in jobs}
        for reference in [active for active in status.active if active.get("uid") not in known]:
            # The table may be stale, so ask the server.
            found = yield from must(get_live(JOBS, _key_of(reference)), but=(NotFound,))
            if not isinstance(found, Done) or uid_of(decode_object(found.body)) != reference.get("uid"):
                status.remove(reference["uid"])
                message = f"Active job went missing: {reference['name']}"
                yield record(CRONJOBS, cron_job, "Normal", "MissingJob", message)

    def _run(
        self,
        cron_job: Object,
        spec: CronJobSpec,
        status: RunStatus,
        run: SyncInProgress,
        *,
        rescheduled: bool,
        is_stale: bool,
    ) -> Reconciliation:
        """Create the Job of the latest slot that is due, and requeue the CronJob for the next slot.

        run: completed with the result, if no further sync is necessary before the next slot.
        rescheduled: whether the schedule has changed since the last sync. Then no slot in the past is started.
        is_stale: whether the informer caches may lack writes of the last sync. Then the CronJob is read from the API
            server before a Job is created.
        """
        schedule = yield from self._schedule(cron_job, spec, rescheduled=rescheduled)
        if schedule is None:
            return None
        now, since = self._clock.now(), unhandled_since(cron_job)
        due = None
        if not rescheduled:
            try:
                due = latest_due(schedule, since=within_deadline(since, spec.deadline, now=now), now=now)
            except NoSlotError as err:
                message = f"invalid schedule: {spec.schedule} : {err}"
                yield record(CRONJOBS, cron_job, "Warning", "InvalidSchedule", message)
                yield Because(message)
                return None
            if due.slot is not None:
                if due.missed > MANY_MISSED:
                    yield _too_many_missed(cron_job)
                    yield Because(f"about {due.missed} scheduled times were missed; only the latest is started")
                if (yield from self._should_start(cron_job, spec, due.slot, status)):
                    is_stale = is_stale or self._may_be_stale(due.slot)
                    if is_stale and not (yield from _is_current(cron_job)):
                        yield Because("the table of CronJobs is stale: reads it again before a Job is created")
                        return RequeueAfter(STALE_DELAY)
                    yield from self._start(cron_job, spec, due.slot, status, run)
        delay = seconds_to_next(schedule, since=since, now=now, due=due if spec.deadline is None else None)
        if delay is None:
            yield Because(f"schedule {spec.schedule} has no further time")
            return None
        reason = f"next scheduled time is {describe_time(now + delay)}; has {counted(len(status.active), 'active Job')}"
        yield Because(reason)
        if due is not None and (due.slot is None or status.has_started(due.slot)):
            run.due, run.reason = now + delay, reason
        return RequeueAfter(max(0.0, delay))

    def _may_be_stale(self, slot: int) -> bool:
        return slot <= self._began + MAX_CLOCK_SKEW or self._cron_jobs.age(self._clock.monotonic()) > MAX_SILENCE

    def _schedule(self, cron_job: Object, spec: CronJobSpec, *, rescheduled: bool) -> Step[Schedule | None]:
        """Return the parsed schedule; None if it is invalid, or if the CronJob is suspended.

        An invalid or unsupported schedule is reported by an event.
        """

        def warn(reason: str, message: str) -> Record:
            return record(CRONJOBS, cron_job, "Warning", reason, message)

        try:
            zone_of(spec)
        except UnknownZoneError as err:
            text = f"invalid timeZone: {quote(spec.time_zone or '')}: {err}"
            yield warn("UnknownTimeZone", text)
            yield Because(text)
            return None
        if spec.is_suspended:
            yield Because("is suspended: starts no Jobs")
            return None
        if spec.names_zone and not rescheduled:
            message = f"CRON_TZ or TZ used in schedule {quote(spec.schedule)} is not officially supported"
            yield warn("UnsupportedSchedule", f"{message}, see {DOCUMENTED} for more details")
        try:
            return schedule_of(spec, self._local)
        except ScheduleError as err:
            if rescheduled:
                yield warn("UnParseableCronJobSchedule", f"unparseable schedule for cronjob: {spec.schedule}")
            else:
                yield warn("UnparseableSchedule", f"unparseable schedule: {quote(spec.schedule)} : {err}")
            yield Because(f"unparseable schedule: {quote(spec.schedule)} : {err}")
            return None

    def _should_start(self, cron_job: Object, spec: CronJobSpec, slot: int, status: RunStatus) -> Step[bool]:
        """Report whether to start a slot: it was not started yet, and the concurrency policy permits it now."""
        if status.contains_name(namespace_of(cron_job), job_name(cron_job, slot)) or status.has_started(slot):
            return False
        if spec.concurrency_policy == FORBID and status.active:
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            yield record(CRONJOBS, cron_job, "Normal", "JobAlreadyActive", message)
            active = counted(len(status.active), "active Job")
            yield Because(f"skips {describe_time(slot)}: has {active} and concurrencyPolicy is Forbid")
            return False
        return True

    def _start(
        self, cron_job: Object, spec: CronJobSpec, slot: int, status: RunStatus, run: SyncInProgress
    ) -> Step[None]:
        replaces = spec.concurrency_policy == REPLACE and status.active
        replaced = f", replaces {counted(len(status.active), 'active Job')}" if replaces else ""
        yield Because(f"starts the Job of {describe_time(slot)}{replaced}")
        if spec.concurrency_policy == REPLACE:
            yield from self._delete_active(cron_job, status)
        command = create(JOBS, new_job(cron_job, spec.template, slot, zone_of(spec)))
        outcome = yield from perform(command)
        match outcome:
            case Done(body):
                job = decode_object(body)
                run.wrote(uid_of(job), own_version(body))
                self._created(parse_time(metadata(job)["creationTimestamp"]) - slot)
                yield record(CRONJOBS, cron_job, "Normal", "SuccessfulCreate", f"Created job {name_of(job)}")
            case AlreadyExists():
                job = yield from must_object(get_live(JOBS, make_key(namespace_of(cron_job), job_name(cron_job, slot))))
                if not controlled_by(job, cron_job):
                    return
            case _:
                if not is_namespace_terminating(outcome) and not isinstance(outcome, Refused):
                    message = f"Error creating job: {outcome.message}"
                    yield record(CRONJOBS, cron_job, "Warning", "FailedCreate", message)
                raise CommandError(command, outcome)
        if not finished_type(job) and not status.contains(uid_of(job)):
            status.add(job)
        status.started(slot)

    def _delete_active(self, cron_job: Object, status: RunStatus) -> Step[None]:
        """Delete the active Jobs, for the concurrency policy Replace.

        Raises CommandError if a Job cannot be deleted, so that no new Job is created.
        """
        for reference in list(status.active):
            key = _key_of(reference)
            job = self._jobs.get(key)
            if job is None or uid_of(job) != reference.get("uid"):  # the table may be stale
                command = get_live(JOBS, key)
                found = yield from perform(command)
                if not isinstance(found, Done):
                    yield record(CRONJOBS, cron_job, "Warning", "FailedGet", f"Get job: {found.message}")
                    raise CommandError(command, found)
                job = decode_object(found.body)
            failure = yield from _delete_job(cron_job, job, status, depends_on_tables=False)
            if failure is not None:
                raise failure


def _delete_job(
    cron_job: Object, job: Object, status: RunStatus, *, depends_on_tables: bool
) -> Step[CommandError | None]:
    """Delete a Job and remove it from status.active. Return the error if the deletion failed. Source: deleteJob.

    depends_on_tables: whether the decision was made from informer caches, so that the deletion waits while one of them
        is stale.
    """
    command = delete(JOBS, job, propagation="Background", depends_on=None if depends_on_tables else ())
    outcome = yield from perform(command)
    if not isinstance(outcome, Done | NotFound):
        if not isinstance(outcome, Refused):
            yield record(CRONJOBS, cron_job, "Warning", "FailedDelete", f"Deleted job: {outcome.message}")
        return CommandError(command, outcome)
    status.remove(uid_of(job))
    if isinstance(outcome, Done):
        yield record(CRONJOBS, cron_job, "Normal", "SuccessfulDelete", f"Deleted job {name_of(job)}")
    return None


def _is_running(job: Object) -> Step[bool]:
    """Report whether a Job exists and is not finished, by reading it from the API server.

    The informer cache may be stale.
    """
    found = yield from must(get_live(JOBS, key_of(job)), but=(NotFound,))
    if not isinstance(found, Done):
        return False
    live = decode_object(found.body)
    return uid_of(live) == uid_of(job) and not finished_type(live)


def _is_current(cron_job: Object) -> Step[bool]:
    """Report whether the given CronJob, from the informer, is current.

    It is read from the API server, and compared by uid, deletion state, spec and status.
    """
    found = yield from must(get_live(CRONJOBS, key_of(cron_job)), but=(NotFound,))
    if not isinstance(found, Done):
        return False
    live = decode_object(found.body)
    return _compared_fields(live) == _compared_fields(cron_job)


def _compared_fields(cron_job: Object) -> tuple[object, ...]:
    return uid_of(cron_job), is_deleting(cron_job), cron_job["spec"], cron_job.get("status") or {}


def _write_status(cron_job: Object, status: RunStatus, run: SyncInProgress) -> Step[bytes | None]:
    """Write the status of a CronJob if it has changed.

    Returns the CronJob as stored by the server; None if nothing was written. Raises CommandError if the update fails,
    also for a conflict.
    """
    changed = status.changed()
    if changed is None:
        return None
    written = yield from must(update(CRONJOBS, {**cron_job, "status": changed}, subresource="status"), but=(NotFound,))
    if not isinstance(written, Done):
        return None
    run.wrote(uid_of(cron_job), own_version(written.body))
    return written.body


def _too_many_missed(cron_job: Object) -> Record:
    message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
    return record(CRONJOBS, cron_job, "Warning", "TooManyMissedTimes", message)


def _key_of(reference: Object) -> Key:
    return make_key(str(reference.get("namespace") or ""), str(reference.get("name") or ""))
