"""Simulation trial of the taint eviction controller.

The end state, which is compared with a run without faults, does not contain pods without an owner on nodes whose taints
were removed again: it depends on timing which of these pods were evicted.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.controllers.nodes.node_lifecycle.options import lifecycle_settings
from kcm.actors.controllers.nodes.taint_eviction import REASON, no_execute_taints
from kcm.actors.controllers.shared.pod_disruption import DISRUPTION_TARGET
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.nodes.evictions import EvictionsHaveACause
from kcm.actors.simulation.trials.nodes.actions import bare_pod, cordon, draw_period, set_taint
from kcm.actors.simulation.trials.nodes.taints import MAINTENANCE, SOON, tolerations
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.conditions import find_condition
from kcm.protocols.nodes import NO_EXECUTE
from kcm.protocols.objects import Object, is_deleting, name_of
from kcm.protocols.resources import NODES, PODS
from kcm.protocols.tolerations import find_toleration

PATIENT = "patient"  # prefix of the names of pods that tolerate all taints


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users taint a node that has pods with different tolerations, and create pods elsewhere that tolerate all taints.
    """
    chance, pool = scenario.chance("taint eviction actions"), scenario.nodes
    if chance.random() < 0.4 and (name := pool.take()) is not None:
        yield from _maintenance(scenario, chance, name)
    for number, node in enumerate(pool.keep(chance, 2)):
        yield bare_pod(4.0, f"{PATIENT}-{number}", node=node, tolerations=({"operator": "Exists"},))


def _maintenance(scenario: Scenario, chance: random.Random, name: str) -> Iterable[Action]:
    """Yield the actions that create pods on a node and taint the node for maintenance.

    The node is also cordoned, as by `kubectl drain`, if its pods could otherwise be bound to it and evicted repeatedly.
    The scheduler binds pods that tolerate the taint for any time, even 0 s. So this would be repeated many times a
    second, or forever if the period does not end.
    """
    period = draw_period(scenario, chance)
    for number, tolerated in enumerate((None, chance.choice(SOON), 60)):
        tolerated_here = tolerations(15, maintenance=tolerated)
        yield bare_pod(period.at - 2.0, f"guest-{name}-{number}", node=name, tolerations=tolerated_here)
    first, *last = cordon(name, period)
    cordoned = not period.ends or _evicted_at_once(scenario.pod)
    if cordoned:
        yield first
    yield set_taint(period.at, name, MAINTENANCE, there=True)
    if period.ends:
        yield set_taint(period.end, name, MAINTENANCE, there=False)
    if cordoned:
        yield from last


def _evicted_at_once(pod: Mapping[str, Any]) -> bool:
    """Report whether pods with this spec would be bound to a node under maintenance and evicted immediately."""
    toleration = find_toleration(pod.get("tolerations"), {"key": MAINTENANCE, "effect": NO_EXECUTE})
    return toleration is not None and toleration.get("tolerationSeconds") == 0


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    nodes = {name_of(node): node for node in cluster.shown(NODES)}
    for pod in cluster.shown(PODS):
        node = nodes.get(pod["spec"].get("nodeName") or "")
        if node is not None and not _is_evicted(pod) and _must_be_evicted(pod, node):
            yield f"pod {name_of(pod)} must be evicted because of the taints of {name_of(node)}"


def _is_evicted(pod: Object) -> bool:
    """Report whether the controller has evicted the pod, and no other client has deleted it."""
    condition = find_condition((pod.get("status") or {}).get("conditions"), DISRUPTION_TARGET)
    return is_deleting(pod) and condition is not None and condition.get("reason") == REASON


def _must_be_evicted(pod: Object, node: Object) -> bool:
    for taint in no_execute_taints(node):
        toleration = find_toleration(pod["spec"].get("tolerations"), taint)
        if toleration is None or toleration.get("tolerationSeconds") is not None:
            return True
    return False


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    names = map(name_of, cluster.shown(PODS, NAMESPACE))
    return {"patient pods": sorted(name for name in names if name.startswith(PATIENT))}


TRIAL = Trial(
    controller="taint-eviction-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, options: (EvictionsHaveACause(cluster, lifecycle_settings(options).limits),),
    deletes=(PODS,),
)
