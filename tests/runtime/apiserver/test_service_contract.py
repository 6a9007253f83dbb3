"""Our responses about Services are those that kube-apiserver gave to the same requests; see service_contract.py."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.runtime.apiserver import contract, service_contract
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contract import Given, Send

REAL_ANSWERS = json.loads(service_contract.ANSWERS.read_text())


@pytest.mark.parametrize("scenario", service_contract.SCENARIOS)
def test_our_responses_are_those_of_kube_apiserver(make_api: type[Api], scenario: str) -> None:
    api = make_api(service_ranges=service_contract.RANGES[scenario.partition(":")[0]])
    api.create("namespaces", {"metadata": {"name": contract.NAMESPACE}})

    answers = service_contract.play(scenario, api.answer)

    steps = service_contract.SCENARIOS[scenario]
    for i, (step, ours, theirs) in enumerate(zip(steps, answers, REAL_ANSWERS[scenario], strict=True)):
        assert ours == theirs, f"{i}: {step.method} {step.path}"


@pytest.fixture(scope="module")
def real_sends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Send]]:
    from tests.e2e.kubectl import Api
    from tests.e2e.real_server import assets_or_skip, real_server

    assets = assets_or_skip()
    single, dual = (
        real_server(tmp_path_factory.mktemp(stack), assets, service_contract.flag(stack))
        for stack in service_contract.RANGES
    )
    with single as one, dual as other:
        reached = [Api(server.kubeconfig) for server in (one, other)]
        senders = [contract.real_sender(api.url, api.token) for api in reached]
        yield dict(zip(service_contract.RANGES, senders, strict=True))


@pytest.mark.cluster
@pytest.mark.parametrize("scenario", service_contract.SCENARIOS)
def test_the_recorded_responses_are_those_of_kube_apiserver(real_sends: dict[str, Send], scenario: str) -> None:
    send = contract.in_a_namespace_of_its_own(real_sends[scenario.partition(":")[0]])
    try:
        assert service_contract.play(scenario, send) == REAL_ANSWERS[scenario]
    finally:
        send(Given("DELETE", f"/api/v1/namespaces/{contract.NAMESPACE}/services", b"", "", {}))
