"""User actions wait for the objects that they need."""

from __future__ import annotations

from kcm.actors.hollow.nodes.fleet import make_fleet
from kcm.actors.hollow.nodes.objects import new_node
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.actions import create
from kcm.actors.simulation.trials.nodes.actions import Period, reregister
from kcm.actors.simulation.trials.scenario import do_in_order
from kcm.actors.simulation.trials.workloads.actions import workload
from kcm.protocols.resources import NAMESPACES, NODES, REPLICASETS
from kcm.runtime.logs.standard_log import quiet_log
from tests.support.census import CONFIGMAPS


def test_a_name_that_is_taken_is_waited_for() -> None:
    # Shrinking may remove the deletion in between: such a run must not fail with an error.
    cluster = SimulatedCluster(log=quiet_log())
    first, again = (create(at, REPLICASETS, workload(REPLICASETS, "web", 1, "v0")) for at in (1.0, 2.0))
    waiting = do_in_order(cluster, (first, again))
    cluster.run_for(10)
    assert waiting == [again]
    cluster.delete(REPLICASETS, "default/web")
    cluster.run_for(10)
    assert waiting == []


def test_action_waits_for_a_terminating_namespace() -> None:
    # Shrinking may remove the creation or the release of the namespace: such a run must not fail with an error.
    cluster = SimulatedCluster(log=quiet_log(), empty_namespaces=False)
    held = create(1.0, CONFIGMAPS, {"metadata": {"name": "held", "namespace": "team"}})
    waiting = do_in_order(cluster, [held])
    cluster.run_for(10)
    assert waiting == [held]
    cluster.create(NAMESPACES, {"metadata": {"name": "team", "finalizers": ["example.com/hold"]}})
    cluster.delete(NAMESPACES, "team")
    cluster.run_for(10)
    assert waiting == [held]


def test_node_that_exists_is_not_registered_again() -> None:
    # Shrinking may remove the deletion of the node: such a run must not fail with an error.
    cluster = SimulatedCluster(log=quiet_log())
    machine = next(iter(make_fleet(nodes=1, zones=1).values()))
    cluster.create(NODES, new_node(machine, now=cluster.clock.now()))
    there = cluster.get(NODES, machine.name)
    _, register = reregister(machine, Period(1.0, 2.0, ends=True))
    waiting = do_in_order(cluster, [register])
    cluster.run_for(10)
    assert (waiting, cluster.get(NODES, machine.name)) == ([], there)
