"""Sequences of updates of a pod's status, which the recorded responses of kube-apiserver do not cover."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.apiserver.conftest import Api

ENDED = {"terminated": {"exitCode": 1}}
RUNNING: dict[str, Any] = {"running": {}}


def report(api: Api, **status: Any) -> Any:
    return api.patch("pods", "web", {"status": status}, subresource="status")


def status_of(name: str, state: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "state": state}]


@pytest.mark.parametrize(
    "policy, container, accepted",
    [
        ("Always", {}, True),
        ("OnFailure", {}, True),
        ("Never", {}, False),
        ("Never", {"restartPolicy": "Always"}, True),
        ("Always", {"restartPolicy": "Never"}, False),
    ],
)
def test_ended_container_may_run_again_if_its_restart_policy_permits(
    api: Api, policy: str, container: dict[str, Any], accepted: bool
) -> None:
    pod = api.pod(restartPolicy=policy)
    pod["spec"]["containers"][0].update(container)
    name = pod["spec"]["containers"][0]["name"]
    assert api.create("pods", pod).status == 201
    assert report(api, containerStatuses=status_of(name, ENDED)).status == 200
    answer = report(api, containerStatuses=status_of(name, RUNNING))
    assert (answer.status == 200) is accepted
    if not accepted:
        assert answer.causes == {
            "status.containerStatuses[0].state": "Forbidden: may not be transitioned to non-terminated state"
        }


def test_nominated_node_of_a_bound_pod_is_rejected(api: Api) -> None:
    api.create("pods", api.pod(nodeName="n1"))
    assert report(api, nominatedNodeName="n2").causes == {
        "status.nominatedNodeName": "Forbidden: may not be set on pods that are already bound to a node"
    }


def test_claims_in_the_status_must_be_in_the_spec(api: Api) -> None:
    api.create("pods", api.pod(resourceClaims=[{"name": "a", "resourceClaimTemplateName": "t"}]))
    assert report(api, resourceClaimStatuses=[{"name": "a", "resourceClaimName": "web-a"}]).status == 200
    assert set(report(api, resourceClaimStatuses=[{"name": "b"}]).causes) == {"status.resourceClaimStatuses[0].name"}
