"""Events and user actions on nodes: silence, cordons, taints, deletion and recreation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kcm.actors.hollow.nodes.fleet import HollowNode
from kcm.actors.hollow.nodes.objects import new_node
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.actions import create, delete, merge
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.silence import silence_patch
from kcm.protocols.nodes import NO_EXECUTE
from kcm.protocols.objects import Object
from kcm.protocols.resources import NODES, PODS

DURATIONS = (10.0, 25.0, 40.0, 60.0)  # possible durations of a period, in seconds
FIRST = 5.0  # virtual seconds; no period begins earlier


class Period(NamedTuple):
    """Period during which a node is silent, cordoned or tainted.

    at, end: virtual seconds.
    ends: False if the period lasts until the end of the run, whatever `end` is.
    """

    at: float
    end: float
    ends: bool


def draw_period(scenario: Scenario, chance: random.Random) -> Period:
    """Draw the Period of an event on a node. It ends in half of the cases."""
    [at] = scenario.times(chance, 1, first=FIRST)
    return Period(at, at + chance.choice(DURATIONS), chance.random() < 0.5)


def draw_periods(scenario: Scenario, chance: random.Random, *, most: int = 3) -> list[Period]:
    """Draw one to `most` successive Periods of events on a node. The last one ends in half of the cases."""
    times = scenario.times(chance, chance.randint(1, most), first=FIRST)
    periods = []
    for at, following in zip(times, [*times[1:], math.inf], strict=True):
        lasting = min(chance.choice(DURATIONS), (following - at) / 2)
        periods.append(Period(at, round(at + lasting, 2), following < math.inf or chance.random() < 0.5))
    return periods


def silence_node(name: str, period: Period) -> Iterable[Action]:
    """Yield the actions that silence a node's kubelet, and that end its silence if the period ends."""
    yield merge(period.at, NODES, name, silence_patch(True), "is silent")
    if period.ends:
        yield merge(period.end, NODES, name, silence_patch(False), "is no longer silent")


def silence_nodes(names: Sequence[str], period: Period) -> Iterable[Action]:
    """Yield the actions that silence several nodes together, and that end their silence if the period ends."""

    def each(changes: Object) -> Callable[[SimulatedCluster], bool]:
        def do(cluster: SimulatedCluster) -> bool:
            if not all(cluster.get(NODES, name) for name in names):
                return False
            for name in names:
                cluster.merge(NODES, name, changes)
            return True

        return do

    yield Action(period.at, f"{', '.join(names)} are silent", each(silence_patch(True)))
    if period.ends:
        yield Action(period.end, f"{', '.join(names)} are no longer silent", each(silence_patch(False)))


def cordon(name: str, period: Period) -> Iterable[Action]:
    """Yield the actions that cordon a node, and that uncordon it if the period ends."""
    yield merge(period.at, NODES, name, {"spec": {"unschedulable": True}}, "is cordoned")
    if period.ends:
        yield merge(period.end, NODES, name, {"spec": {"unschedulable": None}}, "is uncordoned")


def remove(name: str, period: Period) -> Iterable[Action]:
    """Yield the action that deletes a node permanently."""
    yield delete(period.at, NODES, name)


def reregister(machine: HollowNode, period: Period) -> Iterable[Action]:
    """Yield the actions that delete a node, and register it again as a new object at the end of the period.

    Like a kubelet, the second action leaves a node that exists unchanged. It exists if the deletion was removed when a
    failure was reduced to fewer actions.
    """

    def register(cluster: SimulatedCluster) -> bool:
        if cluster.get(NODES, machine.name) is None:
            cluster.create(NODES, new_node(machine, now=cluster.clock.now()))
        return True

    yield delete(period.at, NODES, machine.name)
    yield Action(period.end, f"Node {machine.name} registers again", register)


def set_taint(at: float, name: str, key: str, *, there: bool) -> Action:
    """Return the action that adds or removes a NoExecute taint, without changing other taints.

    there: whether the node must have the taint.
    """

    def do(cluster: SimulatedCluster) -> bool:
        node = cluster.get(NODES, name)
        if node is None:
            return False
        taints = [taint for taint in node["spec"].get("taints") or () if taint["key"] != key]
        cluster.merge(NODES, name, {"spec": {"taints": [*taints, *([{"key": key, "effect": NO_EXECUTE}] * there)]}})
        return True

    return Action(at, f"Node {name} {'gets' if there else 'loses'} the taint {key}", do)


def bare_pod(at: float, name: str, *, node: str = "", tolerations: Sequence[Object] = (), **meta: Any) -> Action:
    """Return the action that creates a pod without an owner.

    node: node of the pod; "" for a pod that the scheduler binds.
    meta: additional fields of the metadata.
    """
    spec: Object = {
        "containers": [{"name": "c", "image": "v1"}],
        "restartPolicy": "Never",
        "tolerations": list(tolerations),
    }
    if node:
        spec["nodeName"] = node
    return create(at, PODS, {"metadata": {"name": name, "namespace": NAMESPACE, **meta}, "spec": spec})
