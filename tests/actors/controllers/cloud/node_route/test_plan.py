"""Tests of the plan of routes to create and to delete."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from kcm.actors.controllers.cloud.node_route.plan import is_ours, network_condition, plan_routes
from kcm.protocols.objects import Object
from kcm.protocols.routes import Route, decode_route, encode_route
from tests.actors.controllers.cloud.node_route.objects import TWO, routed_node, to

CIDR = ip_network("10.120.0.0/16")
ADDRESSES = (("InternalIP", "192.0.2.1"),)


@pytest.mark.parametrize(
    ("cluster", "destination", "ours"),
    [
        ("10.244.0.0/16", "10.244.0.0/24", True),
        ("10.244.0.0/16", "10.244.10.0/24", True),
        ("10.244.0.0/16", "10.244.255.0/24", True),
        ("10.244.0.0/14", "10.244.0.0/24", True),
        ("10.244.0.0/14", "10.247.255.0/24", True),
        ("a00:100::/10", "a00:100::/24", True),
        ("10.244.0.0/16", "10.224.0.0/24", False),
        ("10.244.0.0/16", "10.0.10.0/24", False),
        ("10.244.0.0/16", "10.255.255.0/24", False),
        ("10.244.0.0/14", "10.248.0.0/24", False),
        ("10.244.0.0/14", "10.243.255.0/24", False),
        ("a00:100::/10", "b00:100::/24", False),
        ("10.244.0.0/16", "10.0.0.0/8", False),
        ("10.244.0.0/16", "10.240.0.0/12", False),
        ("10.244.0.0/16", "10.244.0.0/12", False),
        ("10.240.0.0/16", "10.240.0.0/12", True),
        ("10.255.0.0/16", "10.240.0.0/12", True),
        ("10.244.0.0/16", "a00:100::/24", False),
        ("10.244.0.0/16", "somewhere", False),
    ],
)
def test_routes_into_the_cluster_cidr_are_managed(cluster: str, destination: str, ours: bool) -> None:
    assert is_ours(to("n", destination), [ip_network(cluster, strict=False)]) is ours


@pytest.mark.parametrize(
    ("nodes", "routes", "created", "deleted"),
    [
        (TWO, (), {("n1", "10.120.0.0/24"), ("n2", "10.120.1.0/24")}, ()),
        (TWO, (to("n1", "10.120.0.0/24"), to("n2", "10.120.1.0/24")), set(), ()),
        (TWO, (to("n1", "10.120.0.0/24"),), {("n2", "10.120.1.0/24")}, ()),
        (TWO, (to("n1", "10.120.0.0/24"), to("n2", "10.120.2.0/24")), {("n2", "10.120.1.0/24")}, (1,)),
        (TWO[:1], (to("n1", "10.120.0.0/24"), to("n3", "10.120.3.0/24")), set(), (1,)),
        (TWO[:1], (to("n1", "10.120.0.0/24"), to("n3", "10.1.3.0/24")), set(), ()),
        (TWO[:1], (to("n1", "10.120.0.0/24"), to("", "10.120.3.0/24", blackhole=True)), set(), (1,)),
        (TWO[:1], (to("n1", "10.120.0.0/24"), to("", "10.1.3.0/24", blackhole=True)), set(), ()),
        (TWO[:1], (to("n1", "10.120.0.0/24", blackhole=True),), set(), (0,)),
        (TWO[:1], (to("n1", "10.120.0.0/24", addresses=frozenset(ADDRESSES)),), set(), ()),
        (
            TWO[:1],
            (to("n1", "10.120.0.0/24", addresses=frozenset([("InternalIP", "192.0.2.9")])),),
            {("n1", "10.120.0.0/24")},
            (0,),
        ),
        ((routed_node("n1"),), (), set(), ()),
        (
            (routed_node("n1", "10.120.0.0/24", "a00:100::/24"),),
            (to("n1", "10.120.0.0/24"),),
            {("n1", "a00:100::/24")},
            (),
        ),
    ],
)
def test_plan_contains_missing_and_surplus_routes(
    nodes: tuple[Object, ...], routes: tuple[Route, ...], created: set[tuple[str, str]], deleted: tuple[int, ...]
) -> None:
    plan = plan_routes(nodes, routes, [CIDR, ip_network("a00:100::/10", strict=False)])
    assert {(route.node, route.destination) for route in plan.creations} == created
    assert plan.deletions == [routes[index] for index in deleted]


def test_route_to_another_address_is_deleted_before_creation() -> None:
    routed = to("n1", "10.120.0.0/24", addresses=frozenset(ADDRESSES))
    assert plan_routes(TWO, [routed], [CIDR]).deletions_first
    assert not plan_routes(TWO, [to("n1", "10.120.0.0/24")], [CIDR]).deletions_first


def test_node_with_routes_but_without_cidr_is_unreachable() -> None:
    nobodys = to("", "10.2.0.0/24")
    plan = plan_routes([routed_node("n1"), routed_node("n2")], [to("n1", "10.1.0.0/24"), nobodys], [CIDR])
    assert plan.kept == {"n1": frozenset()}


CREATED, MISSING = ("False", "RouteCreated"), ("True", "NoRouteCreated")


@pytest.mark.parametrize(
    ("there", "routed", "written"),
    [
        (None, True, CREATED),
        (None, False, MISSING),
        (CREATED, True, None),
        (CREATED, False, MISSING),
        (MISSING, True, CREATED),
        (MISSING, False, None),
        (("False", "CalicoIsUp"), True, CREATED),
    ],
)
def test_condition_is_written_if_status_or_reason_differ(
    there: tuple[str, str] | None, routed: bool, written: tuple[str, str] | None
) -> None:
    known = ({"type": "NetworkUnavailable", "status": there[0], "reason": there[1]},) if there else ()
    condition = network_condition(routed_node("n1", conditions=known), routed=routed, now=0.0)
    assert (None if condition is None else (condition["status"], condition["reason"])) == written


def test_route_is_encoded_completely() -> None:
    for route in (to("n1", "10.0.0.0/24"), to("", "::/0", name="r", blackhole=True, addresses=frozenset(ADDRESSES))):
        assert decode_route(encode_route(route)) == route
