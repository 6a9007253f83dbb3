"""Mutants of the Job controller."""

from __future__ import annotations

import random
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from msgspec.structs import replace

from kcm.actors.controllers.workloads.job import pod_control
from kcm.actors.controllers.workloads.job.finalizers import untrack
from kcm.actors.controllers.workloads.job.orphans import Orphan, OrphanReconciler
from kcm.actors.controllers.workloads.job.status import Tally
from kcm.actors.reconciliation import Step
from kcm.actors.simulation.campaign.domain_settings import JOBS_SETTING
from kcm.protocols.messages.commands import Patch
from kcm.protocols.objects import uid_of
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.tables.table import Entry
from tests.faults.mutants.mutant import Mutant


@contextmanager
def counted_with_the_finalizer_in_place() -> Iterator[None]:
    """Pods are added to the counters before the removal of their finalizers is known."""
    settled = Tally.settled

    def at_once(self: Tally, _tracked: Container[str], *, is_indexed: bool) -> Tally:
        return settled(self, frozenset(), is_indexed=is_indexed)

    with patch.object(Tally, "settled", at_once):
        yield


@contextmanager
def let_go_as_the_cache_shows_it() -> Iterator[None]:
    """Surplus pods lose their finalizer by the table, although they may have succeeded meanwhile."""

    def anyhow(pod: Entry, *, unchanged: bool = False) -> Patch:
        del unchanged
        return untrack(pod)

    with patch.object(pod_control, "untrack", anyhow):
        yield


@contextmanager
def a_job_that_is_gone_keeps_its_pods() -> Iterator[None]:
    """Pods of a deleted Job keep their finalizer, because only a sync of the Job removes it."""
    is_abandoned = OrphanReconciler._is_abandoned

    def never(self: OrphanReconciler, orphan: Orphan) -> Step[bool]:
        job = self._jobs.get(orphan.key)
        if job is None or uid_of(job) != orphan.owner:
            return False
        return (yield from is_abandoned(self, orphan))

    with patch.object(OrphanReconciler, "_is_abandoned", never):
        yield


def pods_are_late(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Draw a lag of the watch of pods only."""
    late = random.Random(f"late pods of jobs {seed}").choice((0.5, 2.0, 5.0))
    lagging = FaultKind.WATCH_LAGGING
    return (Fault(kind=lagging, start=0.0, until=seconds, seconds=late, process=process, resource="pods"),)


JOBS = (
    Mutant(
        name="a Job's pod is counted while it has its finalizer",
        source="kubernetes/enhancements#2307, which explains why there is a list of uncounted pods",
        mutation=counted_with_the_finalizer_in_place,
        setting=JOBS_SETTING,
    ),
    Mutant(
        name="pods of a Job that is gone keep its finalizer",
        source="kubernetes/kubernetes#108645",
        mutation=a_job_that_is_gone_keeps_its_pods,
        setting=JOBS_SETTING,
    ),
    Mutant(
        name="a surplus pod of a Job is let go as the cache shows it",
        source="deleteJobPods of Kubernetes 1.36 does so; no issue describes it",
        mutation=let_go_as_the_cache_shows_it,
        setting=replace(JOBS_SETTING, draw=pods_are_late),
    ),
)
