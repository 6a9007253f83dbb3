"""Mutants of the StatefulSet controller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from kcm.actors.controllers.workloads.statefulset import reconciler
from kcm.actors.controllers.workloads.statefulset.pod_steps import PodStep, revision_of
from kcm.actors.simulation.campaign.domain_settings import STATEFUL_SETTING
from kcm.protocols.pods import PodFacts, is_terminal
from tests.faults.mutants.mutant import Mutant


@contextmanager
def successors_wait_for_nobody() -> Iterator[None]:
    """Pods that are unready or terminating do not delay their successors."""
    step_for_replica = reconciler.step_for_replica

    def hasty(stateful_set: Any, pod: PodFacts | None, *, now: float) -> PodStep:
        if pod is not None and not is_terminal(pod):
            return PodStep.KEEP
        return step_for_replica(stateful_set, pod, now=now)

    with patch.object(reconciler, "step_for_replica", hasty):
        yield


@contextmanager
def updates_wait_for_nobody() -> Iterator[None]:
    """A rolling update deletes a pod while its successors are not ready."""

    def hasty(stateful_set: Any, members: Any, *, update: str, now: float) -> list[int]:
        found = (ordinal for ordinal in reversed(members.replicas) if ordinal >= (stateful_set.partition or 0))
        old = (each for each in found if revision_of(members.replicas[each]) != update)
        return [each for each in old if not members.replicas[each].facts.deleting][:1]

    with patch.object(reconciler, "next_for_update", hasty):
        yield


STATEFUL = (
    Mutant(
        name="successors do not wait for their predecessors",
        source="kubernetes/kubernetes#44684: not where a set was scaled down and up again",
        mutation=successors_wait_for_nobody,
        setting=STATEFUL_SETTING,
    ),
    Mutant(
        name="an update does not wait for the pods that it replaced",
        source="kubernetes/kubernetes#112307: not until they are available",
        mutation=updates_wait_for_nobody,
        setting=STATEFUL_SETTING,
    ),
)
