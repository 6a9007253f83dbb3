"""Tests of the times at which the nodes of three zones are tainted, exact to the virtual second."""

from __future__ import annotations

import pytest
from structlog.testing import LogCapture

from tests.actors.controllers.nodes.fleet import Fleet

# The heartbeat at 52.5 s is seen by the pass of 55 s; the node is marked unhealthy by the first pass after 95 s.
LAST_WORD, GIVEN_UP = 55.0, 100
ENTERING = "Controller detected that all Nodes are not-Ready. Entering master disruption mode"
EXITING = "Controller detected that some Nodes are Ready. Exiting master disruption mode"


def every(seconds: int, names: list[str], *, first: int) -> dict[str, int]:
    return {name: first + i * seconds for i, name in enumerate(names)}


def said(logs: LogCapture) -> list[str]:
    """Return the log lines about entering and leaving master disruption mode, in order."""
    return [entry["event"] for entry in logs.entries if entry["event"] in (ENTERING, EXITING)]


def test_single_unreachable_node_is_tainted_at_once(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(GIVEN_UP - 0.1)
    assert fleet.ready("a0")["status"] == "True"
    assert fleet.taints("a0") == set()
    fleet.run_until(GIVEN_UP + 0.9)
    assert fleet.tainted() == {"a0": GIVEN_UP}
    assert fleet.taints("a0") == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    ready = fleet.ready("a0")
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "Unknown",
        "NodeStatusUnknown",
        "Kubelet stopped posting node status.",
    )
    assert fleet.pod_ready("pod-on-a0") == "False"
    assert fleet.events("NodeNotReady") == [
        ("Warning", "pod-on-a0", "Node is not ready"),
        ("Normal", "a0", "Node a0 status is now: NodeNotReady"),
    ] or fleet.events("NodeNotReady") == [
        ("Normal", "a0", "Node a0 status is now: NodeNotReady"),
        ("Warning", "pod-on-a0", "Node is not ready"),
    ]


def test_recovered_node_loses_its_taints(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(GIVEN_UP + 5)
    fleet.recover("a0")
    fleet.run_until(GIVEN_UP + 12.6)
    assert (fleet.ready("a0")["status"], fleet.taints("a0")) == ("True", set())


def test_second_unreachable_node_is_tainted_ten_seconds_later(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a3", "a4")
    fleet.run_until(GIVEN_UP + 60)
    assert fleet.tainted() == every(10, ["a3", "a4"], first=GIVEN_UP)


def test_node_that_recovers_in_the_queue_is_not_tainted(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a3", "a4", "b1")
    fleet.run_until(GIVEN_UP + 1)
    fleet.recover("a4")
    fleet.run_until(GIVEN_UP + 60)
    assert fleet.tainted() == {"a3": GIVEN_UP, "b1": GIVEN_UP}


def test_no_node_of_a_small_disrupted_zone_is_tainted(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence(*fleet.names["a"][:6])
    fleet.run_until(GIVEN_UP + 600)
    assert fleet.tainted() == {}
    assert fleet.taints("a0") == {("unreachable", "NoSchedule")}


def test_large_disrupted_zone_is_tainted_at_the_secondary_rate(fleet: Fleet) -> None:
    fleet.manager("--large-cluster-size-threshold=9")
    fleet.run_until(LAST_WORD)
    fleet.silence(*fleet.names["a"][:6])
    fleet.run_until(GIVEN_UP + 250)
    # The rate was reduced before the first token was used, and the new bucket is as full as the old one.
    assert fleet.tainted() == every(100, fleet.names["a"][:3], first=GIVEN_UP)


def test_fully_disrupted_zone_is_tainted_at_the_full_rate(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a")
    fleet.run_until(GIVEN_UP + 120)
    assert fleet.tainted() == every(10, fleet.names["a"], first=GIVEN_UP)


def test_zones_are_tainted_independently(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a", "b")
    fleet.run_until(GIVEN_UP + 25)
    assert fleet.tainted("a") == every(10, fleet.names["a"][:3], first=GIVEN_UP)
    assert fleet.tainted("b") == every(10, fleet.names["b"][:3], first=GIVEN_UP)


def test_no_node_is_tainted_while_all_zones_are_down(fleet: Fleet, logs: LogCapture) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a", "b", "c")
    fleet.run_until(GIVEN_UP + 600)
    assert fleet.statuses("a") == fleet.statuses("b") == fleet.statuses("c") == {"Unknown"}
    assert fleet.tainted() == {}
    assert said(logs) == [ENTERING]
    fleet.recover("a", "b", "c")
    fleet.run_until(GIVEN_UP + 700)
    assert said(logs) == [ENTERING, EXITING]
    assert all(fleet.taints(name) == set() for names in fleet.names.values() for name in names)


def test_taints_are_removed_while_all_zones_are_down_and_added_after_recovery(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a")
    fleet.run_until(85.0)
    fleet.silence("b", "c")
    fleet.run_until(124.9)
    assert fleet.tainted() == every(10, ["a0", "a1", "a2"], first=GIVEN_UP)
    fleet.run_until(300.0)
    assert fleet.tainted() == {}
    fleet.recover("b", "c")
    fleet.run_until(305.5)  # the heartbeats at 302.5 s are seen by the pass of 305 s
    assert fleet.tainted() == {}
    fleet.run_until(336.0)
    assert fleet.tainted() == every(10, ["a0", "a1", "a2"], first=315)


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_clock_jump_of_the_manager_taints_no_node(fleet: Fleet, jump: float) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.cluster.processes["manager"].process.clock.skew = jump
    fleet.run_until(300.0)
    assert [fleet.statuses(zone) for zone in "abc"] == [{"True"}] * 3
    assert fleet.tainted() == {}


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_clock_jump_of_kubelets_taints_no_node(fleet: Fleet, jump: float) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.cluster.clock.skew = jump
    fleet.run_until(300.0)
    assert [fleet.statuses(zone) for zone in "abc"] == [{"True"}] * 3
