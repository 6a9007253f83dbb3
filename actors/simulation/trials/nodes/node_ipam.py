"""Simulation trial of the controller that allocates pod CIDRs to nodes."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.nodes.nodes import PodCIDRsAreUnique, pod_cidrs
from kcm.actors.simulation.trials.nodes.actions import draw_period, reregister
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import name_of
from kcm.protocols.resources import NODES


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users delete a node and register it again, so that its CIDR is released and a new CIDR is allocated.
    """
    chance = scenario.chance("node ipam actions")
    if chance.random() < 0.5 and (name := scenario.nodes.take(removed=True)) is not None:
        yield from reregister(scenario.nodes.machines[name], draw_period(scenario, chance))


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for node in cluster.shown(NODES):
        if not pod_cidrs(node):
            yield f"{name_of(node)}: it has no pod CIDR"


TRIAL = Trial(
    controller="node-ipam-controller",
    actions=_actions,
    unsettled=_unsettled,
    invariants=lambda _cluster, _options: (PodCIDRsAreUnique(),),
)
