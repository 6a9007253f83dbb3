"""Simulation trial of the controller that writes the TTL annotation of nodes."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.nodes.ttl import ANNOTATION
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.actions import merge
from kcm.actors.simulation.trials.nodes.actions import FIRST
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import annotations_of, name_of
from kcm.protocols.resources import NODES


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions: remove or change the TTL annotation of a node that no action deletes."""
    chance = scenario.chance("ttl actions")
    if chance.random() < 0.5:
        [name], [at] = scenario.nodes.keep(chance, 1), scenario.times(chance, 1, first=FIRST)
        value = chance.choice((None, "15", "soon"))
        yield merge(at, NODES, name, {"metadata": {"annotations": {ANNOTATION: value}}}, f"{ANNOTATION} is {value}")


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    """Yield a text for each node whose TTL is not 0, which is the TTL in a cluster of this size."""
    for node in cluster.shown(NODES):
        if annotations_of(node).get(ANNOTATION) != "0":
            yield f"{name_of(node)}: its ttl is {annotations_of(node).get(ANNOTATION)}"


TRIAL = Trial(controller="ttl-controller", actions=_actions, unsettled=_unsettled)
