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
