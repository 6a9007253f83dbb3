"""End states of workloads."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.workloads.outcome import replicas_end_state
from kcm.protocols.resources import NODES, PODS, REPLICASETS
from tests.support.objects import node, owned_by, pod, replica_set

GIVEN_UP = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
EVICTED = {**GIVEN_UP, "reason": "DeletionByTaintManager"}


@pytest.mark.parametrize(
    ("on", "phase", "conditions", "counted"),
    [
        ("n1", "Failed", [GIVEN_UP], {}),
        ("gone", "Failed", [GIVEN_UP], {"Failed": 1}),
        ("n1", "Running", [GIVEN_UP], {"Running": 1}),
        ("n1", "Failed", [EVICTED], {"Failed": 1}),
        ("n1", "Failed", [], {"Failed": 1}),
    ],
)
def test_pod_failed_for_a_deleted_node_does_not_count_after_the_node_returns(
    on: str, phase: str, conditions: list[Any], counted: dict[str, int]
) -> None:
    cluster = SimulatedCluster()
    cluster.create(NODES, node("n1"))
    owner = cluster.create(REPLICASETS, replica_set("set"))
    cluster.create(PODS, pod("p1", node=on, owner=owned_by(owner["metadata"]["uid"], name="set")))
    cluster.merge(PODS, "default/p1", {"status": {"phase": phase, "conditions": conditions}}, subresource="status")
    (state,) = replicas_end_state(cluster, REPLICASETS).values()
    assert state["pods"] == counted
