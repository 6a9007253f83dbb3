"""Mutants of the horizontal pod autoscaler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler import reconciler
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.behavior import (
    READY_FOR_NEW_SCALE,
    Behavior,
    LimitedReplicas,
    Recommendation,
)
from kcm.actors.simulation.campaign.domain_settings import AUTOSCALERS_SETTING
from tests.faults.mutants.mutant import Mutant

LONG_AGO = float("-inf")


@contextmanager
def first_size_is_not_remembered() -> Iterator[None]:
    """A new incarnation does not use the current replicas as a recommendation."""

    def forgotten(replicas: int, _at: float) -> Recommendation:
        return Recommendation(replicas, LONG_AGO)

    with patch.object(reconciler, "Recommendation", forgotten):
        yield


@contextmanager
def nothing_is_stabilized() -> Iterator[None]:
    """Recommendations within the stabilization windows of spec.behavior are ignored."""

    def unstable(
        _behavior: Behavior, proposal: int, recommendations: Iterable[Recommendation], *, current: int, now: float
    ) -> tuple[LimitedReplicas, tuple[Recommendation, ...]]:
        del current, now
        return LimitedReplicas(proposal, *READY_FOR_NEW_SCALE), tuple(recommendations)

    with patch.object(reconciler, "stabilize_by_windows", unstable):
        yield


AUTOSCALERS = (
    Mutant(
        name="a first size is not remembered",
        source="kubernetes/kubernetes#68826",
        mutation=first_size_is_not_remembered,
        setting=AUTOSCALERS_SETTING,
    ),
    Mutant(
        name="a behavior does without stabilization",
        source="what the windows are against; no issue describes it",
        mutation=nothing_is_stabilized,
        setting=AUTOSCALERS_SETTING,
    ),
)
