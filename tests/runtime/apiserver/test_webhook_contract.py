"""Our webhooks are asked and obeyed as kube-apiserver's are; see webhook_contract.py."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.runtime.apiserver import webhook_contract
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.webhook_contract import Side
from tests.runtime.apiserver.webhooks import Hook

REAL_ANSWERS = json.loads(webhook_contract.ANSWERS.read_text())


@pytest.mark.parametrize("scenario", webhook_contract.SCENARIOS)
def test_webhooks_are_asked_and_obeyed_as_by_kube_apiserver(make_api: type[Api], scenario: str) -> None:
    hook = Hook()
    api = make_api(ask=hook.ask)

    side = Side(api.answer, hook, "https://127.0.0.1:9443", b"", settle=lambda _wanted: None)
    ours, theirs = webhook_contract.play(scenario, side), REAL_ANSWERS[scenario]
    assert ours["answers"] == theirs["answers"]
    assert ours["heard"] == theirs["heard"]


@pytest.fixture(scope="module")
def real_side() -> Iterator[Side]:
    with webhook_contract.real_side() as side:
        if side is None:
            pytest.skip("there is no kube-apiserver: KUBEBUILDER_ASSETS names the directory with it and etcd")
        yield side


@pytest.mark.cluster
@pytest.mark.parametrize("scenario", webhook_contract.SCENARIOS)
def test_the_recorded_answers_are_those_of_kube_apiserver(real_side: Side, scenario: str) -> None:
    assert webhook_contract.play(scenario, real_side) == REAL_ANSWERS[scenario]
