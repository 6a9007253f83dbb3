"""Parsing of service CIDRs, and allocation when no address is left. The contract tests of Services cover the rest."""

from __future__ import annotations

import pytest

from kcm.runtime.apiserver.kinds.core.service.allocation import read_service_ranges
from tests.runtime.apiserver.conftest import Api
from tests.support.objects import service


@pytest.mark.parametrize(
    ("cidrs", "why"),
    [
        ((), "expected one service CIDR, or one of each IP family"),
        (("10.0.0.0/24", "10.1.0.0/24"), "expected one service CIDR, or one of each IP family"),
        (("10.0.0.0/29",), "10.0.0.0/29 has fewer than 16 addresses"),
        (("10.0.0.1/24",), "10.0.0.1/24 has host bits set"),
        (("x",), "'x' does not appear to be an IPv4 or IPv6 network"),
    ],
)
def test_invalid_service_range_is_rejected(cidrs: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_service_ranges(cidrs)


def test_full_range_assigns_reserved_addresses_only_on_request(make_api: type[Api]) -> None:
    api = make_api(service_ranges=("10.0.0.0/28", "fd00::/112"))
    given = [api.create("services", service(f"s{i}")).obj["spec"]["clusterIP"] for i in range(5)]
    assert sorted(given) == [f"10.0.0.{number}" for number in range(10, 15)]
    refused = api.create("services", service("more"))
    assert (refused.status, refused.message) == (
        500,
        'Internal error occurred: failed to allocate a serviceIP for Service "more": range is full',
    )
    assert api.create("services", service("named", spec={"clusterIP": "10.0.0.2"})).status == 201
    assert api.create("services", service("six", spec={"ipFamilies": ["IPv6"]})).status == 201
    api.delete("services", "s0")
    assert api.create("services", service("more")).obj["spec"]["clusterIP"] == given[0]


def test_node_port_of_a_health_check_is_not_reused(api: Api) -> None:
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    number = api.create("services", service("a", spec=local)).obj["spec"]["healthCheckNodePort"]
    ports = [{"port": 80, "nodePort": number}]
    refused = api.create("services", service("b", spec={"type": "NodePort", "ports": ports}))
    assert "provided port is already allocated" in refused.message
    api.delete("services", "a")
    assert api.create("services", service("b", spec={"type": "NodePort", "ports": ports})).status == 201
