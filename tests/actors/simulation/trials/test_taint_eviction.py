"""Maintenance in scenarios does not let the scheduler bind pods to a node that evicts them at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcm.actors.hollow.nodes.objects import new_node
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.nodes.taint_eviction import TRIAL
from kcm.actors.simulation.trials.nodes.taints import MAINTENANCE, tolerations
from kcm.actors.simulation.trials.scenario import Action, Fleet, Scenario
from kcm.protocols.resources import NAMESPACES, NODES, PODS
from kcm.runtime.logs.standard_log import quiet_log
from tests.support.objects import namespace, node, pod, taint

FLEET = Fleet(nodes=7, zones=2)
WELL, CORDONED, TAINTED, BOTH = (False, False), (False, True), (True, False), (True, True)


def maintenance(tolerated: int | None, *, ends: bool) -> tuple[str, list[Action]]:
    """Return a node and the actions of the first scenario that maintains one.

    tolerated: seconds that pods tolerate it.
    """
    pod = {"tolerations": tolerations(15, maintenance=tolerated)}
    for number in range(100):
        scenario = Scenario(number, seconds=50, fleet=FLEET, pod=pod, steady=False)
        done = [action for action in TRIAL.actions(scenario) if action.text.startswith("Node ")]
        if done and any("loses the taint" in action.text for action in done) == ends:
            return done[0].text.split()[1].rstrip(":"), sorted(done, key=lambda action: action.at)
    raise AssertionError("no scenario has it")


def states(name: str, actions: Sequence[Action]) -> list[tuple[bool, bool]]:
    """Return, before and after each action, whether the node has the taint and whether it is cordoned."""
    cluster = SimulatedCluster(log=quiet_log())
    cluster.create(NODES, new_node(Scenario(0, seconds=50, fleet=FLEET).nodes.machines[name], now=0.0))
    seen = []
    for action in (None, *actions):
        assert action is None or action.do(cluster)
        node = cluster.get(NODES, name)
        assert node is not None
        taints = [taint["key"] for taint in node["spec"].get("taints") or ()]
        seen.append((MAINTENANCE in taints, bool(node["spec"].get("unschedulable"))))
    return seen


@pytest.mark.parametrize("tolerated", [None, 5, 30])
def test_maintenance_without_immediate_eviction_only_taints_the_node(tolerated: int | None) -> None:
    assert states(*maintenance(tolerated, ends=True)) == [WELL, TAINTED, WELL]


def test_maintenance_with_immediate_eviction_also_cordons_the_node() -> None:
    """False alarm: a pod was bound, evicted and replaced five times a second, which looked like a hot loop."""
    assert states(*maintenance(0, ends=True)) == [WELL, CORDONED, BOTH, CORDONED, WELL]


@pytest.mark.parametrize("tolerated", [None, 0, 15])
def test_permanent_maintenance_begins_with_a_cordon(tolerated: int | None) -> None:
    assert states(*maintenance(tolerated, ends=False)) == [WELL, CORDONED, BOTH]


@pytest.mark.parametrize("where", ["default", "limited"])
def test_untolerated_taint_is_unsettled_in_any_namespace(where: str) -> None:
    """False alarm: a quota was counted again after the run had settled, because of a pod in another namespace."""
    cluster = SimulatedCluster(log=quiet_log())
    cluster.create(NODES, node("n1", taints=[taint()]))
    if where != "default":
        cluster.create(NAMESPACES, namespace(where))
    cluster.create(PODS, pod("p1", namespace=where, node="n1"))
    assert list(TRIAL.unsettled(cluster)) == ["pod p1 must be evicted because of the taints of n1"]


@pytest.mark.parametrize(("reason", "settled"), [("DeletionByTaintManager", True), ("PreemptionByScheduler", False)])
def test_pod_deleted_by_others_is_unsettled_until_its_eviction(reason: str, *, settled: bool) -> None:
    """False alarm: a pod deleted by a user stayed on a silent node for minutes, until its eviction was due."""
    cluster = SimulatedCluster(log=quiet_log())
    cluster.create(NODES, node("n1", taints=[taint()]))
    cluster.create(PODS, pod("p1", node="n1"))
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": reason}]
    cluster.merge(PODS, "default/p1", {"status": {"conditions": conditions}}, subresource="status")
    cluster.delete(PODS, "default/p1")
    assert (list(TRIAL.unsettled(cluster)) == []) is settled
