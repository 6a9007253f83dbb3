"""Simulation trial of the cloud node lifecycle controller: users shut down and terminate machines of nodes."""

from __future__ import annotations

import random
from collections.abc import Iterable

from kcm.actors.controllers.cloud.cloud_node_lifecycle import SHUTDOWN
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.nodes.nodes import NodesWithMachinesAreKept
from kcm.actors.simulation.trials.nodes.actions import draw_period
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.settings import fake_cloud
from kcm.actors.simulation.trials.silence import silence_patch
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.nodes import node_facts
from kcm.protocols.objects import name_of
from kcm.protocols.resources import NODES


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users shut down a machine, sometimes only for a limited time, and terminate another machine.
    """
    chance, pool = scenario.chance("cloud node lifecycle actions"), scenario.nodes
    if chance.random() < 0.3 and (name := pool.take()) is not None:
        yield from _shut_down(scenario, chance, name)
    if chance.random() < 0.3 and (name := pool.take(removed=True)) is not None:
        yield Action(
            draw_period(scenario, chance).at, f"machine of {name} is terminated", lambda c: terminate_machine(c, name)
        )


def _shut_down(scenario: Scenario, chance: random.Random, name: str) -> Iterable[Action]:
    period = draw_period(scenario, chance)
    yield Action(period.at, f"machine of {name} is shut down", lambda cluster: switch_machine(cluster, name, on=False))
    if period.ends:
        yield Action(
            period.end, f"machine of {name} is started", lambda cluster: switch_machine(cluster, name, on=True)
        )


def switch_machine(cluster: SimulatedCluster, name: str, *, on: bool) -> bool:
    """Start or shut down the machine of a node, with its kubelet. Returns False if the node does not exist."""
    if cluster.get(NODES, name) is None:
        return False
    machines = fake_cloud(cluster).instances
    (machines.start if on else machines.shut_down)(name)
    cluster.merge(NODES, name, silence_patch(not on))
    return True


def terminate_machine(cluster: SimulatedCluster, name: str) -> bool:
    """Terminate the machine of a node, with its kubelet. Returns False if the node does not exist."""
    if cluster.get(NODES, name) is None:
        return False
    cluster.merge(NODES, name, silence_patch(True))
    fake_cloud(cluster).instances.terminate(name)
    return True


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    machines = fake_cloud(cluster).instances
    for node in cluster.shown(NODES):
        ready = node_facts(node).ready == "True"
        if not ready and not machines.exists(node):
            yield f"{name_of(node)}: its machine does not exist, but the node does"
        tainted = any(taint["key"] == SHUTDOWN for taint in node["spec"].get("taints") or ())
        if tainted != (not ready and machines.is_shut_down(node)):
            yield f"{name_of(node)}: its shutdown taint does not match the state of its machine"


TRIAL = Trial(
    controller="cloud-node-lifecycle-controller",
    actions=_actions,
    unsettled=_unsettled,
    invariants=lambda cluster, _options: (NodesWithMachinesAreKept(fake_cloud(cluster)),),
    deletes=(NODES,),
)
