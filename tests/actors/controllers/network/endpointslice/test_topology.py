"""Tests of the hints for topology mode "Auto" and for trafficDistribution, with upstream's cases."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kcm.actors.controllers.network.endpointslice.slice_plan import SlicePlan
from kcm.actors.controllers.network.endpointslice.topology import (
    NODES_UNKNOWN,
    NodeShare,
    Topology,
    ZoneAllocation,
    allocations,
    exchanges,
    is_auto,
    is_overloaded,
    share_of,
    zone_ratios,
)
from kcm.actors.controllers.network.endpointslice.traffic_distribution import add_proximity_hints, remove_hints
from kcm.actors.simulation import objects
from kcm.actors.simulation.driver import Bench
from kcm.protocols.objects import Object
from kcm.protocols.resources import NODES

THIRDS = {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}


def node(name: str, zone: str = "a", cpu: str = "1", *, ready: str = "True", **labels: str) -> Object:
    return objects.node(
        name, ready=ready, labels={"topology.kubernetes.io/zone": zone, **labels}, status={"allocatable": {"cpu": cpu}}
    )


def endpoint(zone: str | None, *, ready: bool = True, hint: str = "", node: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}
    if zone:
        made["zone"] = zone
    if node:
        made["nodeName"] = node
    if hint:
        made["hints"] = {"forZones": [{"name": hint}]}
    return made


def hints(plan: SlicePlan) -> list[str]:
    slices = (*plan.create, *plan.update, *plan.unchanged)
    found = [endpoint.get("hints") for slice_ in slices for endpoint in slice_["endpoints"]]
    return sorted(hints["forZones"][0]["name"] for hints in found if hints is not None)


def three_zones() -> Bench:
    return Bench({NODES: [node(f"n{number}", zone="abc"[number % 3]) for number in range(30)]})


def plan_of(zones: str, **more: Any) -> SlicePlan:
    return SlicePlan(create=[{"endpoints": [endpoint(zone, **more) for zone in zones]}])


@pytest.mark.parametrize(
    ("zones", "expected"),
    [("ccc", ["a", "b", "c"]), ("aacc", []), ("aaaabbbcc", ["a"] * 3 + ["b"] * 3 + ["c"] * 3), ("ab", [])],
)
def test_endpoints_are_allocated_to_zones_in_proportion(zones: str, expected: list[str]) -> None:
    topology = Topology(three_zones().tables[NODES])
    plan = plan_of(zones)
    [notice] = topology.add_hints(plan, "default/web", "IPv4")
    assert hints(plan) == expected
    assert notice.message.endswith(", addressType: IPv4")
    assert notice.reason == ("TopologyAwareHintsEnabled" if expected else "TopologyAwareHintsDisabled")
    assert topology.is_hinting("default/web") == bool(expected)


def test_hints_are_recorded_when_enabled_and_when_disabled() -> None:
    topology = Topology(three_zones().tables[NODES])
    assert len(topology.add_hints(plan_of("abc"), "default/web", "IPv4")) == 1
    assert topology.add_hints(plan_of("abc"), "default/web", "IPv4") == []
    [notice] = topology.remove_hints("default/web", "IPv4")
    assert notice == (
        "Warning",
        "TopologyAwareHintsDisabled",
        "Topology Aware Hints has been disabled, addressType: IPv4",
    )
    assert topology.remove_hints("default/web", "IPv4") == []


def test_endpoint_without_zone_removes_all_hints() -> None:
    topology = Topology(three_zones().tables[NODES])
    plan = SlicePlan(create=[{"endpoints": [endpoint(zone) for zone in ("a", "a", "b", "b", "c", None)]}])
    [notice] = topology.add_hints(plan, "default/web", "IPv4")
    assert hints(plan) == []
    assert notice.message == "One or more endpoints do not have a zone specified, addressType: IPv4"


def test_slices_with_correct_hints_are_not_written() -> None:
    topology = Topology(three_zones().tables[NODES])
    right = {"endpoints": [endpoint(zone, hint=zone) for zone in "abc"]}
    plan = SlicePlan(unchanged=[right])
    topology.add_hints(plan, "default/web", "IPv4")
    assert plan.unchanged == [right]
    wrong = {"endpoints": [endpoint("a"), endpoint("b"), endpoint("c")]}
    plan = SlicePlan(unchanged=[wrong])
    topology.add_hints(plan, "default/web", "IPv4")
    assert (plan.unchanged, hints(plan)) == ([], ["a", "b", "c"])
    assert "hints" not in wrong["endpoints"][0]


def test_unchanged_hints_are_not_written() -> None:
    """Regression test: with a zone without ready nodes, each sync wrote all slices.

    Found by seed 91006750 of the campaign with the setting `swarm`.
    """
    topology = Topology(
        Bench({NODES: [node("n1", "b"), node("n2", "c"), node("n3", "a", ready="Unknown")]}).tables[NODES]
    )
    right, bare = {"endpoints": [endpoint("a", hint="a")]}, {"endpoints": [endpoint("a")]}
    plan = SlicePlan(unchanged=[right, bare])
    [notice] = topology.add_hints(plan, "default/web", "IPv4")
    assert notice.reason == "TopologyAwareHintsEnabled"
    assert (plan.unchanged, plan.update) == ([right], [{"endpoints": [endpoint("a", hint="a")]}])


def test_slices_without_hints_are_not_written_if_an_endpoint_has_no_zone() -> None:
    topology = Topology(three_zones().tables[NODES])
    right = {"endpoints": [endpoint("a"), endpoint("b"), endpoint(None)]}
    plan = SlicePlan(unchanged=[right])
    topology.add_hints(plan, "default/web", "IPv4")
    assert (plan.unchanged, plan.update) == ([right], [])


@pytest.mark.parametrize(
    ("desired", "allocated", "gives", "receives"),
    [
        ((5.1, 5.1, 5.8), (16, 0, 0), {"a": 10}, {"b": 5, "c": 5}),
        ((5.0, 5.6, 5.4), (16, 0, 0), {"a": 11}, {"b": 6, "c": 5}),
        ((5.1, 5.1, 5.8), (0, 8, 8), {"b": 3, "c": 2}, {"a": 5}),
        ((1.2, 1.1, 1.0), (1, 1, 1), {}, {}),
    ],
)
def test_surplus_endpoints_are_given_to_other_zones(
    desired: tuple[float, ...], allocated: tuple[int, ...], gives: Any, receives: Any
) -> None:
    zones = {zone: ZoneAllocation(0, 99, wanted) for zone, wanted in zip("abc", desired, strict=True)}
    assert exchanges(zones, dict(zip("abc", allocated, strict=True))) == (gives, receives)


@pytest.mark.parametrize(
    ("nodes", "ratios"),
    [
        ([node("n1")], {}),
        ([node("n1"), node("n2")], {}),
        ([node("n1"), node("n2", "b", ready="False")], {}),
        ([node("n1"), node("n2", "b")], {"a": 0.5, "b": 0.5}),
        ([node("n1"), node("n2", "b", "3")], {"a": 0.25, "b": 0.75}),
        ([node("n1"), node("n2", "b"), node("n3", "")], {}),
        ([node("n1"), node("n2", "b"), node("n3", "c", "0")], {}),
        (
            [node("n1"), node("n2", "b"), node("n3", "c", **{"node-role.kubernetes.io/control-plane": ""})],
            {"a": 0.5, "b": 0.5},
        ),
    ],
)
def test_ratios_are_proportional_to_cpus(nodes: list[Object], ratios: dict[str, float]) -> None:
    assert zone_ratios(map(share_of, nodes)) == ratios


def test_no_allocation_without_ratios_or_with_too_few_endpoints() -> None:
    assert allocations({}, 3) == NODES_UNKNOWN
    assert allocations(THIRDS, 2) == "Insufficient number of endpoints (2 endpoints, 3 zones)"
    assert str(allocations(THIRDS, 4)).endswith("exceeding overload threshold (4 endpoints, 3 zones)")


@pytest.mark.parametrize(
    ("cpus", "endpoints", "overloaded"),
    [
        ((0.1, 1, 2), (1, 2, 3), True),
        ((1, 1), (5, 4), False),
        ((1, 1), (6, 4), True),
        ((1, 1, 1), (3, 3), True),
        ((2, 1, 0.1), (20, 10, 1), False),
        ((2, 1, 0.1), (20, 10, 0), True),
    ],
)
def test_services_with_overloaded_zones_are_found(
    cpus: tuple[float, ...], endpoints: tuple[int, ...], overloaded: bool
) -> None:
    ratios = zone_ratios(
        NodeShare(counts=True, zone=zone, cpu=Decimal(str(cpu))) for zone, cpu in zip("abc", cpus, strict=False)
    )
    assert is_overloaded(dict(zip("abc", endpoints, strict=False)), ratios) is overloaded


def test_services_are_enqueued_when_node_changes_overload_zones() -> None:
    bench = three_zones()
    topology = Topology(bench.tables[NODES])
    topology.add_hints(plan_of("abc"), "default/web", "IPv4")
    assert topology.nodes_changed() == []
    for number in range(2, 30, 3):
        bench.show(NODES, node(f"n{number}", zone="c", ready="False"))
    for number in range(0, 30, 3):
        bench.show(NODES, node(f"n{number}", zone="a", ready="False"))
    assert topology.nodes_changed() == ["default/web"]


@pytest.mark.parametrize(
    ("mode", "older", "auto"),
    [
        ("Auto", None, True),
        ("auto", None, True),
        ("aUto", None, False),
        ("enabled", None, False),
        (None, None, False),
        ("disabled", "auto", True),
        ("auto", "disabled", False),
    ],
)
def test_hints_are_requested_by_either_annotation(mode: str | None, older: str | None, auto: bool) -> None:
    annotations = {
        "service.kubernetes.io/topology-mode": mode,
        "service.kubernetes.io/topology-aware-hints": older,
    }
    assert is_auto({name: value for name, value in annotations.items() if value is not None}) is auto


def test_traffic_distribution_hints_zone_and_node_of_ready_endpoints() -> None:
    plan = SlicePlan(create=[{"endpoints": [endpoint("a", node="n1"), endpoint("b", ready=False), endpoint(None)]}])
    add_proximity_hints(plan, "PreferClose")
    hints = [endpoint.get("hints") for endpoint in plan.create[0]["endpoints"]]
    assert hints == [{"forZones": [{"name": "a"}]}, None, None]
    add_proximity_hints(plan, "PreferSameNode")
    near = {"forZones": [{"name": "a"}], "forNodes": [{"name": "n1"}]}
    assert [endpoint.get("hints") for endpoint in plan.create[0]["endpoints"]] == [near, None, None]
    remove_hints(plan)
    assert [endpoint.get("hints") for endpoint in plan.create[0]["endpoints"]] == [None] * 3


def test_traffic_distribution_writes_only_slices_without_hints() -> None:
    right, wrong = {"endpoints": [endpoint("a", hint="a")]}, {"endpoints": [endpoint("a", hint="b")]}
    plan = SlicePlan(unchanged=[right, wrong])
    add_proximity_hints(plan, "PreferSameZone")
    assert (plan.unchanged, plan.update) == ([right], [{"endpoints": [endpoint("a", hint="a")]}])
    plan = SlicePlan(unchanged=[right, {"endpoints": [endpoint("a")]}])
    remove_hints(plan)
    assert plan.unchanged == [{"endpoints": [endpoint("a")]}]
