"""Mutants of the CronJob controller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from kcm.actors.controllers.workloads.cronjob import reconciler
from kcm.actors.controllers.workloads.cronjob.reconciler import CronJobReconciler
from kcm.actors.controllers.workloads.cronjob.slots import Due, latest_due
from kcm.actors.reconciliation import Step
from kcm.actors.simulation.campaign.domain_settings import CRON_JOBS_FOR_LONG
from kcm.protocols.objects import Object
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.scheduling.cron_times import Schedule
from tests.faults.mutants.mutant import Mutant

TOO_MANY = 1  # scheduled times; upstream's limit is a hundred, which no run can reach


@contextmanager
def missed_slots_stop_it() -> Iterator[None]:
    """A CronJob that missed too many scheduled times starts no Job, and so misses more."""

    def none(schedule: Schedule, *, since: float, now: float) -> Due:
        due = latest_due(schedule, since=since, now=now)
        return Due(None, due.missed) if due.missed > TOO_MANY else due

    with patch.object(reconciler, "latest_due", none):
        yield


@contextmanager
def what_is_there_already_stays_out() -> Iterator[None]:
    """A Job that is missing in the status is never added to it, so that it counts neither as active nor as started."""

    def left_out(_self: CronJobReconciler, cron_job: Object, _jobs: Sequence[Object]) -> Step[Object]:
        return cron_job
        yield

    def of_others(_job: Object, _cron_job: Object) -> bool:
        return False

    with patch.object(CronJobReconciler, "_adopt", left_out), patch.object(reconciler, "controlled_by", of_others):
        yield


@contextmanager
def cleared_before_it_is_noted() -> Iterator[None]:
    """A finished Job may be deleted before the status contains it."""

    def left_out(_self: CronJobReconciler, cron_job: Object, _jobs: Sequence[Object]) -> Step[Object]:
        return cron_job
        yield

    with patch.object(CronJobReconciler, "_adopt", left_out):
        yield


def answers_are_lost(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw faults that lose outcomes of creations of Jobs."""
    rate = 0.3 + seed % 3 / 10
    return (Fault(kind=FaultKind.OUTCOME_LOST, rate=rate, until=100.0, process="manager*", resource="jobs"),)


def managers_are_away(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw a crash of all managers that is long enough to miss several scheduled times."""
    start = 5.0 + seed % 20
    return (Fault(kind=FaultKind.PROCESS_CRASHED, start=start, until=start + 140.0, process="manager*"),)


CRONS = (
    Mutant(
        name="a CronJob that missed many slots starts none",
        source="kubernetes/kubernetes#42649",
        mutation=missed_slots_stop_it,
        setting=replace(CRON_JOBS_FOR_LONG, draw=managers_are_away),
    ),
    Mutant(
        name="a Job that is there already stays out of the status",
        source="kubernetes/kubernetes#120649",
        mutation=what_is_there_already_stays_out,
        setting=replace(CRON_JOBS_FOR_LONG, draw=answers_are_lost),
    ),
    Mutant(
        name="a Job is cleared away before the status tells that it was started",
        source="Kubernetes 1.36 does so; no issue describes it",
        mutation=cleared_before_it_is_noted,
        setting=replace(CRON_JOBS_FOR_LONG, draw=answers_are_lost),
    ),
)
