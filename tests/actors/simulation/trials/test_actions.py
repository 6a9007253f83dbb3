"""User actions wait for the objects that they need."""

from __future__ import annotations

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.actions import create
from kcm.actors.simulation.trials.scenario import do_in_order
from kcm.actors.simulation.trials.workloads.actions import workload
from kcm.protocols.resources import NAMESPACES, REPLICASETS
from kcm.runtime.logs.standard_log import quiet_log
from tests.support.census import CONFIGMAPS


def test_a_name_that_is_taken_is_waited_for() -> None:
    """So that a run from which the deletion in between was left out does not come to its end, and is not broken off."""
    cluster = SimulatedCluster(log=quiet_log())
    first, again = (create(at, REPLICASETS, workload(REPLICASETS, "web", 1, "v0")) for at in (1.0, 2.0))
    waiting = do_in_order(cluster, (first, again))
    cluster.run_for(10)
    assert waiting == [again]
    cluster.delete(REPLICASETS, "default/web")
    cluster.run_for(10)
    assert waiting == []


def test_a_namespace_that_takes_no_new_content_is_waited_for() -> None:
    """So that leaving out what makes it, or what lets it go, breaks off no run either."""
    cluster = SimulatedCluster(log=quiet_log(), empty_namespaces=False)
    held = create(1.0, CONFIGMAPS, {"metadata": {"name": "held", "namespace": "team"}})
    waiting = do_in_order(cluster, [held])
    cluster.run_for(10)
    assert waiting == [held]
    cluster.create(NAMESPACES, {"metadata": {"name": "team", "finalizers": ["example.com/hold"]}})
    cluster.delete(NAMESPACES, "team")
    cluster.run_for(10)
    assert waiting == [held]
