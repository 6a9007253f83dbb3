"""node-lifecycle in a simulated cluster: what it writes, when zones are well."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.nodes import NOT_READY, UNREACHABLE, zone_label
from kcm.protocols.objects import labels_of, name_of
from kcm.protocols.resources import NODES, PODS
from kcm.runtime.faults.vocabulary import parse_faults
from tests.actors.controllers.nodes.fleet import Fleet
from tests.actors.controllers.nodes.node_lifecycle.test_zone_timetable import GIVEN_UP, LAST_WORD, every


def condition(type: str, status: str) -> dict[str, object]:
    return {"status": {"conditions": [{"type": type, "status": status}]}}


def test_every_node_is_registered_once(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(30)
    assert sorted(fleet.events("RegisteredNode")) == sorted(
        ("Normal", name, f"Node {name} event: Registered Node {name} in Controller")
        for names in fleet.names.values()
        for name in names
    )


def test_what_a_node_says_of_itself_becomes_taints_at_once_and_goes_with_it(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(31)
    fleet.cluster.merge(NODES, "a0", condition("MemoryPressure", "True"), subresource="status")
    fleet.cluster.merge(NODES, "a1", {"spec": {"unschedulable": True}})
    fleet.run_until(31.1)
    assert fleet.taints("a0") == {("memory-pressure", "NoSchedule")}
    assert fleet.taints("a1") == {("unschedulable", "NoSchedule")}
    fleet.cluster.merge(NODES, "a0", condition("MemoryPressure", "False"), subresource="status")
    fleet.cluster.merge(NODES, "a1", {"spec": {"unschedulable": None}})
    fleet.run_until(31.2)
    assert fleet.taints("a0") == fleet.taints("a1") == set()


def test_a_node_that_says_it_is_not_ready_is_tainted_in_its_turn_and_its_pods_stay_as_they_are(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(31)
    fleet.say("a0", "False")
    fleet.run_until(31.1)
    assert fleet.taints("a0") == {("not-ready", "NoSchedule")}
    fleet.run_until(36)
    assert fleet.taints("a0") == {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}
    assert fleet.pod_ready("pod-on-a0") == "True"
    assert fleet.events("NodeNotReady") == []


def test_a_tainted_node_that_changes_what_it_says_has_its_taint_swapped_at_once(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0", "a1")
    fleet.run_until(GIVEN_UP + 1)
    fleet.say("a0", "False")
    fleet.run_until(GIVEN_UP + 1.1)
    assert fleet.taints("a0") == {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}


def test_a_pod_bound_to_a_node_that_is_not_ready_is_not_ready(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(31)
    fleet.say("a1", "False")
    fleet.run_until(36)
    fleet.run_pod("early", "")
    binding = {"metadata": {"name": "early"}, "target": {"kind": "Node", "name": "a1"}}
    assert fleet.cluster.request("POST", "/api/v1/namespaces/default/pods/early/binding", binding).status == 201
    fleet.run_until(37)
    assert fleet.pod_ready("early") == "False"


def test_a_node_nobody_speaks_for_is_given_up_after_its_startup_grace_period(fleet: Fleet) -> None:
    fleet.manager()
    fleet.register("late", "a", conditions=False)
    fleet.run_until(64)
    assert "conditions" not in fleet.node("late").get("status", {})
    fleet.run_until(71)
    ready = fleet.ready("late")
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusNeverUpdated")


def test_labels_are_kept_in_line(fleet: Fleet) -> None:
    fleet.manager()
    fleet.cluster.merge(NODES, "a0", {"metadata": {"labels": {"kubernetes.io/os": "linux"}}})
    fleet.run_until(1)
    assert labels_of(fleet.node("a0"))["beta.kubernetes.io/os"] == "linux"


def test_a_node_that_is_excluded_does_not_keep_its_zone_from_being_down(fleet: Fleet) -> None:
    label = {"metadata": {"labels": {"node.kubernetes.io/exclude-disruption": ""}}}
    for zone in "abc":
        fleet.cluster.merge(NODES, f"{zone}0", label)
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence(*(name for names in fleet.names.values() for name in names[1:]))
    fleet.run_until(GIVEN_UP + 100)
    assert fleet.tainted() == {}
    assert fleet.ready("a0")["status"] == "True"


def test_a_pod_whose_status_could_not_be_written_is_tried_again(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    faults = "command-answered 60.. status=500 resource=pods object=default/pod-on-a0 most=9 process=manager"
    fleet = Fleet(make_cluster(faults=parse_faults(faults)))
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(GIVEN_UP + 30)
    assert fleet.pod_ready("pod-on-a0") == "False"


def test_a_node_whose_status_cannot_be_written_is_not_evicted(make_cluster: Callable[..., SimulatedCluster]) -> None:
    faults = "command-answered 60.. status=500 resource=nodes object=a0 process=manager"
    fleet = Fleet(make_cluster(faults=parse_faults(faults)))
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0", "a1")
    fleet.run_until(GIVEN_UP + 60)
    assert fleet.tainted() == {"a1": GIVEN_UP}


def test_turns_are_not_saved_up_while_taints_cannot_be_written(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    faults = "command-answered 90..150 status=500 resource=nodes process=manager"
    fleet = Fleet(make_cluster(faults=parse_faults(faults)))
    fleet.manager()
    fleet.run_until(89)
    for name in fleet.names["a"][:5]:
        fleet.say(name, "False")
    fleet.run_until(300)
    tainted = list(fleet.tainted(key=NOT_READY).values())
    assert len(tainted) == 5
    assert tainted[1] >= 150
    assert min(later - earlier for earlier, later in pairwise(tainted)) >= 9


# While the watch of nodes is late by some twenty seconds, what is written rests on what is read live.


@pytest.fixture
def late(make_cluster: Callable[..., SimulatedCluster]) -> Fleet:
    return Fleet(make_cluster(faults=parse_faults("watch-lagging 90.. resource=nodes seconds=20 process=manager")))


def test_a_node_that_speaks_just_before_it_is_given_up_is_not(late: Fleet) -> None:
    late.manager()
    late.run_until(LAST_WORD)
    late.silence("a0")
    late.run_until(GIVEN_UP - 1)
    late.say("a0", "True")
    late.run_until(GIVEN_UP + 30)
    assert late.ready("a0")["status"] == "True"
    assert late.events("NodeNotReady") == []


def test_a_node_that_others_change_is_tainted_in_its_turn(late: Fleet) -> None:
    late.manager()
    late.run_until(LAST_WORD)
    late.silence("a0", "a1")
    late.run_until(GIVEN_UP + 5)
    late.cluster.merge(NODES, "a1", {"metadata": {"labels": {"another": "label"}}})
    late.run_until(GIVEN_UP + 11)
    assert late.tainted() == every(10, ["a0", "a1"], first=GIVEN_UP)


def test_pods_are_not_deleted_from_a_node_that_has_just_come_back(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    faults = parse_faults("watch-lagging 340.. resource=nodes seconds=20 process=manager")
    fleet = Fleet(make_cluster(faults=faults))
    fleet.manager("--feature-gates=TaintBasedEvictions=false")
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(352)
    fleet.say("a0", "True")
    fleet.run_until(450)
    (pod,) = [pod for pod in fleet.cluster.list(PODS) if name_of(pod) == "pod-on-a0"]
    assert "deletionTimestamp" not in pod["metadata"]


@pytest.mark.parametrize(
    ("flags", "tainted"),
    [
        ((), every(10, ["a0", "a1", "a2", "a3"], first=GIVEN_UP)),
        (("--node-eviction-rate=0.05",), every(20, ["a0", "a1"], first=GIVEN_UP)),
        (("--full-disruption-eviction-rate=0.05",), every(20, ["a0", "a1"], first=GIVEN_UP)),
        (("--full-disruption-eviction-rate=0",), {}),
        (("--pause-evictions-in-disrupted-zones",), {}),
    ],
)
def test_the_rate_in_a_zone_that_is_down(fleet: Fleet, flags: tuple[str, ...], tainted: dict[str, int]) -> None:
    fleet.manager(*flags)
    fleet.run_until(LAST_WORD)
    fleet.silence("a")
    fleet.run_until(GIVEN_UP + 39)
    assert fleet.tainted() == tainted


def test_taints_are_taken_back_when_the_zone_is_disrupted_if_so_wished(fleet: Fleet) -> None:
    fleet.manager("--pause-evictions-in-disrupted-zones")
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(GIVEN_UP + 5)
    assert list(fleet.tainted()) == ["a0"]
    fleet.silence(*fleet.names["a"][:6])
    fleet.run_until(GIVEN_UP + 60)
    assert fleet.tainted() == {}
    fleet.speak(*fleet.names["a"][1:])
    fleet.run_until(GIVEN_UP + 100)
    assert list(fleet.tainted()) == ["a0"]


def test_metrics_say_how_zones_are(fleet: Fleet) -> None:
    manager = fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0", "a1")
    fleet.run_until(GIVEN_UP + 1)
    values = {
        family.name: {labels: getattr(one, "value", None) for labels, one in series}
        for family, series in manager.metrics.collect()
    }
    label = (zone_label("eu:a"),)
    assert values["node_collector_zone_size"][label] == 10
    assert values["node_collector_zone_health"][label] == 80
    assert values["node_collector_unhealthy_nodes_in_zone"][label] == 2
    assert values["node_collector_evictions_total"][label] == 1
    assert values["node_collector_evictions_total"][zone_label("eu:b"),] == 0
    assert values["zone_eviction_queue_depth"][label] == 1
    assert values["zone_eviction_queue_rate"][label] == 0.1
    assert values["zone_eviction_queue_let_through_total"][label] == 1


def test_a_node_that_is_deleted_while_it_waits_is_forgotten(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0", "a1", "a2")
    fleet.run_until(GIVEN_UP + 1)
    fleet.names["a"].remove("a1")
    fleet.cluster.delete(NODES, "a1")
    fleet.run_until(GIVEN_UP + 11)
    assert fleet.tainted() == every(10, ["a0", "a2"], first=GIVEN_UP)


def test_pods_of_a_node_are_marked_after_a_restart_too(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(GIVEN_UP + 1)
    fleet.cluster.crash("manager")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    fleet.cluster.merge(PODS, "default/pod-on-a0", ready, subresource="status")
    fleet.cluster.start_again("manager")
    fleet.run_until(GIVEN_UP + 10)
    assert fleet.pod_ready("pod-on-a0") == "False"
    assert UNREACHABLE in {taint["key"] for taint in fleet.node("a0")["spec"]["taints"]}
