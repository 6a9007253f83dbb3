"""Bindings of pods (pods/binding)."""

from __future__ import annotations

import pytest

from kcm.protocols.objects import Object
from tests.runtime.apiserver.conftest import Api

BINDING = {"target": {"kind": "Node", "name": "n1"}, "metadata": {"annotations": {"by": "scheduler"}}}


def test_binding_sets_the_node_of_a_pod(api: Api) -> None:
    api.create("pods", api.pod())
    bound = api.send("POST", api.path("pods", "web", "binding"), BINDING)
    assert (bound.status, bound.obj["status"]) == (201, "Success")
    pod = api.get("pods", "web").obj
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["annotations"] == {"by": "scheduler"}
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")

    again = api.send("POST", api.path("pods", "web", "binding"), BINDING)
    assert (again.status, again.message) == (
        409,
        'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n1"',
    )


@pytest.mark.parametrize(
    "spec,body,status,text",
    [
        ({}, {"target": {"kind": "Pod", "name": "x"}}, 422, 'Unsupported value: "Pod"'),
        ({}, {"target": {}}, 422, "target.name: Required value"),
        ({}, {**BINDING, "metadata": {"name": "other"}}, 400, "name in URL does not match name in Binding object"),
        ({}, {**BINDING, "metadata": {"uid": "other"}}, 409, "Precondition failed"),
        ({"schedulingGates": [{"name": "g"}]}, BINDING, 409, "pod web has non-empty .spec.schedulingGates"),
    ],
)
def test_invalid_binding_is_rejected(api: Api, spec: Object, body: Object, status: int, text: str) -> None:
    api.create("pods", api.pod(**spec))
    refused = api.send("POST", api.path("pods", "web", "binding"), body)
    assert refused.status == status
    assert text in refused.message
    assert "nodeName" not in api.get("pods", "web").obj["spec"]
