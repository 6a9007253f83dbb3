"""Our responses about requests for certificates are those that kube-apiserver gave; see certificate_contract.py."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from protocols.objects import Object
from tests.runtime.apiserver import certificate_contract, contract
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contract import Given, Send

REAL_ANSWERS = json.loads(certificate_contract.ANSWERS.read_text())


@pytest.mark.parametrize("scenario", certificate_contract.SCENARIOS)
def test_our_responses_are_those_of_kube_apiserver(api: Api, scenario: str) -> None:
    def send(given: Given) -> tuple[int, Object]:
        answer = api.send(given.method, given.path, given.body, type_=given.type, **given.query)
        return answer.status, answer.obj

    answers = certificate_contract.play(scenario, send)

    steps = certificate_contract.SCENARIOS[scenario]
    for i, (step, ours, theirs) in enumerate(zip(steps, answers, REAL_ANSWERS[scenario], strict=True)):
        assert ours == theirs, f"{i}: {step.method} {step.path}"


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


@pytest.mark.cluster
@pytest.mark.parametrize("scenario", certificate_contract.SCENARIOS)
def test_the_recorded_responses_are_those_of_kube_apiserver(real_send: Send, scenario: str) -> None:
    assert certificate_contract.play(scenario, real_send) == REAL_ANSWERS[scenario]
