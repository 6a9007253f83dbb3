"""Cluster IPs: the parts of a range, and allocation from the ServiceCIDRs that are ready.

Cases: kubernetes v1.36 pkg/registry/core/service/ipallocator/{bitmap,ipallocator,cidrallocator}_test.go.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.core.service.cluster_ips import (
    ALLOCATED,
    address_ranges,
    read_service_ranges,
    reserved_addresses,
)
from tests.runtime.apiserver.conftest import Answer, Api
from tests.support.objects import service

NETWORKING = "/apis/networking.k8s.io/v1"


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


@pytest.mark.parametrize(
    ("cidr", "reserved"),
    [
        ("192.168.1.1/32", 0),
        ("fd00::1/128", 0),
        ("192.168.1.1/30", 0),
        ("fd00::1/126", 0),
        ("192.168.1.1/28", 0),
        ("192.168.1.1/27", 16),
        ("fd00::1/124", 0),
        ("fd00::1/122", 16),
        ("192.168.1.1/22", 64),
        ("fd00::1/118", 64),
        ("192.168.1.1/8", 256),
        ("fd00::1/12", 256),
    ],
)
def test_start_of_a_large_range_is_for_requests(cidr: str, reserved: int) -> None:
    assert reserved_addresses(ip_network(cidr, strict=False)) == reserved


@pytest.mark.parametrize(
    ("cidr", "addresses"),
    [
        ("192.168.1.0/24", 254),
        ("192.168.1.0/32", 0),
        ("192.168.1.0/31", 0),
        ("0.0.0.0/1", 2**31 - 2),
        ("0.0.0.0/0", 2**32 - 2),
        ("2001:db2::/112", 65535),
        ("2001:db8::/128", 0),
        ("2001:db8::/127", 1),
        ("2001:db8::/65", 2**63 - 1),
        ("2001:db8::/64", 2**64 - 1),
    ],
)
def test_network_and_broadcast_address_are_not_allocated(cidr: str, addresses: int) -> None:
    dynamic, requested = address_ranges(ip_network(cidr))
    assert dynamic.size + requested.size == addresses


def create(api: Api, name: str, **spec: Any) -> Answer:
    return api.create("services", service(name, spec=spec))


def allocated(api: Api, name: str, **spec: Any) -> str:
    made = create(api, name, **spec)
    assert made.status == 201, made.obj
    return str(made.obj["spec"]["clusterIP"])


def add(api: Api, name: str, *cidrs: str) -> None:
    assert (
        api.send("POST", f"{NETWORKING}/servicecidrs", {"metadata": {"name": name}, "spec": {"cidrs": cidrs}}).status
        == 201
    )


def set_ready(api: Api, name: str, status: str) -> None:
    ready = {
        "type": "Ready",
        "status": status,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "",
        "message": "",
    }
    path = f"{NETWORKING}/servicecidrs/{name}/status"
    body = {"status": {"conditions": [ready]}}
    assert api.send("PATCH", path, body, type_="application/merge-patch+json").status == 200


def is_full(answer: Answer, name: str) -> bool:
    text = f'Internal error occurred: failed to allocate a serviceIP for Service "{name}": range is full'
    return (answer.status, answer.message) == (500, text)


@pytest.fixture
def small(make_api: type[Api]) -> Api:
    """Return a server whose default ServiceCIDR has 14 addresses, one of them for Service default/kubernetes."""
    api = make_api(service_ranges=("192.168.0.0/28",))
    api.server.publish_address("10.0.0.5", 6443)
    return api


def test_each_address_of_a_range_is_allocated_once(small: Api) -> None:
    found = {allocated(small, f"s{i}") for i in range(13)}
    assert found == {f"192.168.0.{number}" for number in range(2, 15)}
    assert is_full(create(small, "more"), "more")
    small.delete("services", "s3")
    assert allocated(small, "more") in found


def test_dynamic_addresses_come_from_the_upper_part_first(make_api: type[Api]) -> None:
    api = make_api(service_ranges=("10.0.0.0/26",))
    upper = {f"10.0.0.{number}" for number in range(17, 63)}
    assert {allocated(api, f"s{i}") for i in range(46)} == upper
    lower = {f"10.0.0.{number}" for number in range(1, 17)}
    assert {allocated(api, f"t{i}") for i in range(16)} == lower
    assert is_full(create(api, "more"), "more")


def test_services_allocate_from_every_ready_service_cidr(small: Api) -> None:
    for i in range(13):
        allocated(small, f"s{i}")
    add(small, "second", "10.0.0.0/28")
    assert allocated(small, "named", clusterIP="10.0.0.11") == "10.0.0.11"
    found = {allocated(small, f"t{i}") for i in range(13)}
    assert found == {f"10.0.0.{number}" for number in range(1, 15)} - {"10.0.0.11"}
    assert is_full(create(small, "more"), "more")


def test_larger_service_cidr_contains_addresses_at_the_ends_of_a_smaller_one(small: Api) -> None:
    refused = create(small, "low", clusterIP="192.168.0.0")
    text = "failed to allocate IP 192.168.0.0: the provided network does not match the current range"
    assert text in refused.message
    add(small, "larger", "192.168.0.0/16")
    assert allocated(small, "end", clusterIP="192.168.0.15") == "192.168.0.15"
    assert text in create(small, "low", clusterIP="192.168.0.0").message


def test_unready_and_deleted_service_cidrs_are_not_used(small: Api) -> None:
    for i in range(13):
        allocated(small, f"s{i}")
    add(small, "second", "10.0.0.0/28")
    set_ready(small, "second", "False")
    assert is_full(create(small, "more"), "more")
    add(small, "same", "10.0.0.0/28")  # one of two ServiceCIDRs with the range suffices
    assert allocated(small, "more").startswith("10.0.0.")
    set_ready(small, "second", "True")
    assert small.send("DELETE", f"{NETWORKING}/servicecidrs/same").status == 200
    assert allocated(small, "other").startswith("10.0.0.")
    finalizers = {"metadata": {"finalizers": ["example.com/hold"]}}
    path = f"{NETWORKING}/servicecidrs/second"
    assert small.send("PATCH", path, finalizers, type_="application/merge-patch+json").status == 200
    small.send("DELETE", path)
    refused = create(small, "last", clusterIP="10.0.0.9")
    assert "the provided network does not match the current range" in refused.message


def test_ip_address_of_another_client_reserves_its_address(small: Api) -> None:
    parent = {"group": "gateway.networking.k8s.io", "resource": "gateways", "name": "web", "namespace": "default"}
    body = {"metadata": {"name": "192.168.0.7"}, "spec": {"parentRef": parent}}
    assert small.send("POST", f"{NETWORKING}/ipaddresses", body).status == 201
    refused = create(small, "web", clusterIP="192.168.0.7")
    assert refused.causes["spec.clusterIPs"].endswith("failed to allocate IP 192.168.0.7: " + ALLOCATED)
    assert "192.168.0.7" not in {allocated(small, f"s{i}") for i in range(12)}
    assert is_full(create(small, "more"), "more")
    small.send("DELETE", f"{NETWORKING}/ipaddresses/192.168.0.7")
    assert allocated(small, "more") == "192.168.0.7"


def test_both_families_are_allocated_from_further_service_cidrs(make_api: type[Api]) -> None:
    api = make_api(service_ranges=("192.168.0.0/28", "fd00::/124"))
    api.server.publish_address("10.0.0.5", 6443)
    add(api, "second", "10.0.0.0/24", "fd00:1::/112")
    spec = {"ipFamilyPolicy": "RequireDualStack", "clusterIPs": ["10.0.0.77", "fd00:1::77"], "clusterIP": "10.0.0.77"}
    made = create(api, "web", **spec)
    assert made.obj["spec"]["clusterIPs"] == ["10.0.0.77", "fd00:1::77"]
    names = api.send("GET", f"{NETWORKING}/ipaddresses").names
    assert {"10.0.0.77", "fd00:1::77"} <= set(names)
    # A family that the server is not configured for has no addresses, whatever the ServiceCIDRs are.
    single = make_api(service_ranges=("192.168.0.0/28",))
    add(single, "six", "fd00:1::/112")
    assert "not configured on this cluster" in create(single, "web", ipFamilies=["IPv6"]).message


def test_ipv6_range_that_is_too_large_is_not_used(make_api: type[Api]) -> None:
    api = make_api(service_ranges=("192.168.0.0/28", "fd00::/124"))
    add(api, "large", "fd00:1::/56")
    refused = create(api, "web", ipFamilies=["IPv6"], clusterIP="fd00:1::5")
    assert "the provided network does not match the current range" in refused.message
