"""Hollow nodes that fail by annotation, in a simulated cluster with the node lifecycle controller."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kcm.actors.controllers.nodes import node_lifecycle
from kcm.actors.hollow.behaviour import FLAP, HEARTBEAT, READY, SILENT
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import name_of
from kcm.protocols.resources import NODES
from tests.actors.controllers.nodes.fleet import options_of

ZONE_A = ["hollow-node-0", "hollow-node-2", "hollow-node-4"]


@pytest.fixture
def hollow(cluster: SimulatedCluster) -> SimulatedCluster:
    """Six nodes in two zones, and their controllers."""
    cluster.hollow_nodes(nodes=6, zones=2)
    cluster.manager(controllers=[node_lifecycle.SPEC], options=options_of("--node-monitor-grace-period=40s"))
    assert cluster.run_until(lambda: len(cluster.list(NODES)) == 6, within=10.0)
    cluster.run_for(20.0)
    return cluster


def annotate(cluster: SimulatedCluster, names: list[str], annotation: str, value: str | None) -> None:
    """Set an annotation of nodes. value: None removes the annotation."""
    for name in names:
        cluster.merge(NODES, name, {"metadata": {"annotations": {annotation: value}}})


def ready(cluster: SimulatedCluster) -> dict[str, str]:
    statuses = {}
    for node in cluster.list(NODES):
        condition = find_condition(node["status"]["conditions"], "Ready")
        assert condition is not None
        statuses[name_of(node)] = condition["status"]
    return statuses


def not_ready(cluster: SimulatedCluster) -> list[str]:
    return sorted(name for name, status in ready(cluster).items() if status != "True")


def test_silent_zone_is_unknown_after_the_grace_period_until_it_recovers(hollow: SimulatedCluster) -> None:
    annotate(hollow, ZONE_A, SILENT, "true")
    hollow.run_for(30.0)
    assert not_ready(hollow) == []
    hollow.run_for(30.0)
    assert not_ready(hollow) == ZONE_A
    annotate(hollow, ZONE_A, SILENT, None)
    hollow.run_for(1.0)
    assert not_ready(hollow) == []


def test_node_with_slow_heartbeats_is_repeatedly_unknown(hollow: SimulatedCluster) -> None:
    annotate(hollow, ["hollow-node-1"], HEARTBEAT, "60")
    seen = []
    for _ in range(40):
        hollow.run_for(5.0)
        seen.append(ready(hollow)["hollow-node-1"])
    assert {"True", "Unknown"} == set(seen)
    changes = sum(1 for before, after in pairwise(seen) if before != after)
    assert changes >= 4, "the node changed more than once"


def test_flapping_node_is_unknown_for_a_part_of_the_time(hollow: SimulatedCluster) -> None:
    annotate(hollow, ["hollow-node-1"], FLAP, "120")
    seen = []
    for _ in range(96):
        hollow.run_for(5.0)
        seen.append(ready(hollow)["hollow-node-1"])
    assert 0.2 < seen.count("Unknown") / len(seen) < 0.5


def test_kubelet_reports_that_it_is_not_ready(hollow: SimulatedCluster) -> None:
    annotate(hollow, ["hollow-node-1"], READY, "false")
    hollow.run_for(11.0)
    assert ready(hollow)["hollow-node-1"] == "False"
    annotate(hollow, ["hollow-node-1"], READY, None)
    hollow.run_for(11.0)
    assert not_ready(hollow) == []
