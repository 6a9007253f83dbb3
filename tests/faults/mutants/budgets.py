"""Mutants of the disruption controller."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from actors.controllers.shared.status import write_status
from actors.controllers.workloads.disruption.counting import Disrupted
from actors.controllers.workloads.disruption.reconciler import DisruptionReconciler
from actors.reconciliation import Step
from actors.simulation.campaign.budget_setting import BUDGETS_TOO
from protocols.objects import Key, Object
from protocols.resources import POD_DISRUPTION_BUDGETS
from runtime.faults.vocabulary import Fault, FaultKind
from tests.faults.mutants.mutant import Mutant


@contextmanager
def counts_are_written_over_an_eviction() -> Iterator[None]:
    """After a conflict, what was counted before is written to the version that an eviction has made."""

    def write(_self: DisruptionReconciler, _key: Key, budget: Object, status: Object) -> Step[None]:
        yield from write_status(POD_DISRUPTION_BUDGETS, budget, status, retries=1)

    with patch.object(DisruptionReconciler, "_write", write):
        yield


@contextmanager
def evicted_pods_are_not_remembered() -> Iterator[None]:
    """A pod counts as healthy until the watch shows that it is being deleted."""

    def none(*_: Any, **__: Any) -> Disrupted:
        return Disrupted(frozenset(), (), None)

    with patch("actors.controllers.workloads.disruption.reconciler.disrupted_pods", none):
        yield


def pods_are_late(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """The watch of pods, and it alone, shows everything later than it was."""
    late = random.Random(f"late pods {seed}").choice((0.1, 0.5, 2.0, 5.0))
    lagging = FaultKind.WATCH_LAGGING
    return (Fault(kind=lagging, start=0.0, until=seconds, seconds=late, process=process, resource="pods"),)


BUDGETS = (
    Mutant(
        name="counts are written over an eviction",
        source="kubernetes/kubernetes#82149",
        mutation=counts_are_written_over_an_eviction,
        setting=BUDGETS_TOO,
    ),
    Mutant(
        name="evicted pods are not remembered",
        source="kubernetes/kubernetes#36196",
        mutation=evicted_pods_are_not_remembered,
        setting=replace(BUDGETS_TOO, draw=pods_are_late),
    ),
)
