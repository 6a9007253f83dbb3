from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.hollow.scheduler import node_fit as fitting
from kcm.actors.hollow.scheduler.demand import Demand, Port, Taint, demand_of
from kcm.actors.hollow.scheduler.node_fit import (
    NO_PORTS,
    NOT_NAMED,
    TOO_MANY_PODS,
    UNMATCHED,
    UNSCHEDULABLE,
    UNTOLERATED,
    NodeUsage,
    NodeView,
    best,
    failure_message,
    interleaved,
    misfits,
    node_view,
    nodes_to_find,
)
from kcm.protocols.objects import Object
from tests.actors.hollow.objects import hollow_node, unassigned

GI = 2**30
ROOM = {"cpu": 4000, "memory": 8 * GI, "pods": 10}


def view(name: str = "n1", *, zone: str = "a", **changes: Any) -> NodeView:
    fields = {"labels": {}, "taints": (), "unschedulable": False, "allocatable": ROOM, **changes}
    return NodeView(name=name, zone=zone, **fields)


def asks(**spec: Any) -> Demand:
    return demand_of(unassigned(**spec), controller=None)


def used(*demands: Demand) -> NodeUsage:
    usage = NodeUsage()
    for demand in demands:
        usage.add(demand)
    return usage


DEDICATED = Taint("dedicated", "db", "NoSchedule")
CORDONED = {"unschedulable": True, "taints": (fitting.UNSCHEDULABLE_TAINT,)}
TOLERATES_ALL = [{"operator": "Exists"}]
ON_8080 = Demand(ports=(Port("TCP", "", 8080),))
ON_8080_LOCAL = Demand(ports=(Port("TCP", "127.0.0.1", 8080),))
# the pod, the node, existing pods, the reason against
FITS = {
    "an empty node": (asks(), view(), used(), []),
    "just enough": (asks(requests={"cpu": "4", "memory": "8Gi"}), view(), used(), []),
    "too little cpu": (asks(requests={"cpu": "4001m"}), view(), used(), ["Insufficient cpu"]),
    "too little left": (
        asks(requests={"cpu": "1", "memory": "1Gi"}),
        view(),
        used(asks(requests={"cpu": "3500m", "memory": "7.5Gi"})),
        ["Insufficient cpu", "Insufficient memory"],
    ),
    "a resource that the node does not have": (
        asks(requests={"example.com/gpu": "1"}),
        view(),
        used(),
        ["Insufficient example.com/gpu"],
    ),
    "who asks for nothing fits on a full node": (asks(), view(), used(asks(requests={"cpu": "4"})), []),
    "as many pods as it takes": (asks(), view(), used(*[asks()] * 9), []),
    "one pod more": (asks(), view(), used(*[asks()] * 10), [TOO_MANY_PODS]),
    "a node that says nothing about pods takes none": (asks(), view(allocatable={}), used(), [TOO_MANY_PODS]),
    "a taint": (asks(), view(taints=(DEDICATED,)), used(), [UNTOLERATED]),
    "a taint that is tolerated": (asks(tolerations=TOLERATES_ALL), view(taints=(DEDICATED,)), used(), []),
    "one of two taints tolerated": (
        asks(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
        view(taints=(DEDICATED, Taint("other", "", "NoExecute"))),
        used(),
        [UNTOLERATED],
    ),
    "cordoned": (asks(), view(**CORDONED), used(), [UNSCHEDULABLE]),
    "cordoned, tolerated": (asks(tolerations=TOLERATES_ALL), view(**CORDONED), used(), []),
    "the selector's labels": (asks(nodeSelector={"disk": "ssd"}), view(labels={"disk": "ssd"}), used(), []),
    "other labels": (asks(nodeSelector={"disk": "ssd"}), view(labels={"disk": "hdd"}), used(), [UNMATCHED]),
    "no terms": (Demand(terms=()), view(), used(), [UNMATCHED]),
    "another node was named": (Demand(names=frozenset({"n2"})), view(), used(), [NOT_NAMED]),
    "a port that is free": (ON_8080, view(), used(asks()), []),
    "a port that is taken": (ON_8080, view(), used(ON_8080), [NO_PORTS]),
    "on one address of all": (ON_8080_LOCAL, view(), used(ON_8080), [NO_PORTS]),
    "on all addresses, one of which is taken": (ON_8080, view(), used(ON_8080_LOCAL), [NO_PORTS]),
    "on another address": (
        Demand(ports=(Port("TCP", "10.0.0.1", 8080),)),
        view(),
        used(ON_8080_LOCAL),
        [],
    ),
    "of another protocol": (Demand(ports=(Port("UDP", "", 8080),)), view(), used(ON_8080), []),
    "only the first obstacle is told": (
        asks(requests={"cpu": "100"}, nodeSelector={"a": "b"}),
        view(taints=(DEDICATED,)),
        used(),
        [UNTOLERATED],
    ),
}


@pytest.mark.parametrize("case", FITS)
def test_whether_a_pod_fits_on_a_node(case: str) -> None:
    demand, there, usage, why = FITS[case]
    assert list(misfits(demand, there, usage)) == why


def test_released_port_is_free() -> None:
    usage = used(ON_8080)
    usage.add(ON_8080, -1)
    assert list(misfits(ON_8080, view(), usage)) == []


def test_node_view_contains_the_fields_for_scheduling() -> None:
    taints = [
        {"key": "a", "value": "b", "effect": "NoSchedule"},
        {"key": "c", "effect": "NoExecute"},
        {"key": "d", "effect": "PreferNoSchedule"},
    ]
    seen = node_view(
        hollow_node(spec={"taints": taints, "unschedulable": True}, allocatable={"cpu": "1500m", "x": "none"})
    )
    assert (seen.name, seen.zone) == ("hollow-node-0", "zone-a")
    assert seen.taints == (Taint("a", "b", "NoSchedule"), Taint("c", "", "NoExecute"))
    assert seen.unschedulable
    assert (seen.allocatable["cpu"], seen.allocatable["pods"]) == (1500, 110)
    assert "x" not in seen.allocatable


def test_heartbeat_does_not_change_the_node_view() -> None:
    before, after = hollow_node(), hollow_node()
    after["status"]["conditions"][0]["lastHeartbeatTime"] = "2027-01-15T09:00:00Z"
    assert node_view(before) == node_view(after)


# Scores of nodes.


def choose(
    nodes: Sequence[NodeView],
    *,
    usages: Object | None = None,
    siblings: Counter | Object | None = None,
    demand: None = None,
) -> str:
    return best(demand or asks(), nodes, usages or {}, siblings or {}).name


def test_the_emptier_node_is_better() -> None:
    usages = {"n1": used(asks(requests={"cpu": "1"})), "n2": used(asks(requests={"cpu": "100m"}))}
    assert choose([view("n1"), view("n2")], usages=usages) == "n2"


def test_pods_that_ask_for_nothing_are_spread_all_the_same() -> None:
    assert choose([view("n1"), view("n2")], usages={"n1": used(asks())}) == "n2"


def test_the_bigger_node_is_emptier_with_the_same_pods() -> None:
    usages = {name: used(asks(requests={"cpu": "1"})) for name in ("n1", "n2")}
    big = {"cpu": 16000, "memory": 64 * GI, "pods": 10}
    assert choose([view("n1"), view("n2", allocatable=big)], usages=usages) == "n2"


def test_the_first_of_equals_is_taken() -> None:
    assert choose([view("n2"), view("n1")]) == "n2"


def test_pods_of_one_owner_go_to_different_nodes() -> None:
    assert choose([view("n1"), view("n2")], siblings={"n1": 1}) == "n2"


def test_pods_of_one_owner_go_to_different_zones_first() -> None:
    nodes = [view("n1", zone="a"), view("n2", zone="a"), view("n3", zone="b")]
    assert choose(nodes, siblings={"n1": 2, "n3": 1}) == "n3"


def test_spreading_outweighs_a_little_less_room() -> None:
    usages = {"n2": used(asks(requests={"cpu": "2"}))}
    assert choose([view("n1"), view("n2")], usages=usages, siblings={"n1": 1}) == "n2"


def test_a_replica_set_ends_up_even_over_zones_and_nodes() -> None:
    nodes = [view(f"n{index}", zone="ab"[index % 2]) for index in range(4)]
    usages = {each.name: NodeUsage() for each in nodes}
    siblings = Counter()
    for _ in range(8):
        name = choose(nodes, usages=usages, siblings=siblings)
        usages[name].add(asks())
        siblings[name] += 1
    assert siblings == {"n0": 2, "n1": 2, "n2": 2, "n3": 2}


# Messages and order.


def test_failure_message_counts_nodes_per_reason() -> None:
    reasons = {UNTOLERATED: 1, "Insufficient cpu": 2}
    assert (
        failure_message(3, reasons)
        == "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    )


def test_failure_message_without_nodes_is_upstreams() -> None:
    assert failure_message(0, {}) == "no nodes available to schedule pods"


@pytest.mark.parametrize("nodes, enough", [(0, 0), (99, 99), (100, 100), (500, 230), (1000, 420), (6000, 300)])
def test_in_a_large_cluster_some_nodes_that_fit_are_enough(nodes: int, enough: int) -> None:
    assert nodes_to_find(nodes) == enough


def test_nodes_are_tried_zone_by_zone() -> None:
    nodes = [view(name, zone=zone) for name, zone in [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "b"), ("n5", "c")]]
    assert [each.name for each in interleaved(nodes)] == ["n1", "n4", "n5", "n2", "n3"]
    assert interleaved([]) == []
