"""Tests of restarts and failed writes during the outage of a zone.

The eviction rate must not be exceeded, and each node must be tainted exactly once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from kcm.actors.controllers.nodes.node_lifecycle.reconciler import NAME
from kcm.actors.controllers.nodes.node_lifecycle.zone_eviction_queue import zone_queue_name
from kcm.actors.reconciliation.actor_names import MANAGER, controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.eviction import PauseEvictions, ResumeEvictions
from kcm.protocols.resources import NODES
from kcm.runtime.faults.vocabulary import parse_faults
from tests.actors.controllers.nodes.fleet import Fleet
from tests.actors.controllers.nodes.node_lifecycle.test_zone_timetable import GIVEN_UP, LAST_WORD, every

CONTROLLER = controller_name(NAME)
QUEUE = zone_queue_name("eu:a")


def begin_outage(fleet: Fleet) -> None:
    """Run until three seconds before the third node of the failed zone a is tainted."""
    fleet.run_until(LAST_WORD)
    fleet.silence("a")
    fleet.run_until(GIVEN_UP + 17)
    assert fleet.tainted() == every(10, ["a0", "a1"], first=GIVEN_UP)


def assert_rate_was_kept(fleet: Fleet) -> None:
    """Check that the nodes of zone a are tainted at least ten seconds apart, and the first two only once."""
    tainted = fleet.tainted()
    assert sorted(tainted) == fleet.names["a"]
    assert [tainted["a0"], tainted["a1"]] == [GIVEN_UP, GIVEN_UP + 10]
    assert min(later - earlier for earlier, later in pairwise(tainted.values())) >= 10


def test_restarted_queue_keeps_its_schedule(fleet: Fleet) -> None:
    manager = fleet.manager()
    begin_outage(fleet)
    fleet.cluster.world.kill(manager.actors, QUEUE)
    fleet.run_until(GIVEN_UP + 120)
    assert manager.actors.incarnation(QUEUE) == 2
    assert fleet.tainted() == every(10, fleet.names["a"], first=GIVEN_UP)


@pytest.mark.parametrize("victim", [CONTROLLER, MANAGER, "dispatcher", "informer:v1/nodes"])
def test_rate_is_kept_when_an_actor_fails(fleet: Fleet, victim: str) -> None:
    manager = fleet.manager()
    begin_outage(fleet)
    fleet.cluster.world.kill(manager.actors, victim)
    fleet.run_until(GIVEN_UP + 200)
    assert_rate_was_kept(fleet)


def test_rate_is_kept_when_controller_and_queue_fail(fleet: Fleet) -> None:
    manager = fleet.manager()
    begin_outage(fleet)
    fleet.cluster.world.kill(manager.actors, CONTROLLER)
    fleet.cluster.world.kill(manager.actors, QUEUE)
    fleet.run_until(GIVEN_UP + 200)
    assert_rate_was_kept(fleet)


def test_rate_is_kept_when_the_process_restarts(fleet: Fleet) -> None:
    fleet.manager()
    begin_outage(fleet)
    fleet.cluster.start_again("manager")
    fleet.run_until(GIVEN_UP + 200)
    assert_rate_was_kept(fleet)


def test_rate_is_kept_when_the_queue_fails_repeatedly(fleet: Fleet) -> None:
    manager = fleet.manager()
    begin_outage(fleet)
    for second in range(20, 80, 9):
        fleet.run_until(GIVEN_UP + second)
        fleet.cluster.world.kill(manager.actors, QUEUE)
    fleet.run_until(GIVEN_UP + 200)
    assert_rate_was_kept(fleet)


def test_restarted_manager_supervises_the_existing_queues(fleet: Fleet) -> None:
    manager = fleet.manager()
    begin_outage(fleet)
    fleet.cluster.world.kill(manager.actors, MANAGER)
    fleet.run_until(GIVEN_UP + 40)
    fleet.cluster.world.kill(manager.actors, QUEUE)
    fleet.run_until(GIVEN_UP + 200)
    assert_rate_was_kept(fleet)


def test_no_node_is_tainted_after_a_restart_while_all_zones_are_down(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a", "b", "c")
    fleet.run_until(200)
    fleet.cluster.start_again("manager")
    fleet.run_until(600)
    assert fleet.tainted() == {}


CRASHES = "actor-crashed 100..200 rate=0.01"
EVERYTHING = (
    "actor-crashed 100..200 rate=0.004 most=6; actor-broken 100..200 rate=0.004 most=3; "
    "actor-hung 100..150 rate=0.001 seconds=20 most=2; message-delayed 90..220 rate=0.05 seconds=3; "
    "outcome-lost 100..200 rate=0.03; command-lost 100..200 rate=0.02; command-answered 95..200 status=503 rate=0.05; "
    "command-answered 95..200 status=409 rate=0.1 resource=nodes; "
    "watch-dropped 60..200 rate=0.02; watch-lagging 90..200 rate=0.2 seconds=7"
)


# late: seconds between the turn of a node and its taint. timeAdded is in whole seconds; a message takes up to 3 s, and
# a turn is valid for 5 s.
@pytest.mark.parametrize(
    ("plan", "seed", "late"),
    [
        pytest.param(plan, seed, late, marks=[pytest.mark.slow] * (seed > 1))
        for plan, late in ((CRASHES, 1), (EVERYTHING, 9))
        for seed in range(4)
    ],
)
def test_rate_is_kept_and_each_node_is_tainted_under_faults(
    make_cluster: Callable[..., SimulatedCluster], plan: str, seed: int, late: int
) -> None:
    fleet = Fleet(make_cluster(seed=seed, faults=parse_faults(plan)))
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a")
    fleet.run_until(GIVEN_UP + 500)
    tainted = fleet.tainted()
    assert sorted(tainted) == fleet.names["a"]
    at = list(tainted.values())
    assert all(at[j] - at[i] >= 10 * (j - i) - late for j in range(len(at)) for i in range(j))
    assert [fleet.pod_ready(f"pod-on-{zone}0") for zone in "abc"] == ["False", "True", "True"]


# Missing information is not evidence of unhealthy nodes.


def test_partitioned_manager_marks_no_node_unhealthy(make_cluster: Callable[..., SimulatedCluster]) -> None:
    fleet = Fleet(make_cluster(faults=parse_faults("partition 50..250 process=manager")))
    fleet.manager()
    fleet.run_until(500)
    assert [fleet.statuses(zone) for zone in "abc"] == [{"True"}] * 3
    assert fleet.events("NodeNotReady") == []


def test_kubelets_have_time_to_reconnect_after_an_outage_of_the_server(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    fleet = Fleet(make_cluster(faults=parse_faults("server-away 50..250")))
    fleet.manager()
    fleet.run_until(50)
    fleet.silence("a", "b", "c")
    fleet.run_until(282)
    fleet.recover("a", "b", "c")
    fleet.run_until(500)
    assert fleet.events("NodeNotReady") == []


def test_paused_manager_marks_no_node_unhealthy(make_cluster: Callable[..., SimulatedCluster]) -> None:
    fleet = Fleet(make_cluster(faults=parse_faults("process-paused 50..250 process=manager")))
    fleet.manager()
    fleet.run_until(500)
    assert fleet.events("NodeNotReady") == []


def test_all_nodes_are_marked_unhealthy_with_the_next_bookmark_of_a_quiet_watch(
    fleet: Fleet,
) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a", "b", "c")
    fleet.cluster.clock.cancel("leader")
    fleet.run_until(GIVEN_UP + 65)
    assert [fleet.statuses(zone) for zone in "abc"] == [{"Unknown"}] * 3
    assert fleet.tainted() == {}


def test_silent_watch_of_leases_marks_no_node_unhealthy(make_cluster: Callable[..., SimulatedCluster]) -> None:
    faults = parse_faults("watch-stalled 50..60 resource=leases process=manager")
    fleet = Fleet(make_cluster(faults=faults))
    fleet.manager()
    fleet.run_until(500)
    assert [fleet.statuses(zone) for zone in "abc"] == [{"True"}] * 3
    assert fleet.events("NodeNotReady") == []


def test_live_reads_distinguish_unreachable_nodes_behind_a_silent_watch(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    faults = parse_faults("watch-stalled 50..60 resource=leases process=manager")
    fleet = Fleet(make_cluster(faults=faults))
    fleet.manager("--live-heartbeat-reads")
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(140)  # its heartbeat of 52.5 s was read live at 90 s
    assert {name for zone in "abc" for name in fleet.names[zone] if fleet.ready(name)["status"] != "True"} == {"a0"}


# Start, stop and pause of queues.


def test_queue_exists_while_its_zone_has_nodes(fleet: Fleet) -> None:
    manager = fleet.manager()
    fleet.run_until(10)
    assert manager.actors.is_alive(QUEUE)
    for name in fleet.names.pop("a"):
        fleet.cluster.delete(NODES, name)
    fleet.run_until(20)
    assert not manager.actors.is_alive(QUEUE)
    assert len(fleet.events("RemovingNode")) == 10
    fleet.register("a0", "a")
    fleet.run_until(30)
    assert manager.actors.is_alive(QUEUE)


def test_queue_describes_its_state(fleet: Fleet) -> None:
    manager = fleet.manager()
    begin_outage(fleet)
    facts = fleet.cluster.describe(manager, QUEUE)
    assert facts["waiting"] == fleet.names["a"][2:]
    assert (facts["qps"], facts["let_through"], facts["paused"]) == (0.1, 2, False)
    assert facts["next_in_seconds"] == pytest.approx(3.0, abs=0.2)


@pytest.mark.parametrize("zone", ["eu:a", None])
def test_paused_queue_stays_paused_over_failures(fleet: Fleet, zone: str | None) -> None:
    manager = fleet.manager()
    begin_outage(fleet)
    manager.actors.tell(CONTROLLER, PauseEvictions(zone))
    fleet.run_until(GIVEN_UP + 60)
    fleet.cluster.world.kill(manager.actors, QUEUE)
    fleet.run_until(GIVEN_UP + 90)
    fleet.cluster.world.kill(manager.actors, CONTROLLER)
    fleet.run_until(GIVEN_UP + 120)
    assert list(fleet.tainted()) == ["a0", "a1"]
    manager.actors.tell(CONTROLLER, ResumeEvictions(zone))
    fleet.run_until(GIVEN_UP + 141)
    assert fleet.tainted() == {
        **every(10, ["a0", "a1"], first=GIVEN_UP),
        **every(10, ["a2", "a3", "a4"], first=GIVEN_UP + 120),
    }
