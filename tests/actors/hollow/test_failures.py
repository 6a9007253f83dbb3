"""Hollow nodes that fail by annotation, in a simulated cluster with node-lifecycle."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kcm.actors.controllers.nodes import node_lifecycle
from kcm.actors.hollow import failures
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import annotations_of, name_of
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


def ready(cluster: SimulatedCluster) -> dict[str, str]:
    statuses = {}
    for node in cluster.list(NODES):
        condition = find_condition(node["status"]["conditions"], "Ready")
        assert condition is not None
        statuses[name_of(node)] = condition["status"]
    return statuses


def not_ready(cluster: SimulatedCluster) -> list[str]:
    return sorted(name for name, status in ready(cluster).items() if status != "True")


def test_a_zone_falls_silent_and_comes_back(hollow: SimulatedCluster) -> None:
    assert failures.nodes_of_zone(hollow, "zone-a") == ZONE_A
    failures.silence(hollow, *ZONE_A)
    hollow.run_for(30.0)
    assert not_ready(hollow) == []
    hollow.run_for(30.0)
    assert not_ready(hollow) == ZONE_A
    failures.recover(hollow, *ZONE_A)
    hollow.run_for(1.0)
    assert not_ready(hollow) == []
    assert not any("hollow.kcm.dev" in key for node in hollow.list(NODES) for key in annotations_of(node))


def test_a_node_that_lags_is_lost_and_found_again(hollow: SimulatedCluster) -> None:
    failures.lag(hollow, "hollow-node-1", seconds=60.0)
    seen = []
    for _ in range(40):
        hollow.run_for(5.0)
        seen.append(ready(hollow)["hollow-node-1"])
    assert {"True", "Unknown"} == set(seen)
    changes = sum(1 for before, after in pairwise(seen) if before != after)
    assert changes >= 4, "lost and found more than once"


def test_a_node_that_flaps_is_lost_for_half_of_the_time(hollow: SimulatedCluster) -> None:
    failures.flap(hollow, "hollow-node-1", seconds=120.0)
    seen = []
    for _ in range(96):
        hollow.run_for(5.0)
        seen.append(ready(hollow)["hollow-node-1"])
    assert 0.2 < seen.count("Unknown") / len(seen) < 0.5


def test_a_kubelet_that_is_not_ready_says_so_itself(hollow: SimulatedCluster) -> None:
    failures.fall_ill(hollow, "hollow-node-1")
    hollow.run_for(11.0)
    assert ready(hollow)["hollow-node-1"] == "False"
    failures.recover(hollow, "hollow-node-1")
    hollow.run_for(11.0)
    assert not_ready(hollow) == []
