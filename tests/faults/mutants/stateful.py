"""Mutants of the StatefulSet controller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from actors.controllers.workloads.statefulset import reconciler
from actors.controllers.workloads.statefulset.ordering import PodStep
from actors.simulation.campaign.stateful_setting import STATEFUL_TOO
from protocols.pods import PodFacts, is_terminal
from tests.faults.mutants.mutant import Mutant


@contextmanager
def successors_wait_for_nobody() -> Iterator[None]:
    """A pod that is not ready yet, or is being deleted, counts as one that is there."""
    step_for_replica = reconciler.step_for_replica

    def hasty(stateful_set: Any, pod: PodFacts | None, *, now: float) -> PodStep:
        if pod is not None and not is_terminal(pod):
            return PodStep.KEEP
        return step_for_replica(stateful_set, pod, now=now)

    with patch.object(reconciler, "step_for_replica", hasty):
        yield


@contextmanager
def claims_that_go_are_used() -> Iterator[None]:
    """A new pod gets the claim that is collected with the former one of its name."""
    with patch("actors.controllers.workloads.statefulset.pod_control.is_stale", lambda *_: False):
        yield


STATEFUL = (
    Mutant(
        name="successors do not wait for their predecessors",
        source="kubernetes/kubernetes#44684: not where a set was scaled down and up again",
        mutation=successors_wait_for_nobody,
        setting=STATEFUL_TOO,
    ),
    Mutant(
        name="a claim that goes with a former pod is used",
        source="kubernetes/kubernetes#99728, which made the controller wait",
        mutation=claims_that_go_are_used,
        setting=STATEFUL_TOO,
    ),
)
