"""Search for the node of a pod.

Source: kubernetes v1.36 pkg/scheduler/schedule_one.go, findNodesThatFitPod and prioritizeNodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcm.actors.hollow.scheduler.devices.claims import PodDevices
from kcm.actors.hollow.scheduler.devices.requested_devices import NO_DEVICES
from kcm.actors.hollow.scheduler.filters import Filters, Rejection, SchedulingAttempt
from kcm.actors.hollow.scheduler.node_fit import UNUSED, NodeView, best, misfits, nodes_to_find, preferences
from kcm.actors.hollow.scheduler.placements import Nominations, Placements
from kcm.actors.hollow.scheduler.snapshot import NodeSnapshot
from kcm.actors.hollow.scheduler.volumes import NOTHING

PODS_WEIGHT = 2.0  # of preferences about other pods; the weight of free resources is 1


class NodeSearch:
    """Search for nodes. Successive searches begin at different nodes."""

    def __init__(
        self, nodes: NodeSnapshot, filters: Filters, nominations: Nominations, devices: PodDevices | None
    ) -> None:
        self._nodes, self._filters, self._nominations, self._devices = nodes, filters, nominations, devices
        self._start = 0  # index of the node at which the next search begins

    def choose(
        self, attempt: SchedulingAttempt, placements: Placements, first_choices: Iterable[str]
    ) -> tuple[NodeView | None, Sequence[Rejection]]:
        """Return the node to bind the pod to, or None and all nodes with the reasons why it does not fit them.

        first_choices: names of nodes that are taken if the pod fits them.
        Raises AllocationError.
        """
        demand = attempt.demand
        for name in first_choices:
            known = self._nodes.view(name)
            if known is not None and not self._misfits(attempt, known, placements):
                return known, ()
        order, usages = self._nodes.order, placements.usages
        enough = nodes_to_find(len(order))
        fitting: list[NodeView] = []
        rejections: list[Rejection] = []
        is_plain = (
            attempt.claimed is NOTHING
            and attempt.devices is NO_DEVICES
            and attempt.neighbours is None
            and not self._nominations
        )
        looked_at = 0
        for looked_at in range(1, len(order) + 1):
            node = order[(self._start + looked_at - 1) % len(order)]
            if is_plain:
                why = misfits(demand, node, usages.get(node.name, UNUSED))
            else:
                why = self._misfits(attempt, node, placements)
            if why:
                rejections.append(Rejection(node, why))
                continue
            fitting.append(node)
            if len(fitting) >= enough:
                break
        if order:  # after a complete search, advance by one node, so that equal nodes take turns
            self._start = (self._start + (looked_at if looked_at < len(order) else 1)) % len(order)
        if not fitting:
            return None, rejections
        nodes: Sequence[NodeView] = fitting
        if self._devices is not None and attempt.devices is not NO_DEVICES:
            nodes = self._devices.preferred(attempt.devices, fitting)
        siblings = {} if demand.terms_about_pods.spread else placements.siblings(demand.owner)
        return best(demand, nodes, usages, siblings, _preferences(attempt, nodes)), ()

    def _misfits(self, attempt: SchedulingAttempt, node: NodeView, placements: Placements) -> Sequence[str]:
        usage = placements.usages.get(node.name, UNUSED)
        usage = self._nominations.usage(node.name, usage, attempt.key, attempt.demand)
        return self._filters.misfits(attempt, node, usage)


def _preferences(attempt: SchedulingAttempt, nodes: Sequence[NodeView]) -> Sequence[float]:
    """Return the scores of nodes by preferences of the pod and of other pods; empty if there are none."""
    if len(nodes) == 1:
        return ()
    found = [preferences(attempt.demand, nodes)]
    if attempt.neighbours is not None:
        about_pods = (attempt.neighbours.affinity_scores(nodes), attempt.neighbours.spread_scores(nodes))
        found += [None if scores is None else [PODS_WEIGHT * score for score in scores] for scores in about_pods]
    given = [scores for scores in found if scores is not None]
    return [sum(of_node) for of_node in zip(*given, strict=True)]
