"""Our NodeRestriction does what kube-apiserver's did with the same requests; see node_contract.py."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from kcm.protocols.admission_plugins import ON_BY_DEFAULT, TAINT_NODES
from kcm.runtime.apiserver.core.account_tokens import AccountTokens
from kcm.runtime.signing.tokens import SigningKey
from tests.runtime.apiserver import contract, node_contract
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contract import Send

KEY = SigningKey(generate_private_key(SECP256R1()))
REAL_ANSWERS = json.loads(node_contract.ANSWERS.read_text())


@pytest.mark.parametrize("scenario", node_contract.SCENARIOS)
def test_our_responses_are_those_of_kube_apiserver(make_api: type[Api], scenario: str) -> None:
    api = make_api(plugins=ON_BY_DEFAULT - {TAINT_NODES}, tokens=AccountTokens(KEY))
    api.create("namespaces", {"metadata": {"name": contract.NAMESPACE}})

    answers = node_contract.play(scenario, api.answer)

    steps = node_contract.SCENARIOS[scenario]
    for i, (step, ours, theirs) in enumerate(zip(steps, answers, REAL_ANSWERS[scenario], strict=True)):
        assert ours == theirs, f"{i}: {step.method} {step.path}"


@pytest.fixture(scope="module")
def real_send() -> Iterator[Send]:
    with node_contract.real_sender() as send:
        if send is None:
            pytest.skip("there is no kube-apiserver: KUBEBUILDER_ASSETS names the directory with it and etcd")
        yield send


@pytest.mark.cluster
@pytest.mark.parametrize("scenario", node_contract.SCENARIOS)
def test_the_recorded_responses_are_those_of_kube_apiserver(real_send: Send, scenario: str) -> None:
    answers = node_contract.play(scenario, contract.in_a_namespace_of_its_own(real_send))
    assert answers == REAL_ANSWERS[scenario]
