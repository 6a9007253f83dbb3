"""Mutants of the DaemonSet controller."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from actors.controllers.shared.generated_names import generated_name
from actors.controllers.workloads.daemonset.names import PodNames
from actors.controllers.workloads.daemonset.reconciler import QUEUE, DaemonSetReconciler
from actors.controllers.workloads.daemonset.watches import NodeChange
from actors.reconciliation import Enqueue, Reconciliation
from actors.simulation.campaign.daemon_setting import DAEMONS_TOO
from protocols.objects import Key, Object
from tests.faults.mutants.mutant import Mutant


@contextmanager
def names_are_drawn_anew() -> Iterator[None]:
    """Each try has a name of its own, as where the server draws it: a creation whose outcome is lost is made twice."""
    tries = itertools.count()

    def choose(self: PodNames, owner: Object, nodes: Sequence[str], *, taken: Callable[[Key], bool]) -> dict[str, str]:
        return {generated_name(owner, f"{node} {next(tries)}", taken=taken): node for node in nodes}

    with patch.object(PodNames, "choose", choose):
        yield


@contextmanager
def nodes_wake_by_the_pods_that_are_there() -> Iterator[None]:
    """A node's change wakes a DaemonSet for a pod that has to come or go, and not for numbers alone."""

    def node_changed(self: DaemonSetReconciler, change: NodeChange) -> Reconciliation:
        entry = self._nodes.entry(change.node)
        if entry is None:
            return
        for key, (uid, placement) in list(self._placements.items()):
            verdict = placement.verdict(entry.facts.placement)
            is_there = any(pod.facts.node == change.node for pod in self._pods.entries_owned_by(uid))
            status = (self._sets.get(key) or {}).get("status") or {}
            is_counted_wrong = is_there and status.get("numberMisscheduled", 0) > 0
            if verdict.should_run > is_there or is_there > verdict.may_stay or is_counted_wrong:
                yield Enqueue(QUEUE, key)

    with patch.object(DaemonSetReconciler, "node_changed", node_changed):
        yield


DAEMONS = (
    Mutant(
        name="a node's pod gets another name at each try",
        source="what generateName comes to when the answer to a creation is lost; no issue was found that says it",
        mutation=names_are_drawn_anew,
        setting=DAEMONS_TOO,
    ),
    Mutant(
        name="a node that changes numbers alone wakes no DaemonSet",
        source="pkg/controller/daemon/daemon_controller.go of 1.36: its node worker looks at pods, not at the status",
        mutation=nodes_wake_by_the_pods_that_are_there,
        setting=DAEMONS_TOO,
    ),
)
