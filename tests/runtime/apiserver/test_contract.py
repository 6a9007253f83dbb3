"""Our responses are those that kube-apiserver gave to the same requests; see contract.py."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from protocols.objects import Object
from tests.runtime.apiserver import contract
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contract import Given, Send

REAL_ANSWERS = json.loads(contract.ANSWERS.read_text())


@pytest.mark.parametrize("scenario", contract.SCENARIOS)
def test_our_responses_are_those_of_kube_apiserver(api: Api, scenario: str) -> None:
    api.create("namespaces", {"metadata": {"name": contract.NAMESPACE}})

    def send(given: Given) -> tuple[int, Object]:
        answer = api.send(given.method, given.path, given.body, type_=given.type, **given.query)
        return answer.status, answer.obj

    answers = contract.play(scenario, send)

    for step, ours, theirs in zip(contract.SCENARIOS[scenario], answers, REAL_ANSWERS[scenario], strict=True):
        assert ours == theirs, f"{step.method} {step.path}"


@pytest.mark.cluster
@pytest.mark.parametrize("scenario", contract.SCENARIOS)
def test_the_recorded_responses_are_those_of_kube_apiserver(real_send: Send, scenario: str) -> None:
    assert contract.play(scenario, contract.in_a_namespace_of_its_own(real_send)) == REAL_ANSWERS[scenario]


@pytest.fixture(scope="module")
def real_send(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Send]:
    from tests.e2e.kubectl import Api
    from tests.e2e.real_server import binaries, real_server

    assets = binaries()
    if assets is None:
        pytest.skip("there is no kube-apiserver: KUBEBUILDER_ASSETS names the directory with it and etcd")
    with real_server(tmp_path_factory.mktemp("real"), assets) as server:
        reached = Api(server.kubeconfig)
        yield contract.real_sender(reached.url, reached.token)
