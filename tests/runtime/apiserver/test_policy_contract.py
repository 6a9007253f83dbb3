"""What becomes of admission policies, and what they do, is as with kube-apiserver; see policy_contract.py."""

from __future__ import annotations

import json

import pytest

from tests.runtime.apiserver import contract, policy_contract
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contract import Send

REAL_ANSWERS = json.loads(policy_contract.ANSWERS.read_text())


@pytest.mark.parametrize("scenario", policy_contract.SCENARIOS)
def test_our_responses_are_those_of_kube_apiserver(api: Api, scenario: str) -> None:
    api.create("namespaces", {"metadata": {"name": contract.NAMESPACE}})

    answers = policy_contract.play(policy_contract.SCENARIOS[scenario], api.answer)

    steps = policy_contract.SCENARIOS[scenario]
    for place, (step, ours, theirs) in enumerate(zip(steps, answers, REAL_ANSWERS[scenario], strict=True)):
        assert ours == theirs, f"{place}: {step.method} {step.path}"


@pytest.mark.cluster
@pytest.mark.parametrize("scenario", policy_contract.SCENARIOS)
def test_the_recorded_responses_are_those_of_kube_apiserver(real_send: Send, scenario: str) -> None:
    steps = policy_contract.SCENARIOS[scenario]
    assert policy_contract.play(steps, policy_contract.tidied(real_send), waits=True) == REAL_ANSWERS[scenario]
