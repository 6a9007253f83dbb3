"""Our responses about custom resources are those of kube-apiserver; see custom_resource_contract.py."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.runtime.apiserver import contract, custom_resource_contract
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contract import JSON, Given, Send
from tests.runtime.apiserver.custom_resource_contract import SCENARIOS

REAL_ANSWERS = json.loads(custom_resource_contract.ANSWERS.read_text())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_our_responses_are_those_of_kube_apiserver(api: Api, scenario: str) -> None:
    api.create("namespaces", {"metadata": {"name": contract.NAMESPACE}})

    answers = custom_resource_contract.play(scenario, api.answer)

    for i, (step, ours, theirs) in enumerate(zip(SCENARIOS[scenario], answers, REAL_ANSWERS[scenario], strict=True)):
        assert ours == theirs, f"{i}: {step[0]} {step[1]}"


@pytest.fixture(scope="module")
def real_send(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Send]:
    from tests.e2e.kubectl import Api
    from tests.e2e.real_server import assets_or_skip, real_server

    assets = assets_or_skip()
    with real_server(tmp_path_factory.mktemp("real"), assets) as server:
        reached = Api(server.kubeconfig)
        send = contract.real_sender(reached.url, reached.token)
        send(Given("POST", "/api/v1/namespaces", b'{"metadata": {"name": "contract"}}', JSON, {}))
        yield custom_resource_contract.patiently(send)


@pytest.mark.cluster
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_recorded_responses_are_those_of_kube_apiserver(real_send: Send, scenario: str) -> None:
    assert custom_resource_contract.play(scenario, real_send) == REAL_ANSWERS[scenario]
