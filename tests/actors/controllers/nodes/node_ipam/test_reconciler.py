"""Nodes get ranges: each its own, whatever happens."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from structlog.testing import LogCapture

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.nodes.node_ipam import SPEC
from kcm.actors.controllers.nodes.node_ipam.options import NodeIpamOptions
from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object
from kcm.protocols.resources import NODES
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.actors.controllers.nodes.objects import messages, writes
from tests.support.objects import node

NAME = "controller:node-ipam-controller"


def options(cluster_cidr: str = "10.0.0.0/16", *, mask: int = 0, service: str = "", allocate: bool = True) -> Options:
    chosen = Options()
    return replace(
        chosen,
        cloud=replace(chosen.cloud, allocate_node_cidrs=allocate, cluster_cidr=cluster_cidr),
    ).with_group(NodeIpamOptions(mask_size=mask, service_cluster_ip_range=service))


def start(cluster: SimulatedCluster, chosen: Options | None = None) -> ControllerSystem:
    return cluster.manager(controllers=[SPEC], options=chosen or options())


def ranges(cluster: SimulatedCluster) -> dict[str, list[str]]:
    return {one["metadata"]["name"]: one["spec"].get("podCIDRs", []) for one in cluster.list(NODES)}


def holder(name: str, *networks: str, **meta: str) -> Object:
    found = node(name, spec={"podCIDR": networks[0], "podCIDRs": list(networks)})
    found["metadata"].update(meta)
    return found


def test_each_node_gets_a_range_in_one_patch(cluster: SimulatedCluster) -> None:
    start(cluster)
    cluster.create(NODES, node("n1"))
    cluster.run_for(3.0)
    cluster.create(NODES, node("n2"))
    cluster.run_for(3.0)
    assert ranges(cluster) == {"n1": ["10.0.0.0/24"], "n2": ["10.0.1.0/24"]}
    sent = [(one.what, one.body) for one in writes(cluster, client="node-controller")]
    assert sent == [
        ("PATCH nodes/n1", {"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}}),
        ("PATCH nodes/n2", {"spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"]}}),
    ]


@pytest.mark.parametrize(
    ("cluster_cidr", "expected"),
    [
        ("10.0.0.0/16,fd00::/48", ["10.0.0.0/24", "fd00::/64"]),
        ("fd00::/48,10.0.0.0/16", ["fd00::/64", "10.0.0.0/24"]),
    ],
)
def test_in_dual_stack_the_order_is_the_flags(
    cluster: SimulatedCluster, cluster_cidr: str, expected: list[str]
) -> None:
    start(cluster, options(cluster_cidr))
    cluster.create(NODES, node("n1"))
    cluster.run_for(3.0)
    found = cluster.get(NODES, "n1")
    assert found is not None
    assert found["spec"]["podCIDRs"] == expected
    assert found["spec"]["podCIDR"] == expected[0]


def test_without_the_flag_it_does_not_run(cluster: SimulatedCluster) -> None:
    cluster.create(NODES, node("n1"))
    manager = start(cluster, options(allocate=False))
    cluster.run_for(10.0)
    assert manager.enabled == ()
    assert ranges(cluster) == {"n1": []}


def test_what_nodes_hold_when_it_starts_is_given_to_nobody_else(cluster: SimulatedCluster) -> None:
    cluster.create(NODES, node("a"))
    cluster.create(NODES, holder("b", "10.10.0.0/24"))
    cluster.create(NODES, holder("c", "10.10.2.0/24"))
    cluster.create(NODES, node("d"))
    start(cluster, options("10.10.0.0/22", service="10.10.3.128/25"))
    cluster.run_for(10.0)
    found = ranges(cluster)
    assert sorted(itertools.chain(*found.values())) == ["10.10.0.0/24", "10.10.1.0/24", "10.10.2.0/24"]
    assert sorted(map(len, found.values())) == [0, 1, 1, 1], "services have the last"


def test_an_exhausted_range_is_told_and_the_node_served_once_one_is_free(cluster: SimulatedCluster) -> None:
    for number in range(4):
        cluster.create(NODES, holder(f"old{number}", f"10.0.0.{4 * number}/30"))
    start(cluster, options("10.0.0.0/28", mask=30))
    cluster.create(NODES, node("new"))
    cluster.run_for(20.0)
    assert ranges(cluster)["new"] == []
    assert writes(cluster, client="node-controller") == []
    expected = ("Normal", "CIDRNotAvailable", "Node new status is now: CIDRNotAvailable")
    assert set(messages(cluster, about="new")) == {expected}
    cluster.delete(NODES, "old1")
    cluster.run_for(60.0)
    assert ranges(cluster)["new"] == ["10.0.0.4/30"]


def test_a_range_is_released_when_its_node_is_gone_and_not_before(cluster: SimulatedCluster) -> None:
    start(cluster, options("10.0.0.0/30", mask=30))
    cluster.create(NODES, {**node("a"), "metadata": {"name": "a", "finalizers": ["test/hold"]}})
    cluster.run_for(3.0)
    cluster.delete(NODES, "a")
    cluster.create(NODES, node("b"))
    cluster.run_for(30.0)
    assert ranges(cluster) == {"a": ["10.0.0.0/30"], "b": []}
    cluster.merge(NODES, "a", {"metadata": {"finalizers": None}})
    cluster.run_for(60.0)
    assert ranges(cluster) == {"b": ["10.0.0.0/30"]}


def test_a_node_that_is_going_gets_no_range(cluster: SimulatedCluster) -> None:
    cluster.create(NODES, {"metadata": {"name": "a", "finalizers": ["test/hold"]}})
    cluster.delete(NODES, "a")
    start(cluster)
    cluster.run_for(10.0)
    assert ranges(cluster) == {"a": []}


def test_a_node_that_takes_the_name_of_another_gets_a_range_of_its_own(cluster: SimulatedCluster) -> None:
    manager = start(cluster, options("10.0.0.0/29", mask=30))
    cluster.create(NODES, node("a"))
    cluster.run_for(3.0)
    manager.pause("node-ipam-controller")
    cluster.run_for(0.1)
    cluster.delete(NODES, "a")
    cluster.create(NODES, node("a"))
    cluster.create(NODES, node("b"))
    cluster.run_for(0.1)
    manager.resume("node-ipam-controller")
    cluster.run_for(10.0)
    assert sorted(itertools.chain(*ranges(cluster).values())) == ["10.0.0.0/30", "10.0.0.4/30"]


@pytest.mark.parametrize("networks", [["192.168.0.0/24"], ["10.0.1.0/24", "fd00::/64"]])
def test_a_node_that_holds_something_strange_keeps_nobody_else_waiting(
    cluster: SimulatedCluster, logs: LogCapture, networks: Sequence[str]
) -> None:
    cluster.create(NODES, holder("odd", *networks))
    manager = start(cluster)
    cluster.create(NODES, node("n1"))
    cluster.run_for(10.0)
    assert ranges(cluster) == {"odd": list(networks), "n1": ["10.0.0.0/24"]}
    assert cluster.describe(manager, NAME)["failed"] > 0, "it is looked at again and again, as upstream"
    assert [entry["node"] for entry in logs.entries if entry["event"] == "invalid node CIDR"] == ["odd"]


def test_overlapping_node_cidrs_are_logged(cluster: SimulatedCluster, logs: LogCapture) -> None:
    cluster.create(NODES, holder("a", "10.0.7.0/24"))
    cluster.create(NODES, holder("b", "10.0.7.0/24"))
    start(cluster)
    cluster.run_for(10.0)
    warnings = [entry for entry in logs.entries if entry["event"] == "node CIDR overlaps another node's"]
    assert [(entry["node"], entry["cidr"]) for entry in warnings] == [("b", "10.0.7.0/24")]


def test_invalid_service_cidrs_are_logged(cluster: SimulatedCluster, logs: LogCapture) -> None:
    start(cluster, options(service="nonsense"))
    cluster.create(NODES, node("n1"))
    cluster.run_for(5.0)
    warnings = [entry for entry in logs.entries if entry["event"].startswith("invalid service CIDR")]
    assert [entry["cidr"] for entry in warnings] == ["nonsense"]


# Trouble.


def test_a_node_that_goes_while_it_is_served_is_no_failure(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cluster = make_cluster(latency=0.1)
    manager = start(cluster, options("10.0.0.0/30", mask=30))
    cluster.run_for(5.0)
    cluster.create(NODES, node("a"))
    assert cluster.run_until(lambda: bool(writes(cluster, client="node-controller")))
    cluster.delete(NODES, "a")
    cluster.run_for(30.0)
    assert messages(cluster, about="a") == []
    assert cluster.describe(manager, NAME)["failed"] == 0
    cluster.create(NODES, node("b"))
    cluster.run_for(5.0)
    assert ranges(cluster) == {"b": ["10.0.0.0/30"]}


def test_a_patch_that_fails_thrice_is_told_and_tried_again_with_the_same_range(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    broken = Fault(kind=FaultKind.COMMAND_ANSWERED, until=20.0, status=500, resource="nodes", object="n1")
    cluster = make_cluster(faults=[broken])
    start(cluster)
    cluster.run_for(3.0)
    cluster.create(NODES, node("n1"))
    cluster.create(NODES, node("n2"))
    cluster.run_for(10.0)
    assert ranges(cluster) == {"n1": [], "n2": ["10.0.1.0/24"]}
    tried = [one.what for one in writes(cluster, client="node-controller")].count("PATCH nodes/n1")
    told = messages(cluster, about="n1")
    assert tried == 3 * len(told) or tried == 3 * (len(told) + 1), "the last event may be on its way"
    assert set(told) == {("Normal", "CIDRAssignmentFailed", "Node n1 status is now: CIDRAssignmentFailed")}
    cluster.run_for(60.0)
    assert ranges(cluster) == {"n1": ["10.0.0.0/24"], "n2": ["10.0.1.0/24"]}


def test_a_patch_without_an_answer_is_not_given_to_another(make_cluster: Callable[..., SimulatedCluster]) -> None:
    lost = Fault(kind=FaultKind.OUTCOME_LOST, resource="nodes", object="n1", most=3)
    cluster = make_cluster(faults=[lost])
    start(cluster)
    cluster.run_for(3.0)
    cluster.create(NODES, node("n1"))
    cluster.create(NODES, node("n2"))
    cluster.run_for(200.0)
    assert ranges(cluster) == {"n1": ["10.0.0.0/24"], "n2": ["10.0.1.0/24"]}


def test_where_nodes_cannot_be_listed_that_is_not_tried_again_for_each_of_them(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    """Each node had retries of its own, and each was a list of all nodes."""
    broken = Fault(kind=FaultKind.COMMAND_ANSWERED, start=4.0, until=35.0, status=500, resource="nodes")
    cluster = make_cluster(faults=[broken])
    manager = start(cluster)
    for number in range(20):
        cluster.create(NODES, node(f"a{number}"))
    cluster.run_for(5.0)
    cluster.world.kill(manager.actors, NAME)
    cluster.create(NODES, node("b"))
    cluster.run_for(25.0)
    cluster.delete(NODES, "a7")
    lists = [
        at
        for at, who, request in cluster.transport.requests
        if (who, request.method, request.path) == ("node-controller", "GET", "/api/v1/nodes") and at > 5.0
    ]
    assert 2 <= len(lists) <= 4
    cluster.run_for(20.0)
    held = ranges(cluster)
    assert len(set(itertools.chain(*held.values()))) == len(held) == 20


@pytest.mark.parametrize("moment", [0.0, 0.012, 0.03, 0.05, 0.08, 0.15, 0.3, 1.0])
@pytest.mark.parametrize("victim", [NAME, "dispatcher", "informer:v1/nodes"])
def test_no_two_nodes_share_a_range_over_a_crash(
    make_cluster: Callable[..., SimulatedCluster], victim: str, moment: float
) -> None:
    cluster = make_cluster(latency=0.02)
    manager = start(cluster, options("10.0.0.0/24", mask=28))
    cluster.run_for(3.0)
    for number in range(6):
        cluster.create(NODES, node(f"a{number}"))
    cluster.run_for(moment)
    cluster.world.kill(manager.actors, victim)
    for number in range(6):
        cluster.create(NODES, node(f"b{number}"))
    cluster.run_for(60.0)
    found = list(itertools.chain(*ranges(cluster).values()))
    assert len(found) == 12
    assert len(set(found)) == 12
    patched = [one.what for one in writes(cluster, client="node-controller")]
    assert len(patched) <= 12 + 6, "nothing is patched anew that is known to be done"


def test_what_a_predecessor_has_given_counts_although_the_table_is_late(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    stale = Fault(kind=FaultKind.LIST_STALE, start=10.0, until=60.0, seconds=5.0, resource="nodes")
    cluster = make_cluster(faults=[stale])
    cluster.run_for(2.0)
    cluster.create(NODES, node("n1"))
    cluster.run_for(8.0)
    cluster.create(NODES, holder("n2", "10.0.0.0/24"))  # by a manager that has just ended
    start(cluster)
    cluster.run_for(3.0)
    assert ranges(cluster) == {"n1": ["10.0.1.0/24"], "n2": ["10.0.0.0/24"]}


@pytest.mark.parametrize("down", [0.1, 1.0, 3.0])
def test_the_range_of_a_node_that_went_unnoticed_is_given_again(
    make_cluster: Callable[..., SimulatedCluster], down: float
) -> None:
    """The informer is another one long before we know of it, and lists without the node that is deleted."""
    late = Fault(kind=FaultKind.MESSAGE_DELAYED, start=8.0, until=14.0, seconds=5.0, actor=NAME)
    cluster = make_cluster(faults=[late])
    manager = start(cluster, options("10.0.0.0/28", mask=30))
    cluster.run_for(3.0)
    for number in range(4):
        cluster.create(NODES, node(f"a{number}"))
    cluster.run_for(5.5)
    cluster.world.kill(manager.actors, "informer:v1/nodes")
    cluster.run_for(down)
    cluster.delete(NODES, "a1")
    cluster.run_for(15.0)
    cluster.create(NODES, node("b"))
    cluster.run_for(5.0)
    held = ranges(cluster)
    assert len(set(itertools.chain(*held.values()))) == len(held) == 4


def test_five_hundred_nodes_fit_exactly(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cluster = make_cluster()
    chosen = options("10.0.0.0/17", mask=26)
    start(cluster, replace(chosen, client_limits=replace(chosen.client_limits, qps=-1.0)))
    for number in range(512):
        cluster.create(NODES, node(f"n{number}"))
    cluster.run_for(30.0)
    assert len(set(itertools.chain(*ranges(cluster).values()))) == 512
