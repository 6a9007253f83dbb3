"""Our responses are those that kube-apiserver gave to the same requests; see contract.py."""

from __future__ import annotations

import json

import pytest

from tests.runtime.apiserver import contract
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contract import Send

REAL_ANSWERS = json.loads(contract.ANSWERS.read_text())


@pytest.mark.parametrize("scenario", contract.SCENARIOS)
def test_our_responses_are_those_of_kube_apiserver(api: Api, scenario: str) -> None:
    api.create("namespaces", {"metadata": {"name": contract.NAMESPACE}})

    answers = contract.play(scenario, api.answer)

    for step, ours, theirs in zip(contract.SCENARIOS[scenario], answers, REAL_ANSWERS[scenario], strict=True):
        assert ours == theirs, f"{step.method} {step.path}"


@pytest.mark.cluster
@pytest.mark.parametrize("scenario", contract.SCENARIOS)
def test_the_recorded_responses_are_those_of_kube_apiserver(real_send: Send, scenario: str) -> None:
    assert contract.play(scenario, contract.in_a_namespace_of_its_own(real_send)) == REAL_ANSWERS[scenario]
