"""Simulation trial of the route controller: nodes are deleted, so that their routes must be deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.nodes.nodes import RoutesOfNodesAreKept, pod_cidrs
from kcm.actors.simulation.trials.nodes.actions import draw_period, remove
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.settings import fake_cloud, options_of
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import name_of
from kcm.protocols.resources import NODES


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions: delete up to two nodes."""
    chance = scenario.chance("node route actions")
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2))):
        if (name := scenario.nodes.take(removed=True)) is not None:
            yield from remove(name, draw_period(scenario, chance))


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    wanted: Counter[tuple[str, str]] = Counter()
    for node in cluster.shown(NODES):
        wanted.update((name_of(node), network) for network in pod_cidrs(node))
        condition = find_condition(node["status"].get("conditions"), "NetworkUnavailable")
        if condition is None or condition["status"] != "False":
            yield f"{name_of(node)}: its network is not available"
    cluster_name = options_of(cluster).cloud.cluster_name
    routes = Counter((route.node, route.destination) for route in fake_cloud(cluster).routes.list(cluster_name))
    if routes != wanted:
        yield f"routes are {sorted(routes)}, not {sorted(wanted)}"


TRIAL = Trial(
    controller="node-route-controller",
    actions=_actions,
    unsettled=_unsettled,
    invariants=lambda cluster, _options: (RoutesOfNodesAreKept(cluster),),
)
