"""Tests of node-ipam-controller in a simulated cluster: each node gets unique CIDRs, also under faults."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace
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
    return {node["metadata"]["name"]: node["spec"].get("podCIDRs", []) for node in cluster.list(NODES)}


def node_with_cidrs(name: str, *networks: str, **meta: str) -> Object:
    found = node(name, spec={"podCIDR": networks[0], "podCIDRs": list(networks)})
    found["metadata"].update(meta)
    return found


def test_each_node_gets_a_cidr_in_one_patch(cluster: SimulatedCluster) -> None:
    start(cluster)
    cluster.create(NODES, node("n1"))
    cluster.run_for(3.0)
    cluster.create(NODES, node("n2"))
    cluster.run_for(3.0)
    assert ranges(cluster) == {"n1": ["10.0.0.0/24"], "n2": ["10.0.1.0/24"]}
    sent = [(write.what, write.body) for write in writes(cluster, client="node-controller")]
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
def test_order_of_dual_stack_cidrs_is_that_of_the_flag(
    cluster: SimulatedCluster, cluster_cidr: str, expected: list[str]
) -> None:
    start(cluster, options(cluster_cidr))
    cluster.create(NODES, node("n1"))
    cluster.run_for(3.0)
    found = cluster.get(NODES, "n1")
    assert found is not None
    assert found["spec"]["podCIDRs"] == expected
    assert found["spec"]["podCIDR"] == expected[0]


def test_controller_is_disabled_without_its_flag(cluster: SimulatedCluster) -> None:
    cluster.create(NODES, node("n1"))
    manager = start(cluster, options(allocate=False))
    cluster.run_for(10.0)
    assert manager.enabled == ()
    assert ranges(cluster) == {"n1": []}


def test_cidrs_of_existing_nodes_are_not_allocated_again(cluster: SimulatedCluster) -> None:
    cluster.create(NODES, node("a"))
    cluster.create(NODES, node_with_cidrs("b", "10.10.0.0/24"))
    cluster.create(NODES, node_with_cidrs("c", "10.10.2.0/24"))
    cluster.create(NODES, node("d"))
    start(cluster, options("10.10.0.0/22", service="10.10.3.128/25"))
    cluster.run_for(10.0)
    found = ranges(cluster)
    assert sorted(itertools.chain(*found.values())) == ["10.10.0.0/24", "10.10.1.0/24", "10.10.2.0/24"]
    assert sorted(map(len, found.values())) == [0, 1, 1, 1], "the last one is reserved for services"


def test_exhausted_range_records_an_event_and_allocates_after_a_release(cluster: SimulatedCluster) -> None:
    for number in range(4):
        cluster.create(NODES, node_with_cidrs(f"old{number}", f"10.0.0.{4 * number}/30"))
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


def test_cidr_is_released_when_its_node_is_deleted(cluster: SimulatedCluster) -> None:
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


def test_terminating_node_gets_no_cidr(cluster: SimulatedCluster) -> None:
    cluster.create(NODES, {"metadata": {"name": "a", "finalizers": ["test/hold"]}})
    cluster.delete(NODES, "a")
    start(cluster)
    cluster.run_for(10.0)
    assert ranges(cluster) == {"a": []}


def test_new_node_of_the_same_name_gets_its_own_cidr(cluster: SimulatedCluster) -> None:
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
def test_node_with_foreign_cidr_does_not_block_others(
    cluster: SimulatedCluster, logs: LogCapture, networks: Sequence[str]
) -> None:
    cluster.create(NODES, node_with_cidrs("odd", *networks))
    manager = start(cluster)
    cluster.create(NODES, node("n1"))
    cluster.run_for(10.0)
    assert ranges(cluster) == {"odd": list(networks), "n1": ["10.0.0.0/24"]}
    assert cluster.describe(manager, NAME)["failed"] > 0, "the sync is retried, as upstream"
    assert [entry["node"] for entry in logs.entries if entry["event"] == "invalid node CIDR"] == ["odd"]


def test_overlapping_node_cidrs_are_logged(cluster: SimulatedCluster, logs: LogCapture) -> None:
    cluster.create(NODES, node_with_cidrs("a", "10.0.7.0/24"))
    cluster.create(NODES, node_with_cidrs("b", "10.0.7.0/24"))
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


# Faults.


def test_node_deleted_during_allocation_is_ignored(make_cluster: Callable[..., SimulatedCluster]) -> None:
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


def test_patch_that_fails_three_times_records_an_event_and_is_retried_with_the_same_cidr(
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
    tried = [write.what for write in writes(cluster, client="node-controller")].count("PATCH nodes/n1")
    events = messages(cluster, about="n1")
    assert tried == 3 * len(events) or tried == 3 * (len(events) + 1), "the last event may be pending"
    assert set(events) == {("Normal", "CIDRAssignmentFailed", "Node n1 status is now: CIDRAssignmentFailed")}
    cluster.run_for(60.0)
    assert ranges(cluster) == {"n1": ["10.0.0.0/24"], "n2": ["10.0.1.0/24"]}


def test_cidr_of_patch_with_unknown_outcome_is_not_reused(make_cluster: Callable[..., SimulatedCluster]) -> None:
    lost = Fault(kind=FaultKind.OUTCOME_LOST, resource="nodes", object="n1", most=3)
    cluster = make_cluster(faults=[lost])
    start(cluster)
    cluster.run_for(3.0)
    cluster.create(NODES, node("n1"))
    cluster.create(NODES, node("n2"))
    cluster.run_for(200.0)
    assert ranges(cluster) == {"n1": ["10.0.0.0/24"], "n2": ["10.0.1.0/24"]}


def test_failed_list_of_nodes_is_not_retried_for_each_node(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    """Regression test: every node was retried separately, and each retry listed all nodes."""
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
def test_cidrs_are_unique_after_a_crash(
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
    patched = [write.what for write in writes(cluster, client="node-controller")]
    assert len(patched) <= 12 + 6, "successful patches are not repeated"


def test_cidr_from_a_predecessor_counts_although_the_table_is_stale(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    stale = Fault(kind=FaultKind.LIST_STALE, start=10.0, until=60.0, seconds=5.0, resource="nodes")
    cluster = make_cluster(faults=[stale])
    cluster.run_for(2.0)
    cluster.create(NODES, node("n1"))
    cluster.run_for(8.0)
    cluster.create(NODES, node_with_cidrs("n2", "10.0.0.0/24"))  # written by a previous manager
    start(cluster)
    cluster.run_for(3.0)
    assert ranges(cluster) == {"n1": ["10.0.1.0/24"], "n2": ["10.0.0.0/24"]}


@pytest.mark.parametrize("down", [0.1, 1.0, 3.0])
def test_cidr_of_node_deleted_unnoticed_is_allocated_again(
    make_cluster: Callable[..., SimulatedCluster], down: float
) -> None:
    """Check a node that is deleted while the informer restarts, so that no watch event reports its deletion."""
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


def test_range_for_five_hundred_nodes_is_used_completely(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cluster = make_cluster()
    chosen = options("10.0.0.0/17", mask=26)
    start(cluster, replace(chosen, client_limits=replace(chosen.client_limits, qps=-1.0)))
    for number in range(512):
        cluster.create(NODES, node(f"n{number}"))
    cluster.run_for(30.0)
    assert len(set(itertools.chain(*ranges(cluster).values()))) == 512
