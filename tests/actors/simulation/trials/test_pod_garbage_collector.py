"""Settled states of the pod garbage collector."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.nodes.pod_garbage_collector import PodGarbageCollectorOptions
from kcm.actors.hollow.behaviour import RUN_SECONDS
from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.nodes.pod_garbage_collector import TRIAL
from kcm.actors.simulation.trials.silence import silence_patch
from kcm.protocols.resources import NAMESPACES, NODES, PODS
from kcm.runtime.logs.standard_log import quiet_log
from tests.support.objects import namespace, node, pod


@pytest.mark.parametrize("where", ["default", "limited"])
def test_garbage_in_any_namespace_is_unsettled(where: str) -> None:
    """False alarm: garbage in another namespace was collected after the run had settled."""
    cluster = SimulatedCluster(log=quiet_log())
    cluster.manager(controllers=())
    if where != "default":
        cluster.create(NAMESPACES, namespace(where))
    cluster.create(PODS, pod("p1", namespace=where, node="gone"))
    assert list(TRIAL.unsettled(cluster)) == ["pod p1 is on gone, which does not exist"]


@pytest.mark.parametrize("silent", [False, True])
def test_pod_that_will_end_counts_as_ended_unless_its_node_is_silent(*, silent: bool) -> None:
    """False alarm, seed 15020054: a pod ended after its node resumed, and exceeded the threshold."""
    cluster = SimulatedCluster(log=quiet_log())
    cluster.manager(
        controllers=(), options=Options().with_group(PodGarbageCollectorOptions(terminated_pod_threshold=1))
    )
    cluster.create(NODES, node("n1"))
    if silent:
        cluster.merge(NODES, "n1", silence_patch(True))
    cluster.create(PODS, pod("old", node="n1"))
    cluster.merge(PODS, "default/old", {"status": {"phase": "Succeeded"}}, subresource="status")
    cluster.create(PODS, pod("lasting", node="n1"))
    assert list(TRIAL.unsettled(cluster)) == []
    cluster.create(PODS, pod("short", node="n1"))
    cluster.merge(PODS, "default/short", {"metadata": {"annotations": {RUN_SECONDS: "1"}}})
    assert list(TRIAL.unsettled(cluster)) == (
        [] if silent else ["1 pods are terminated and 1 will be, which exceeds the threshold"]
    )
