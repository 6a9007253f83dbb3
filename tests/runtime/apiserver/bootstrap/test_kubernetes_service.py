"""Service default/kubernetes: created at the start, and recreated when it is deleted."""

from __future__ import annotations

import itertools

import pytest

from kcm.runtime.apiserver.bootstrap import kubernetes_service
from tests.runtime.apiserver.conftest import Api


@pytest.fixture
def reached(api: Api) -> Api:
    """Return a server with the address 127.0.0.1:6443."""
    api.server.publish_address("127.0.0.1", 6443)
    return api


def test_the_service_has_the_first_address_of_its_range(reached: Api) -> None:
    service = reached.get("services", "kubernetes").obj
    assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    assert service["spec"] == {
        "clusterIP": "10.96.0.1",
        "clusterIPs": ["10.96.0.1"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }


def test_no_other_service_gets_its_address(reached: Api) -> None:
    spec = {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]}
    refused = reached.create("services", {"metadata": {"name": "thief"}, "spec": spec})
    assert refused.status == 422
    assert "provided IP is already allocated" in refused.message


def test_endpoints_and_slice_lead_to_the_server(reached: Api) -> None:
    endpoints = reached.get("endpoints", "kubernetes").obj
    ports = [{"name": "https", "port": 6443, "protocol": "TCP"}]
    assert endpoints["subsets"] == [{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}]
    assert endpoints["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    slice_ = reached.get("endpointslices", "kubernetes").obj
    assert slice_["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
    assert slice_["endpoints"] == [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
    assert (slice_["addressType"], slice_["ports"]) == ("IPv4", ports)


@pytest.mark.parametrize("resource", ["services", "endpoints", "endpointslices"])
def test_deleted_object_is_recreated_at_the_next_reconciliation(reached: Api, resource: str) -> None:
    assert reached.delete(resource, "kubernetes").status == 200
    assert not reached.exists(resource, "kubernetes")
    reached.advance(kubernetes_service.EVERY)
    assert reached.exists(resource, "kubernetes")


def test_endpoints_that_lead_elsewhere_are_corrected(reached: Api) -> None:
    reached.patch("endpoints", "kubernetes", {"subsets": None, "metadata": {"labels": {"mine": "too"}}})
    reached.advance(kubernetes_service.EVERY)
    endpoints = reached.get("endpoints", "kubernetes").obj
    assert endpoints["subsets"][0]["addresses"] == [{"ip": "127.0.0.1"}]
    assert endpoints["metadata"]["labels"]["mine"] == "too"


def test_reconciliation_without_differences_writes_nothing(reached: Api) -> None:
    revision = reached.server.revision
    for _ in itertools.repeat(None, 3):
        reached.advance(kubernetes_service.EVERY)
    assert reached.server.revision == revision


def test_endpoints_follow_the_port_after_a_restart(reached: Api) -> None:
    reached.server.publish_address("127.0.0.1", 7443)
    assert reached.get("endpoints", "kubernetes").obj["subsets"][0]["ports"][0]["port"] == 7443
    assert reached.get("endpointslices", "kubernetes").obj["ports"][0]["port"] == 7443


def test_server_without_address_has_no_service(api: Api) -> None:
    assert api.list("services").names == []


def test_the_service_has_the_default_family_of_two(make_api: type[Api]) -> None:
    api = make_api(service_ranges=("fd00:96::/112", "10.97.0.0/16"))
    api.server.publish_address("127.0.0.1", 6443)
    spec = api.get("services", "kubernetes").obj["spec"]
    assert (spec["clusterIPs"], spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["fd00:96::1"], ["IPv6"], "SingleStack")
