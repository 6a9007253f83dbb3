"""Cluster IPs have IPAddress objects, as in kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.apiserver.conftest import Api

ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
PORTS = [{"port": 80}]


@pytest.fixture
def served(api: Api) -> Api:
    api.server.publish_address("10.0.0.5", 6443)
    return api


def parents(api: Api) -> dict[str, str]:
    """Return the name of the Service by address."""
    items = api.send("GET", ADDRESSES).obj["items"]
    return {address["metadata"]["name"]: address["spec"]["parentRef"]["name"] for address in items}


def create(api: Api, name: str, **spec: Any) -> str:
    made = api.create("services", {"metadata": {"name": name}, "spec": {"ports": PORTS, **spec}})
    assert made.status == 201
    return str(made.obj["spec"].get("clusterIP", ""))


def test_ip_address_is_created_and_deleted_with_its_service(served: Api) -> None:
    before = parents(served)
    assert before == {"10.96.0.1": "kubernetes"}
    address = create(served, "web")
    create(served, "headless", clusterIP="None")
    assert parents(served) == {**before, address: "web"}
    found = served.send("GET", f"{ADDRESSES}/{address}").obj
    assert found["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    assert found["spec"]["parentRef"] == {"resource": "services", "namespace": "default", "name": "web"}
    served.delete("services", "web")
    assert parents(served) == before


def test_service_that_becomes_external_name_releases_its_address(served: Api) -> None:
    address = create(served, "web")
    change = {"spec": {"type": "ExternalName", "externalName": "example.com", "clusterIP": None, "clusterIPs": None}}
    assert served.patch("services", "web", change).status == 200
    assert address not in parents(served)


def test_existing_services_get_ip_addresses_at_the_next_start(api: Api) -> None:
    address = create(api, "web")
    assert parents(api) == {}
    api.server.publish_address("10.0.0.5", 6443)
    assert parents(api)[address] == "web"


MERGE = "application/merge-patch+json"


def pass_time(api: Api, seconds: float) -> None:
    api.clock.time += seconds
    api.server.tick(api.clock.time)


def events(api: Api) -> list[tuple[str, str]]:
    items = api.send("GET", "/api/v1/namespaces/default/events").obj["items"]
    return [(event["reason"], event["message"]) for event in items]


def add_address(
    api: Api, name: str, parent: str, resource: str = "services", manager: str = "ipallocator.k8s.io"
) -> None:
    labels = {"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": manager}
    reference = {"resource": resource, "namespace": "default", "name": parent}
    made = api.send("POST", ADDRESSES, {"metadata": {"name": name, "labels": labels}, "spec": {"parentRef": reference}})
    assert made.status == 201


def test_deleted_ip_address_is_created_again_and_its_address_stays_allocated(served: Api) -> None:
    address = create(served, "web")
    pass_time(served, 1.0)
    served.send("DELETE", f"{ADDRESSES}/{address}")
    refused = served.create("services", {"metadata": {"name": "other"}, "spec": {"ports": PORTS, "clusterIP": address}})
    assert "provided IP is already allocated" in refused.message
    pass_time(served, 180.0)
    assert parents(served)[address] == "web"
    text = f"Cluster IP [IPv4]: {address} is not allocated; repairing"
    assert events(served) == [("ClusterIPNotAllocated", text)]


def test_ip_address_with_a_wrong_label_is_recreated(served: Api) -> None:
    address = create(served, "web")
    labels = {"metadata": {"labels": {"ipaddress.kubernetes.io/ip-family": "IPv6"}}}
    served.send("PATCH", f"{ADDRESSES}/{address}", labels, type_=MERGE)
    before = served.send("GET", f"{ADDRESSES}/{address}").meta["uid"]
    pass_time(served, 180.0)
    found = served.send("GET", f"{ADDRESSES}/{address}").obj
    assert found["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"] == "IPv4"
    assert found["metadata"]["uid"] != before


def test_cluster_ip_outside_every_service_cidr_is_reported(served: Api) -> None:
    cidrs = "/apis/networking.k8s.io/v1/servicecidrs"
    served.send("POST", cidrs, {"metadata": {"name": "second"}, "spec": {"cidrs": ["10.5.0.0/24"]}})
    create(served, "web", clusterIP="10.5.0.7")
    served.send("DELETE", f"{cidrs}/second")
    pass_time(served, 180.0)
    text = "Cluster IP [IPv4]: 10.5.0.7 is not within any configured Service CIDR; please recreate service"
    assert events(served) == [("ClusterIPOutOfRange", text)]


@pytest.mark.parametrize(
    ("parent", "resource", "kept", "reason"),
    [
        ("none", "services", 60.0, "IPAddressNotAllocated"),
        ("external", "services", 60.0, "IPAddressWrongReference"),
        ("web", "services", 5.0, "IPAddressWrongReference"),
        ("web", "gateways", 0.0, "IPAddressNotAllocated"),
    ],
)
def test_ip_address_without_its_service_is_deleted(
    served: Api, parent: str, resource: str, kept: float, reason: str
) -> None:
    create(served, "web")
    assert (
        served.create(
            "services",
            {"metadata": {"name": "external"}, "spec": {"type": "ExternalName", "externalName": "x.example"}},
        ).status
        == 201
    )
    pass_time(served, 1.0)
    add_address(served, "10.96.0.200", parent, resource)
    served.server.tick(served.clock.time)
    if kept:
        assert "10.96.0.200" in parents(served)
        pass_time(served, kept - 1.0)
        assert "10.96.0.200" in parents(served)
        pass_time(served, 1.0)
    assert "10.96.0.200" not in parents(served)
    assert [found for found, _ in events(served)] == [reason]


def test_ip_address_of_another_manager_is_kept(served: Api) -> None:
    add_address(served, "10.96.0.200", "none", manager="gateway.example.com")
    pass_time(served, 200.0)
    assert "10.96.0.200" in parents(served)


def test_ip_address_with_a_finalizer_keeps_its_address_allocated(served: Api) -> None:
    address = create(served, "web")
    served.send("PATCH", f"{ADDRESSES}/{address}", {"metadata": {"finalizers": ["example.com/hold"]}}, type_=MERGE)
    served.delete("services", "web")
    refused = served.create("services", {"metadata": {"name": "other"}, "spec": {"ports": PORTS, "clusterIP": address}})
    assert "provided IP is already allocated" in refused.message
    served.send("PATCH", f"{ADDRESSES}/{address}", {"metadata": {"finalizers": None}}, type_=MERGE)
    assert create(served, "other", clusterIP=address) == address


def test_ip_address_of_a_non_canonical_cluster_ip_is_canonical() -> None:
    api = Api(service_ranges=("10.96.0.0/16", "fd00::/112"))
    api.server.publish_address("10.0.0.5", 6443)
    assert create(api, "six", ipFamilies=["IPv6"], clusterIP="fd00::0:5") == "fd00::0:5"
    assert parents(api)["fd00::5"] == "six"
    api.delete("services", "six")
    assert "fd00::5" not in parents(api)
