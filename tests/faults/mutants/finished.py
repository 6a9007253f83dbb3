"""Mutant of the TTL controller for finished Jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from msgspec.structs import replace

from kcm.actors.controllers.workloads.ttl_after_finished import TtlAfterFinished
from kcm.actors.reconciliation import Reconciliation, RequeueAfter, delete, must
from kcm.actors.simulation.campaign.domain_settings import FINISHED_SETTING
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.objects import Key
from kcm.protocols.resources import JOBS
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.faults.mutants.mutant import Mutant


@contextmanager
def deleted_as_the_cache_shows_it() -> Iterator[None]:
    """The Job is not read live before its deletion, so that an extended TTL is ignored."""

    def reconcile(self: TtlAfterFinished, key: Key) -> Reconciliation:
        job = self._jobs.get(key)
        left = None if job is None else self._left(key, job)
        if job is None or left is None:
            return None
        if left > 0:
            return RequeueAfter(left)
        yield from must(delete(JOBS, job, propagation="Foreground", depends_on=()), but=(NotFound,))
        return None

    with patch.object(TtlAfterFinished, "reconcile", reconcile):
        yield


def jobs_are_late(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Draw a lagging watch of Jobs that also stalls for longer than the TTL of a Job."""
    at = round(random.Random(f"late jobs {seed}").uniform(5.0, seconds * 0.7), 2)
    stalled = Fault(kind=FaultKind.WATCH_STALLED, start=at, until=at + 30.0, process=process, resource="jobs")
    return (stalled,)


FINISHED = (
    Mutant(
        name="a finished Job is deleted as the cache shows it",
        source="kubernetes/enhancements#592, which asks for the last look",
        mutation=deleted_as_the_cache_shows_it,
        setting=replace(FINISHED_SETTING, draw=jobs_are_late),
    ),
)
