"""Tests of the canonical form of the subsets of Endpoints."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.network.shared.subsets import repacked, unversioned
from kcm.protocols.objects import Object


def host(ip: str, uid: str = "") -> Object:
    return {"ip": ip, "targetRef": {"uid": uid}} if uid else {"ip": ip}


def port(number: int, protocol: str = "TCP", name: str = "") -> Object:
    return {"port": number, "protocol": protocol, **({"name": name} if name else {})}


def subset(ports: list[Object], *ready: Object, down: tuple[Object, ...] = ()) -> Object:
    found = {"addresses": list(ready), "notReadyAddresses": list(down), "ports": ports}
    return {field: value for field, value in found.items() if value}


A, B = host("1.2.3.4"), host("1.2.3.5")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], []),
        ([{"addresses": [], "ports": [port(1)]}], []),
        ([subset([port(1)], A), subset([port(1)], B)], [subset([port(1)], A, B)]),
        ([subset([port(1)], B, A)], [subset([port(1)], A, B)]),
        ([subset([port(2)], A), subset([port(1)], A)], [subset([port(1), port(2)], A)]),
        ([subset([port(1), port(1, "UDP")], A)], [subset([port(1), port(1, "UDP")], A)]),
        ([subset([port(1)], A), subset([port(2)], B)], [subset([port(1)], A), subset([port(2)], B)]),
        ([subset([port(1)], A), subset([port(1)], down=(A,))], [subset([port(1)], down=(A,))]),
        ([subset([port(1)], A), subset([port(2)], down=(A,))], [subset([port(1)], A), subset([port(2)], down=(A,))]),
        ([subset([], A), subset([], B)], [subset([], A, B)]),
        (
            [subset([port(1)], host("1.2.3.4", "u2"), host("1.2.3.4", "u1"))],
            [subset([port(1)], host("1.2.3.4", "u1"), host("1.2.3.4", "u2"))],
        ),
    ],
)
def test_ports_with_equal_addresses_share_a_subset(given: list[Object], expected: list[Object]) -> None:
    assert repacked(given) == expected
    assert repacked(expected) == expected


def test_repacked_subsets_are_independent_of_input_lists() -> None:
    shared = [port(1), port(2)]
    hosts = [host(f"1.2.3.{number}") for number in range(1, 9)]
    together = repacked(subset(shared, host) for host in hosts)
    apart = repacked(subset([port(1), port(2)], host) for host in hosts)
    assert together == apart == [subset(shared, *hosts)]
    each = repacked(subset([port(number)], host) for number, host in enumerate(hosts, 1))
    assert each == [subset([port(number)], host) for number, host in enumerate(hosts, 1)]


def test_resource_versions_of_pods_are_ignored() -> None:
    versioned: Any = [{"addresses": [{"ip": "1.1.1.1", "targetRef": {"uid": "u", "resourceVersion": "5"}}]}]
    assert unversioned(versioned) == [{"addresses": [{"ip": "1.1.1.1", "targetRef": {"uid": "u"}}]}]
