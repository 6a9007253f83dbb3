"""cronjob-controller: starts a Job for each slot of a CronJob's schedule, and clears finished ones away.

Reads CronJobs and Jobs. Creates and deletes Jobs, writes the CronJob's status. Records the events SuccessfulCreate,
FailedCreate, SuccessfulDelete, FailedDelete, FailedGet, SawCompletedJob, UnexpectedJob, MissingJob, JobAlreadyActive,
TooManyMissedTimes, UnknownTimeZone, UnsupportedSchedule, UnparseableSchedule, UnParseableCronJobSchedule and
InvalidSchedule.

A slot is started once. The Job's name says its slot, so that of two creations one is refused. Once the Job is gone,
status.lastScheduleTime tells that the slot is done: so what the status does not say yet is written before any Job is
cleared away. Where the table may not show what is, the CronJob is read live before a Job is created: for slots that an
earlier leader may have started, after a sync that did not come to its end, and where the watch is silent.

Source: kubernetes v1.36 pkg/controller/cronjob/cronjob_controllerv2.go. Differences, beside those two:
- A Job is a CronJob's by the owner's uid, there by its name.
- A Job of ours that the status lacks, as we ended between two writes, is taken up into it, and so counts for Forbid;
  there it is an UnexpectedJob for good.
- Where a slot's name is taken, a Job of ours counts as started, and else the next slot is waited for. There that Job is
  looked for without its namespace: it is never found, and the slot is tried for ever.
- What is gone or being deleted when it is to be deleted is no FailedDelete.
- MissSchedule never occurs there either: what is past the deadline is not looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kcm.actors.controllers.shared.pod_control import is_namespace_terminating
from kcm.actors.controllers.workloads.cronjob.fields import check_cron_job, check_job
from kcm.actors.controllers.workloads.cronjob.jobs import COMPLETE, FAILED, end_of, job_name, job_of, slot_of, surplus
from kcm.actors.controllers.workloads.cronjob.schedules import names_zone, schedule_of, zone_of
from kcm.actors.controllers.workloads.cronjob.slots import (
    MANY,
    NoSlotError,
    earliest,
    latest_due,
    seconds_to_next,
    still_in_time,
)
from kcm.actors.controllers.workloads.cronjob.status import RunStatus
from kcm.actors.reconciliation import (
    Reconciliation,
    RequeueAfter,
    Step,
    controlled_by,
    create,
    delete,
    get_live,
    must,
    must_object,
    owned,
    perform,
    record,
    update,
)
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import AlreadyExists, CommandError, Done, NotFound, Refused
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
from kcm.protocols.times import parse_time
from kcm.runtime.flags.values import quote
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.cron_schedules import ScheduleError
from kcm.runtime.scheduling.cron_times import Schedule
from kcm.runtime.scheduling.time_zones import UnknownZoneError, Zone
from kcm.runtime.tables.tables import Tables

FORBID, REPLACE = "Forbid", "Replace"
DOCUMENTED = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"
CLOCKS_DIFFER = 10.0  # seconds, at most, those of two managers
SILENT = 2.0  # seconds without a sign of life on the watch, which may be a stalled one
AT_ODDS = 1.0  # seconds until a CronJob is looked at again that the watch shows otherwise than the server


class CronJobReconciler:
    """Key: "namespace/name" of a CronJob."""

    def __init__(self, *, tables: Tables, clock: Clock, local: Zone, created: Callable[[float], None]) -> None:
        """local: the zone of schedules that name none. created: called with how many seconds after its slot a Job was
        created.
        """
        self._cron_jobs, self._jobs = tables[CRONJOBS], tables[JOBS]
        self._clock, self._local, self._created = clock, local, created
        self._began = clock.now()
        self._seen: dict[Key, tuple[object, ...]] = {}  # uid, schedule and zone as they were last
        self._unfinished: set[Key] = set()  # whose last sync failed, or was ended: its writes may not be shown

    def reconcile(self, key: Key) -> Reconciliation:
        """Raises ValueError on a malformed CronJob, CommandError on a write that did not succeed."""
        self._cron_jobs.require(key)
        cron_job = self._cron_jobs.get(key)
        if cron_job is None:
            self._seen.pop(key, None)
            self._unfinished.discard(key)
            return None
        check_cron_job(cron_job)
        rescheduled = self._is_rescheduled(key, cron_job)
        jobs = sorted(owned(self._jobs, by=cron_job), key=name_of)
        for job in jobs:
            check_job(job)
        unsure = key in self._unfinished
        self._unfinished.add(key)
        cron_job = yield from self._take_up(cron_job, jobs)
        status, failure, again = RunStatus(cron_job), None, None
        try:
            yield from self._clear(cron_job, jobs, status)
            yield from self._follow(cron_job, jobs, status)
            if not is_deleting(cron_job):
                again = yield from self._run(cron_job, status, rescheduled=rescheduled, unsure=unsure)
        except CommandError as err:
            failure = err
        yield from _write(cron_job, status)
        if failure is not None:
            raise failure
        self._unfinished.discard(key)
        return again

    def _is_rescheduled(self, key: Key, cron_job: Object) -> bool:
        spec = cron_job["spec"]
        now = (uid_of(cron_job), spec["schedule"], spec.get("timeZone"))
        before = self._seen.get(key)
        self._seen[key] = now
        return before is not None and before != now and before[0] == now[0]

    def _take_up(self, cron_job: Object, jobs: Sequence[Object]) -> Step[Object]:
        """Jobs of which the status does not tell, as it could not be written after they were created."""
        status = RunStatus(cron_job)
        for job in jobs:
            slot = slot_of(job, cron_job)
            if slot is None or status.lists(uid_of(job)):
                continue
            if not end_of(job) and not is_deleting(job) and (yield from _is_running(job)):
                status.add(job)
            status.started(slot)
        return (yield from _write(cron_job, status))

    def _clear(self, cron_job: Object, jobs: Sequence[Object], status: RunStatus) -> Step[None]:
        """Source: cleanupFinishedJobs. What cannot be deleted is left for another time."""
        spec = cron_job["spec"]
        for end, field in ((COMPLETE, "successfulJobsHistoryLimit"), (FAILED, "failedJobsHistoryLimit")):
            limit = spec.get(field)
            if limit is None:
                continue
            for job in surplus([job for job in jobs if end_of(job) == end], limit):
                if not is_deleting(job):
                    yield from _remove(cron_job, job, status, rests_on_table=True)

    def _follow(self, cron_job: Object, jobs: Sequence[Object], status: RunStatus) -> Step[None]:
        """What has become of the Jobs."""
        for job in jobs:
            end, listed = end_of(job), status.lists(uid_of(job))
            if end and listed:
                status.drop(uid_of(job))
                message = f"Saw completed job: {name_of(job)}, condition: {end}"
                yield record(CRONJOBS, cron_job, "Normal", "SawCompletedJob", message)
            elif not end and not listed and slot_of(job, cron_job) is None:
                message = f"Saw a job that the controller did not create or forgot: {name_of(job)}"
                yield record(CRONJOBS, cron_job, "Warning", "UnexpectedJob", message)
            if end == COMPLETE:
                status.succeeded(job)
        known = {uid_of(job) for job in jobs}
        for reference in [each for each in status.active if each.get("uid") not in known]:
            # The watch may be late.
            found = yield from must(get_live(JOBS, _key_of(reference)), but=(NotFound,))
            if not isinstance(found, Done) or uid_of(decode_object(found.body)) != reference.get("uid"):
                status.drop(reference["uid"])
                message = f"Active job went missing: {reference['name']}"
                yield record(CRONJOBS, cron_job, "Normal", "MissingJob", message)

    def _run(self, cron_job: Object, status: RunStatus, *, rescheduled: bool, unsure: bool) -> Reconciliation:
        """Start what is due. rescheduled: slots that another schedule would have had are not made up for. unsure: what
        we wrote before may not be shown.
        """
        schedule = yield from self._schedule(cron_job, rescheduled=rescheduled)
        if schedule is None:
            return None
        now = self._clock.now()
        if not rescheduled:
            try:
                due = latest_due(schedule, since=still_in_time(cron_job, now), now=now)
            except NoSlotError as err:
                message = f"invalid schedule: {cron_job['spec']['schedule']} : {err}"
                yield record(CRONJOBS, cron_job, "Warning", "InvalidSchedule", message)
                return None
            if due.slot is not None:
                if due.missed > MANY:
                    yield _too_many_missed(cron_job)
                if (yield from self._is_to_start(cron_job, due.slot, status)):
                    unsure = unsure or self._may_be_late(due.slot)
                    if unsure and not (yield from _is_as_shown(cron_job)):
                        return RequeueAfter(AT_ODDS)
                    yield from self._start(cron_job, due.slot, status)
        wait = seconds_to_next(schedule, since=earliest(cron_job), now=now)
        return None if wait is None else RequeueAfter(max(0.0, wait))

    def _may_be_late(self, slot: int) -> bool:
        return slot <= self._began + CLOCKS_DIFFER or self._cron_jobs.age(self._clock.monotonic()) > SILENT

    def _schedule(self, cron_job: Object, *, rescheduled: bool) -> Step[Schedule | None]:
        """None of one that is suspended, or cannot be read."""
        spec = cron_job["spec"]

        def warn(reason: str, message: str) -> Record:
            return record(CRONJOBS, cron_job, "Warning", reason, message)

        try:
            zone_of(cron_job)
        except UnknownZoneError as err:
            yield warn("UnknownTimeZone", f"invalid timeZone: {quote(spec['timeZone'])}: {err}")
            return None
        if spec.get("suspend"):
            return None
        if names_zone(cron_job) and not rescheduled:
            message = f"CRON_TZ or TZ used in schedule {quote(spec['schedule'])} is not officially supported"
            yield warn("UnsupportedSchedule", f"{message}, see {DOCUMENTED} for more details")
        try:
            return schedule_of(cron_job, self._local)
        except ScheduleError as err:
            if rescheduled:
                yield warn("UnParseableCronJobSchedule", f"unparseable schedule for cronjob: {spec['schedule']}")
            else:
                yield warn("UnparseableSchedule", f"unparseable schedule: {quote(spec['schedule'])} : {err}")
            return None

    def _is_to_start(self, cron_job: Object, slot: int, status: RunStatus) -> Step[bool]:
        """Unless that was done, or another one runs that forbids it."""
        if status.lists_name(namespace_of(cron_job), job_name(cron_job, slot)):
            return False
        if status.last_schedule is not None and parse_time(status.last_schedule) >= slot:
            return False
        if cron_job["spec"].get("concurrencyPolicy") == FORBID and status.active:
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            yield record(CRONJOBS, cron_job, "Normal", "JobAlreadyActive", message)
            return False
        return True

    def _start(self, cron_job: Object, slot: int, status: RunStatus) -> Step[None]:
        if cron_job["spec"].get("concurrencyPolicy") == REPLACE:
            yield from self._replace(cron_job, status)
        command = create(JOBS, job_of(cron_job, slot, zone_of(cron_job)))
        outcome = yield from perform(command)
        match outcome:
            case Done(body):
                job = decode_object(body)
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
        if not end_of(job) and not status.lists(uid_of(job)):
            status.add(job)
        status.started(slot)

    def _replace(self, cron_job: Object, status: RunStatus) -> Step[None]:
        """Delete what still runs. Raises CommandError where that cannot be done: then nothing is started."""
        for reference in list(status.active):
            key = _key_of(reference)
            job = self._jobs.get(key)
            if job is None or uid_of(job) != reference.get("uid"):  # the watch may be late
                command = get_live(JOBS, key)
                found = yield from perform(command)
                if not isinstance(found, Done):
                    yield record(CRONJOBS, cron_job, "Warning", "FailedGet", f"Get job: {found.message}")
                    raise CommandError(command, found)
                job = decode_object(found.body)
            failure = yield from _remove(cron_job, job, status, rests_on_table=False)
            if failure is not None:
                raise failure


def _remove(cron_job: Object, job: Object, status: RunStatus, *, rests_on_table: bool) -> Step[CommandError | None]:
    """Source: deleteJob."""
    command = delete(JOBS, job, propagation="Background", depends_on=None if rests_on_table else ())
    outcome = yield from perform(command)
    if not isinstance(outcome, Done | NotFound):
        if not isinstance(outcome, Refused):
            yield record(CRONJOBS, cron_job, "Warning", "FailedDelete", f"Deleted job: {outcome.message}")
        return CommandError(command, outcome)
    status.drop(uid_of(job))
    if isinstance(outcome, Done):
        yield record(CRONJOBS, cron_job, "Normal", "SuccessfulDelete", f"Deleted job {name_of(job)}")
    return None


def _is_running(job: Object) -> Step[bool]:
    """On the server: the watch may be late."""
    found = yield from must(get_live(JOBS, key_of(job)), but=(NotFound,))
    if not isinstance(found, Done):
        return False
    live = decode_object(found.body)
    return uid_of(live) == uid_of(job) and not end_of(live)


def _is_as_shown(cron_job: Object) -> Step[bool]:
    """Whether the server has the CronJob as the decision to start a Job saw it."""
    found = yield from must(get_live(CRONJOBS, key_of(cron_job)), but=(NotFound,))
    if not isinstance(found, Done):
        return False
    live = decode_object(found.body)
    return _what_counts(live) == _what_counts(cron_job)


def _what_counts(cron_job: Object) -> tuple[object, ...]:
    return uid_of(cron_job), is_deleting(cron_job), cron_job["spec"], cron_job.get("status") or {}


def _write(cron_job: Object, status: RunStatus) -> Step[Object]:
    """The status, if it has changed. Returns the CronJob as it is then. Raises CommandError, for a Conflict too."""
    changed = status.changed()
    if changed is None:
        return cron_job
    written = yield from must(update(CRONJOBS, {**cron_job, "status": changed}, subresource="status"), but=(NotFound,))
    return decode_object(written.body) if isinstance(written, Done) else cron_job


def _too_many_missed(cron_job: Object) -> Record:
    message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
    return record(CRONJOBS, cron_job, "Warning", "TooManyMissedTimes", message)


def _key_of(reference: Object) -> Key:
    return make_key(str(reference.get("namespace") or ""), str(reference.get("name") or ""))
