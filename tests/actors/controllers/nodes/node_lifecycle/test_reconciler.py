"""Tests of node-lifecycle-controller in a simulated cluster with healthy zones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.nodes import NOT_READY, UNREACHABLE
from kcm.protocols.objects import labels_of, name_of
from kcm.protocols.resources import NODES, PODS
from kcm.runtime.faults.vocabulary import parse_faults
from tests.actors.controllers.nodes.fleet import Fleet
from tests.actors.controllers.nodes.node_lifecycle.test_zone_timetable import GIVEN_UP, LAST_WORD, every


def condition(type: str, status: str) -> dict[str, object]:
    return {"status": {"conditions": [{"type": type, "status": status}]}}


def test_each_node_is_registered_once(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(30)
    assert sorted(fleet.events("RegisteredNode")) == sorted(
        ("Normal", name, f"Node {name} event: Registered Node {name} in Controller")
        for names in fleet.names.values()
        for name in names
    )


def test_conditions_of_a_node_become_no_schedule_taints(fleet: Fleet) -> None:
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


def test_unready_node_is_tainted_and_its_pods_are_not_marked(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(31)
    fleet.post_status("a0", "False")
    fleet.run_until(31.1)
    assert fleet.taints("a0") == {("not-ready", "NoSchedule")}
    fleet.run_until(36)
    assert fleet.taints("a0") == {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}
    assert fleet.pod_ready("pod-on-a0") == "True"
    assert fleet.events("NodeNotReady") == []


def test_taint_of_unreachable_node_is_replaced_when_it_reports_not_ready(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0", "a1")
    fleet.run_until(GIVEN_UP + 1)
    fleet.post_status("a0", "False")
    fleet.run_until(GIVEN_UP + 1.1)
    assert fleet.taints("a0") == {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}


def test_pod_bound_to_unready_node_is_marked_not_ready(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(31)
    fleet.post_status("a1", "False")
    fleet.run_until(36)
    fleet.run_pod("early", "")
    binding = {"metadata": {"name": "early"}, "target": {"kind": "Node", "name": "a1"}}
    assert fleet.cluster.request("POST", "/api/v1/namespaces/default/pods/early/binding", binding).status == 201
    fleet.run_until(37)
    assert fleet.pod_ready("early") == "False"


def test_node_without_heartbeats_is_unknown_after_the_startup_grace_period(fleet: Fleet) -> None:
    fleet.manager()
    fleet.register("late", "a", conditions=False)
    fleet.run_until(64)
    assert "conditions" not in fleet.node("late").get("status", {})
    fleet.run_until(71)
    ready = fleet.ready("late")
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusNeverUpdated")


def test_deprecated_labels_are_updated(fleet: Fleet) -> None:
    fleet.manager()
    fleet.cluster.merge(NODES, "a0", {"metadata": {"labels": {"kubernetes.io/os": "linux"}}})
    fleet.run_until(1)
    assert labels_of(fleet.node("a0"))["beta.kubernetes.io/os"] == "linux"


def test_excluded_node_is_not_counted_in_its_zone(fleet: Fleet) -> None:
    label = {"metadata": {"labels": {"node.kubernetes.io/exclude-disruption": ""}}}
    for zone in "abc":
        fleet.cluster.merge(NODES, f"{zone}0", label)
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence(*(name for names in fleet.names.values() for name in names[1:]))
    fleet.run_until(GIVEN_UP + 100)
    assert fleet.tainted() == {}
    assert fleet.ready("a0")["status"] == "True"


def test_failed_write_of_a_pod_status_is_retried(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    faults = "command-answered 60.. status=500 resource=pods object=default/pod-on-a0 most=9 process=manager"
    fleet = Fleet(make_cluster(faults=parse_faults(faults)))
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(GIVEN_UP + 30)
    assert fleet.pod_ready("pod-on-a0") == "False"


def test_node_whose_status_cannot_be_written_is_not_tainted(make_cluster: Callable[..., SimulatedCluster]) -> None:
    faults = "command-answered 60.. status=500 resource=nodes object=a0 process=manager"
    fleet = Fleet(make_cluster(faults=parse_faults(faults)))
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0", "a1")
    fleet.run_until(GIVEN_UP + 60)
    assert fleet.tainted() == {"a1": GIVEN_UP}


def test_failed_taints_do_not_accumulate_tokens(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    faults = "command-answered 90..150 status=500 resource=nodes process=manager"
    fleet = Fleet(make_cluster(faults=parse_faults(faults)))
    fleet.manager()
    fleet.run_until(89)
    for name in fleet.names["a"][:5]:
        fleet.post_status(name, "False")
    fleet.run_until(300)
    tainted = list(fleet.tainted(key=NOT_READY).values())
    assert len(tainted) == 5
    assert tainted[1] >= 150
    assert min(later - earlier for earlier, later in pairwise(tainted)) >= 9


# The watch of nodes is late by some twenty seconds: writes depend on live reads.


@pytest.fixture
def late(make_cluster: Callable[..., SimulatedCluster]) -> Fleet:
    return Fleet(make_cluster(faults=parse_faults("watch-lagging 90.. resource=nodes seconds=20 process=manager")))


def test_heartbeat_that_the_watch_does_not_show_yet_is_respected(late: Fleet) -> None:
    late.manager()
    late.run_until(LAST_WORD)
    late.silence("a0")
    late.run_until(GIVEN_UP - 1)
    late.post_status("a0", "True")
    late.run_until(GIVEN_UP + 30)
    assert late.ready("a0")["status"] == "True"
    assert late.events("NodeNotReady") == []


def test_concurrently_changed_node_is_tainted(late: Fleet) -> None:
    late.manager()
    late.run_until(LAST_WORD)
    late.silence("a0", "a1")
    late.run_until(GIVEN_UP + 5)
    late.cluster.merge(NODES, "a1", {"metadata": {"labels": {"another": "label"}}})
    late.run_until(GIVEN_UP + 11)
    assert late.tainted() == every(10, ["a0", "a1"], first=GIVEN_UP)


def test_pods_of_node_that_has_just_recovered_are_not_deleted(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    faults = parse_faults("watch-lagging 340.. resource=nodes seconds=20 process=manager")
    fleet = Fleet(make_cluster(faults=faults))
    fleet.manager("--feature-gates=TaintBasedEvictions=false")
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(352)
    fleet.post_status("a0", "True")
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
def test_rate_in_a_disrupted_zone_follows_the_flags(
    fleet: Fleet, flags: tuple[str, ...], tainted: dict[str, int]
) -> None:
    fleet.manager(*flags)
    fleet.run_until(LAST_WORD)
    fleet.silence("a")
    fleet.run_until(GIVEN_UP + 39)
    assert fleet.tainted() == tainted


def test_flag_removes_taints_in_a_disrupted_zone(fleet: Fleet) -> None:
    fleet.manager("--pause-evictions-in-disrupted-zones")
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(GIVEN_UP + 5)
    assert list(fleet.tainted()) == ["a0"]
    fleet.silence(*fleet.names["a"][:6])
    fleet.run_until(GIVEN_UP + 60)
    assert fleet.tainted() == {}
    fleet.recover(*fleet.names["a"][1:])
    fleet.run_until(GIVEN_UP + 100)
    assert list(fleet.tainted()) == ["a0"]


def test_metrics_report_the_health_of_zones(fleet: Fleet) -> None:
    manager = fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0", "a1")
    fleet.run_until(GIVEN_UP + 1)
    values = {
        family.name: {labels: getattr(metric, "value", None) for labels, metric in series}
        for family, series in manager.metrics.collect()
    }
    label = ("eu:a",)
    assert values["node_collector_zone_size"][label] == 10
    assert values["node_collector_zone_health"][label] == 80
    assert values["node_collector_unhealthy_nodes_in_zone"][label] == 2
    assert values["node_collector_evictions_total"][label] == 1
    assert values["node_collector_evictions_total"]["eu:b",] == 0
    assert values["zone_eviction_queue_depth"][label] == 1
    assert values["zone_eviction_queue_rate"][label] == 0.1
    assert values["zone_eviction_queue_let_through_total"][label] == 1


def test_node_deleted_in_the_queue_is_forgotten(fleet: Fleet) -> None:
    fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a0", "a1", "a2")
    fleet.run_until(GIVEN_UP + 1)
    fleet.names["a"].remove("a1")
    fleet.cluster.delete(NODES, "a1")
    fleet.run_until(GIVEN_UP + 11)
    assert fleet.tainted() == every(10, ["a0", "a2"], first=GIVEN_UP)


def test_pods_of_unreachable_node_are_marked_after_a_restart(fleet: Fleet) -> None:
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
