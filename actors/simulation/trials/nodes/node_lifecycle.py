"""Simulation trial of the node lifecycle controller.

The end state, which is compared with a run without faults, does not contain NoExecute taints in zones whose eviction
rate is 0: it depends on timing which nodes were tainted before the zone was disrupted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.controllers.nodes.node_lifecycle.options import lifecycle_settings
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.nodes.evictions import TaintsWithinTheRate
from kcm.actors.simulation.trials.nodes.actions import cordon, draw_period, draw_periods, silence_node, silence_nodes
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.settings import rates_of
from kcm.actors.simulation.trials.silence import is_silent
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.nodes import NO_EXECUTE, NO_EXECUTE_KEYS, UNREACHABLE, node_facts
from kcm.protocols.objects import name_of
from kcm.protocols.resources import NODES, PODS


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions: silence all nodes or all nodes of a zone, and silence or cordon single nodes."""
    chance, pool = scenario.chance("node lifecycle actions"), scenario.nodes
    outage = chance.random()
    if outage < 0.15:
        # All nodes are silent for a limited time only: otherwise no workload would ever reach its desired state.
        yield from silence_nodes(pool.take_all(), draw_period(scenario, chance)._replace(ends=True))
    elif outage < 0.5:
        period = draw_period(scenario, chance)._replace(ends=chance.random() < 0.7)
        yield from silence_nodes(pool.take_zone(chance.choice(list(pool.zones))), period)
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        if (name := pool.take()) is not None:
            for period in draw_periods(scenario, chance):
                yield from chance.choice((silence_node, silence_node, cordon))(name, period)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    rates = rates_of(cluster)
    for node in cluster.shown(NODES):
        name, facts = name_of(node), node_facts(node)
        wanted = "Unknown" if is_silent(node) else "True"
        if facts.ready != wanted:
            yield f"{name}: Ready is {facts.ready}, not {wanted}"
        if facts.no_schedule != facts.wanted_no_schedule:
            yield f"{name}: tainted NoSchedule {sorted(facts.no_schedule)}, not {sorted(facts.wanted_no_schedule)}"
        wanted_keys = {UNREACHABLE} if facts.ready == "Unknown" else set()
        decided = facts.ready == "True" or rates.get(facts.zone, 0.0) > 0
        if decided and facts.no_execute != wanted_keys:
            yield f"{name}: tainted NoExecute {sorted(facts.no_execute)}, not {sorted(wanted_keys)}"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    state, rates = {}, rates_of(cluster)
    for node in cluster.shown(NODES):
        undecided = rates.get(node_facts(node).zone) == 0
        taints = sorted(
            (taint["key"], taint["effect"])
            for taint in node["spec"].get("taints") or ()
            if not (undecided and taint["effect"] == NO_EXECUTE and taint["key"] in NO_EXECUTE_KEYS)
        )
        conditions = {condition["type"]: condition["status"] for condition in node["status"].get("conditions") or ()}
        cordoned = bool(node["spec"].get("unschedulable"))
        state[f"Node {name_of(node)}"] = {"conditions": conditions, "taints": taints, "cordoned": cordoned}
    return state


TRIAL = Trial(
    controller="node-lifecycle-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, options: (TaintsWithinTheRate(cluster, lifecycle_settings(options).limits),),
    deletes=(PODS,),  # with --enable-taint-manager=false
)
