"""Our admission does what kube-apiserver's did with the same requests; see admission_contract.py."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kcm.protocols.admission_plugins import ON_BY_DEFAULT
from tests.runtime.apiserver import admission_contract, contract
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contract import Send

REAL_ANSWERS = json.loads(admission_contract.ANSWERS.read_text())


@pytest.mark.parametrize("scenario", admission_contract.SCENARIOS)
def test_our_responses_are_those_of_kube_apiserver(make_api: type[Api], scenario: str) -> None:
    api = make_api(plugins=ON_BY_DEFAULT)
    api.create("namespaces", {"metadata": {"name": contract.NAMESPACE}})

    answers = admission_contract.play(scenario, api.answer)

    steps = admission_contract.SCENARIOS[scenario]
    for i, (step, ours, theirs) in enumerate(zip(steps, answers, REAL_ANSWERS[scenario], strict=True)):
        assert ours == theirs, f"{i}: {step.method} {step.path}"


@pytest.fixture(scope="module")
def real_send() -> Iterator[Send]:
    with admission_contract.real_sender() as send:
        if send is None:
            pytest.skip("there is no kube-apiserver: KUBEBUILDER_ASSETS names the directory with it and etcd")
        yield send


@pytest.mark.cluster
@pytest.mark.parametrize("scenario", admission_contract.SCENARIOS)
def test_the_recorded_responses_are_those_of_kube_apiserver(real_send: Send, scenario: str) -> None:
    answers = admission_contract.play(scenario, contract.in_a_namespace_of_its_own(real_send))
    assert answers == REAL_ANSWERS[scenario]
