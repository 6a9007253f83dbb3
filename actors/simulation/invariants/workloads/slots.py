"""Invariant of CronJobs: each scheduled time has at most one Job, and with Forbid only while no other Job runs."""

from __future__ import annotations

from typing import NamedTuple

from kcm.actors.controllers.workloads.cronjob.jobs import finished_type, slot_of
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, decoded, only
from kcm.actors.simulation.invariants.ownership import storage_of
from kcm.protocols.objects import Key, Object, controller_of, is_deleting, key_of, uid_of
from kcm.protocols.resources import CRONJOBS, JOBS
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange
from kcm.runtime.faults.vocabulary import FaultKind
from kcm.runtime.scheduling.cron_schedules import parse_schedule
from kcm.runtime.scheduling.time_zones import load_zone

CRONJOB_STORAGE, JOB_STORAGE = storage_of(CRONJOBS), storage_of(JOBS)
LATE = 45.0  # seconds during which a controller may still use the previous spec of a CronJob


class _Wanted(NamedTuple):
    """Schedule of a CronJob.

    since: virtual time at which the spec got this schedule.
    zone: time zone; "" for the default.
    policy: concurrencyPolicy.
    """

    since: float
    schedule: str
    zone: str
    policy: str


class StartedOnce:
    """Invariant: a client creates at most one Job for each scheduled time of a CronJob, and not before that time."""

    name = "each scheduled time has at most one Job"

    def __init__(self, cluster: SimulatedCluster, *, client: str) -> None:
        self._cluster, self._client = cluster, client
        self._wanted: dict[str, list[_Wanted]] = {}  # by the CronJob's uid
        self._started: set[tuple[str, int]] = set()  # (uid of the CronJob, scheduled time) with a Job
        self._gone: set[str] = set()  # uids of deleted CronJobs
        self._running: dict[Key, str] = {}  # owners (uids) of unfinished Jobs, by key of the Job
        jumps = (fault for fault in cluster.injector.faults if fault.kind is FaultKind.CLOCK_JUMPED)
        self._ahead = sum(max(0.0, fault.seconds) for fault in jumps)
        self.observes = (only(Committed, CRONJOB_STORAGE, JOB_STORAGE), only(Handled, client))

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.storage == CRONJOB_STORAGE and change.type == DELETED:
                    self._gone.add(uid_of(decoded(change.raw)))
                elif change.storage == CRONJOB_STORAGE:
                    self._note(decoded(change.raw))
                elif change.storage == JOB_STORAGE and change.type != ADDED:
                    self._follow(change)
        elif isinstance(observation, Handled):
            for change in observation.changes:
                if change.storage == JOB_STORAGE and change.type == ADDED and observation.client == self._client:
                    self._check(decoded(change.raw), fail)

    def _note(self, cron_job: Object) -> None:
        spec = cron_job["spec"]
        spec_fields = (spec["schedule"], spec.get("timeZone") or "", spec["concurrencyPolicy"])
        known = self._wanted.setdefault(uid_of(cron_job), [])
        if not known or known[-1][1:] != spec_fields:
            known.append(_Wanted(self._cluster.clock.monotonic(), *spec_fields))

    def _follow(self, change: StoreChange) -> None:
        job = decoded(change.raw)
        if change.type == DELETED or is_deleting(job) or finished_type(job):
            self._running.pop(key_of(job), None)

    def _check(self, job: Object, fail: Fail) -> None:
        owner = controller_of(job)
        if owner is None or owner.uid not in self._wanted:
            fail(f"Job {key_of(job)} has no CronJob")
            return
        slot = slot_of(job, {"metadata": {"name": owner.name}})
        if slot is None:
            fail(f"Job {key_of(job)} has no scheduled time")
            return
        # A repeated creation may arrive after the Job was deleted with its CronJob. It is deleted as well.
        if (owner.uid, slot) in self._started and owner.uid not in self._gone:
            fail(f"Job {key_of(job)} is created for the same time again")
        self._started.add((owner.uid, slot))
        now = self._cluster.clock.monotonic()
        known = self._wanted[owner.uid]
        # A previous spec counts until the controller must have seen the new one.
        recent = [state for state, after in zip(known, [*known[1:], None], strict=True) if not _is_over(after, now)]
        if slot > self._cluster.clock.now() + self._ahead:
            fail(f"Job {key_of(job)} is created {slot - self._cluster.clock.now():.3f} s too early")
        if not any(_has_slot(state, slot) for state in recent):
            fail(f"time of Job {key_of(job)} is not in the schedule {known[-1].schedule!r}")
        beside = [key for key, uid in self._running.items() if uid == owner.uid]
        if beside and all(state.policy == "Forbid" for state in recent):
            fail(f"Job {key_of(job)} is created while {beside[0]} runs, but the policy is Forbid")
        self._running[key_of(job)] = owner.uid


def _is_over(after: _Wanted | None, now: float) -> bool:
    return after is not None and after.since < now - LATE


def _has_slot(wanted: _Wanted, slot: int) -> bool:
    """Report whether a schedule contains a time. Always True for @every, whose times depend on its start.

    slot: Unix seconds.
    """
    schedule = parse_schedule(wanted.schedule, load_zone(wanted.zone))
    return wanted.schedule.startswith("@every") or schedule.next(slot - 1) == slot
