"""Services: cluster IPs, node ports, and changes of the type."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.apiserver.conftest import Api
from tests.support.objects import service


def test_service_gets_a_cluster_ip(api: Api) -> None:
    first, second = (api.create("services", service(name)).obj["spec"] for name in ("a", "b"))
    assert first["clusterIP"].startswith("10.96.")
    assert first["clusterIPs"] == [first["clusterIP"]]
    assert first["clusterIP"] != second["clusterIP"]
    assert first["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (first["type"], first["sessionAffinity"], first["internalTrafficPolicy"]) == ("ClusterIP", "None", "Cluster")

    refused = api.create("services", service("c", spec={"clusterIP": first["clusterIP"]}))
    assert refused.status == 422
    assert "provided IP is already allocated" in refused.message
    assert api.create("services", service("d", spec={"clusterIP": "192.168.0.1"})).status == 422
    assert api.create("services", service("e", spec={"clusterIP": "None"})).obj["spec"]["clusterIPs"] == ["None"]
    moved = api.patch("services", "a", {"spec": {"clusterIP": "10.96.9.9"}})
    assert moved.causes == {"spec.clusterIPs[0]": 'Invalid value: ["10.96.9.9"]: may not change once set'}


def test_external_name_service_needs_a_name(api: Api) -> None:
    refused = api.create("services", service("s", spec={"type": "ExternalName"}))
    assert (refused.status, refused.causes) == (422, {"spec.externalName": "Required value"})
    assert (
        api.create("services", service("s", spec={"type": "ExternalName", "externalName": "example.com"})).status == 201
    )


def test_node_port_is_allocated_if_needed(api: Api) -> None:
    port = api.create("services", service("s", spec={"type": "NodePort"})).obj["spec"]["ports"][0]
    assert port["nodePort"] in range(30000, 32768)


@pytest.mark.parametrize(
    "number, why",
    [
        (80, "Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"),
        (31000, "Invalid value: 31000: provided port is already allocated"),
    ],
)
def test_unavailable_node_port_is_rejected(api: Api, number: int, why: str) -> None:
    asked = [{"port": 1, "nodePort": 31000}]
    assert api.create("services", service("first", spec={"type": "NodePort", "ports": asked})).status == 201
    ports = [{"port": 1, "name": "a"}, {"port": 2, "name": "b", "nodePort": number}]
    refused = api.create("services", service("second", spec={"type": "NodePort", "ports": ports}))
    assert refused.status == 422
    assert refused.causes == {"spec.ports[1].nodePort": why}


def ports_of(spec: dict[str, Any]) -> list[int | None]:
    return [port.get("nodePort") for port in spec.get("ports", ())]


def test_changed_service_type_allocates_and_releases_addresses_and_ports(api: Api) -> None:
    web = api.create("services", service("s", spec={"type": "ExternalName", "externalName": "example.com"}))
    assert "clusterIP" not in web.obj["spec"]

    change = {"type": "NodePort", "externalName": None, "ports": [{"port": 80}]}
    spec = api.patch("services", "s", {"spec": change}).obj["spec"]
    address, (port,) = spec["clusterIP"], ports_of(spec)
    assert spec["clusterIPs"] == [address]
    assert port in range(30000, 32768)
    assert (spec["ipFamilies"], spec["externalTrafficPolicy"]) == (["IPv4"], "Cluster")

    spec = api.patch("services", "s", {"spec": {"type": "ClusterIP"}}).obj["spec"]
    assert (spec["clusterIP"], ports_of(spec), "externalTrafficPolicy" in spec) == (address, [None], False)
    other = api.create("services", service("o", spec={"type": "NodePort", "ports": [{"port": 1, "nodePort": port}]}))
    assert other.status == 201  # the port has been released

    spec = api.patch("services", "s", {"spec": {"type": "ExternalName", "externalName": "example.com"}}).obj["spec"]
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & {*spec}
    assert (
        api.create("services", service("p", spec={"clusterIP": address})).status == 201
    )  # the address has been released
    refused = api.patch("services", "s", {"spec": {"type": "ClusterIP", "clusterIP": address, "externalName": None}})
    assert "provided IP is already allocated" in refused.message


def test_update_without_allocated_values_keeps_them(api: Api) -> None:
    given = {"type": "NodePort", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}
    before = api.create("services", service("s", spec=given)).obj["spec"]
    after = api.put("services", service("s", spec={**given, "ports": [{"name": "b", "port": 3}]})).obj["spec"]
    assert after["clusterIP"] == before["clusterIP"]
    assert ports_of(after) == ports_of(before)[1:]
    more = [{"name": "b", "port": 3}, {"name": "c", "port": 4, "nodePort": 80}]
    refused = api.put("services", service("s", spec={**given, "ports": more}))
    assert "not in the valid range" in refused.causes["spec.ports[1].nodePort"]
