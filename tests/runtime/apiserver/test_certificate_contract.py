"""Our responses about requests for certificates are those that kube-apiserver gave; see certificate_contract.py."""

from __future__ import annotations

import json

import pytest

from tests.runtime.apiserver import certificate_contract
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contract import Send

REAL_ANSWERS = json.loads(certificate_contract.ANSWERS.read_text())


@pytest.mark.parametrize("scenario", certificate_contract.SCENARIOS)
def test_our_responses_are_those_of_kube_apiserver(api: Api, scenario: str) -> None:
    answers = certificate_contract.play(scenario, api.answer)

    steps = certificate_contract.SCENARIOS[scenario]
    for i, (step, ours, theirs) in enumerate(zip(steps, answers, REAL_ANSWERS[scenario], strict=True)):
        assert ours == theirs, f"{i}: {step.method} {step.path}"


@pytest.mark.cluster
@pytest.mark.parametrize("scenario", certificate_contract.SCENARIOS)
def test_the_recorded_responses_are_those_of_kube_apiserver(real_send: Send, scenario: str) -> None:
    assert certificate_contract.play(scenario, real_send) == REAL_ANSWERS[scenario]
