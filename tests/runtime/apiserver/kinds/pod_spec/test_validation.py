"""Validation rules of pod specs that the contract tests of kinds do not cover."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.apiserver.conftest import Api


def _spec(**port: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 80, **port}]}
    return {"hostNetwork": True, "containers": [container]}


@pytest.mark.parametrize(("port", "status"), [({}, 201), ({"hostPort": 80}, 201), ({"hostPort": 81}, 422)])
def test_template_on_the_host_network_may_leave_out_the_host_port(api: Api, port: dict[str, Any], status: int) -> None:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": _spec(**port)}
    body = {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    made = api.create("deployments", body)
    assert made.status == status
    if status == 201:
        assert made.obj["spec"]["template"]["spec"]["containers"][0]["ports"][0].get("hostPort") == port.get("hostPort")


@pytest.mark.parametrize(("port", "status"), [({}, 201), ({"hostPort": 81}, 422)])
def test_pod_on_the_host_network_gets_the_container_port(api: Api, port: dict[str, Any], status: int) -> None:
    made = api.create("pods", {"metadata": {"name": "x"}, "spec": _spec(**port)})
    assert made.status == status
    if status == 201:
        assert made.obj["spec"]["containers"][0]["ports"][0]["hostPort"] == 80
