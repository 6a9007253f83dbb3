"""Encoding of cloud routes in commands and outcomes."""

from __future__ import annotations

import pytest

from kcm.protocols.routes import Route, decode_route, decode_routes, encode_route, encode_routes

ROUTES = [
    Route(destination="10.0.0.0/24", node="n1"),
    Route(destination="10.0.1.0/24", node="", name="r-1", blackhole=True),
    Route(destination="fd00::/64", node="n2", addresses=frozenset()),
    Route(destination="10.0.2.0/24", node="n2", addresses=frozenset({("InternalIP", "192.0.2.2"), ("Hostname", "n2")})),
]


@pytest.mark.parametrize("route", ROUTES)
def test_a_route_is_the_same_after_its_journey(route: Route) -> None:
    assert decode_route(encode_route(route)) == route


def test_many_routes_keep_their_order() -> None:
    assert decode_routes(encode_routes(ROUTES)) == ROUTES
    assert decode_routes(encode_routes([])) == []


def test_equal_routes_have_equal_bytes() -> None:
    addresses = [("InternalIP", f"192.0.2.{i}") for i in range(20)]
    ordered, other = frozenset(addresses), frozenset(reversed(addresses))
    assert encode_route(Route(destination="d", node="n", addresses=ordered)) == encode_route(
        Route(destination="d", node="n", addresses=other)
    )
