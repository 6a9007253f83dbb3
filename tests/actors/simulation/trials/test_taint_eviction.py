"""Users who maintain a node do not have the scheduler bind pods to it that are evicted in the same moment."""

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
    """A node, and what the first scenario that maintains one does to it. tolerated: by pods of workloads, seconds."""
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
def test_where_pods_do_not_come_back_at_once_a_node_is_tainted_for_a_while(tolerated: int | None) -> None:
    assert states(*maintenance(tolerated, ends=True)) == [WELL, TAINTED, WELL]


def test_where_pods_tolerate_the_taint_for_no_second_the_node_is_cordoned_as_long_as_it_has_the_taint() -> None:
    """A false alarm: a pod was bound there, evicted and replaced five times a second, which looked like a hot loop."""
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
    assert list(TRIAL.unsettled(cluster)) == ["pod p1 does not tolerate the taints of n1 for ever"]


@pytest.mark.parametrize(("reason", "settled"), [("DeletionByTaintManager", True), ("PreemptionByScheduler", False)])
def test_nothing_is_settled_while_a_pod_that_others_delete_is_still_to_be_evicted(
    reason: str, *, settled: bool
) -> None:
    """A false alarm: the time came for one that users had deleted, and that a silent node had kept for minutes."""
    cluster = SimulatedCluster(log=quiet_log())
    cluster.create(NODES, node("n1", taints=[taint()]))
    cluster.create(PODS, pod("p1", node="n1"))
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": reason}]
    cluster.merge(PODS, "default/p1", {"status": {"conditions": conditions}}, subresource="status")
    cluster.delete(PODS, "default/p1")
    assert (list(TRIAL.unsettled(cluster)) == []) is settled
