"""What is held against the pod garbage collector at the end of a run."""

from __future__ import annotations

import pytest

from actors.simulation import SimulatedCluster
from actors.simulation.trials.nodes.pod_garbage_collector import TRIAL
from protocols.resources import NAMESPACES, PODS
from runtime.logs.standard_log import quiet_log
from tests.support.objects import namespace, pod


@pytest.mark.parametrize("where", ["default", "limited"])
def test_nothing_is_settled_while_there_is_garbage_in_whatever_namespace(where: str) -> None:
    """A false alarm: it was collected after the run seemed settled, as it was not looked at."""
    cluster = SimulatedCluster(log=quiet_log())
    cluster.manager(controllers=())
    if where != "default":
        cluster.create(NAMESPACES, namespace(where))
    cluster.create(PODS, pod("p1", namespace=where, node="gone"))
    assert list(TRIAL.unsettled(cluster)) == ["pod p1 is on gone, which is not there"]
