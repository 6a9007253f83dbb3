"""Allocation of node ports. The contract tests of Services cover the rest."""

from __future__ import annotations

from tests.runtime.apiserver.conftest import Api
from tests.support.objects import service


def test_node_port_of_a_health_check_is_not_reused(api: Api) -> None:
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    number = api.create("services", service("a", spec=local)).obj["spec"]["healthCheckNodePort"]
    ports = [{"port": 80, "nodePort": number}]
    refused = api.create("services", service("b", spec={"type": "NodePort", "ports": ports}))
    assert "provided port is already allocated" in refused.message
    api.delete("services", "a")
    assert api.create("services", service("b", spec={"type": "NodePort", "ports": ports})).status == 201
