"""Mutants of the DaemonSet controller."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from kcm.actors.controllers.shared.generated_names import generated_name
from kcm.actors.controllers.workloads.daemonset import reconciler
from kcm.actors.controllers.workloads.daemonset.names import PodNames
from kcm.actors.controllers.workloads.daemonset.pod_plan import by_node
from kcm.actors.simulation.campaign.domain_settings import DAEMONS_SETTING
from kcm.protocols.objects import Key, Object
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.tables.table import Entry
from tests.faults.mutants.mutant import Mutant


@contextmanager
def names_are_drawn_anew() -> Iterator[None]:
    """Each creation has a new name, as with generateName, so that retries create duplicates."""
    tries = itertools.count()

    def choose(self: PodNames, owner: Object, nodes: Sequence[str], *, taken: Callable[[Key], bool]) -> dict[str, str]:
        return {generated_name(owner, f"{node} {next(tries)}", taken=taken): node for node in nodes}

    with patch.object(PodNames, "choose", choose):
        yield


@contextmanager
def pods_that_wait_count_nowhere() -> Iterator[None]:
    """Unbound pods do not count on their target node."""

    def bound(pods: Iterable[Entry]) -> dict[str, list[Entry]]:
        return by_node([pod for pod in pods if pod.facts.node])

    with patch.object(reconciler, "by_node", bound):
        yield


def answers_are_lost(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw faults that lose outcomes of creations of pods, while the watch of pods is late."""
    lost = Fault(kind=FaultKind.OUTCOME_LOST, rate=0.1 + seed % 3 / 10, until=30.0, process="manager*", resource="pods")
    late = Fault(kind=FaultKind.WATCH_STALLED, start=0.5, until=30.0, process="manager*", resource="pods")
    return (lost, late)


DAEMONS = (
    Mutant(
        name="a node's pod gets another name at each try",
        source="what generateName comes to when the answer to a creation is lost; no issue describes it",
        mutation=names_are_drawn_anew,
        setting=replace(DAEMONS_SETTING, draw=answers_are_lost),
    ),
    Mutant(
        name="a pod that is not bound yet counts on no node",
        source="kubernetes/kubernetes#61050",
        mutation=pods_that_wait_count_nowhere,
        setting=DAEMONS_SETTING,
    ),
)
