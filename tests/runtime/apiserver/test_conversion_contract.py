"""Our versions of custom kinds are those of kube-apiserver; see conversion_contract.py."""

from __future__ import annotations

import json
from collections.abc import Iterator

import orjson
import pytest

from kcm.runtime.apiserver.storage.watches import Watch
from kcm.runtime.client.api import Request
from tests.runtime.apiserver import conversion_contract
from tests.runtime.apiserver.conftest import Api, Listener
from tests.runtime.apiserver.contract import Given
from tests.runtime.apiserver.conversion_contract import SCENARIOS, WATCH, Reply, Side
from tests.runtime.apiserver.converters import Converter

REAL_ANSWERS = json.loads(conversion_contract.ANSWERS.read_text())


def send(api: Api, given: Given) -> Reply:
    method = "GET" if given.method == WATCH else given.method
    request = Request(
        method=method,
        path=given.path,
        query=given.query,
        body=given.body,
        content_type=given.type,
        agent="contract",
    )
    if given.method == WATCH:
        listener = Listener()
        watch = api.server.watch(request, deliver=listener.deliver, end=listener.end)
        assert isinstance(watch, Watch)
        return Reply(200, {}, [watch.definition.deprecation] if watch.definition.deprecation else [], listener.events)
    response = api.server.handle(request)
    return Reply(response.status, orjson.loads(response.body), list(response.warnings), [])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_custom_objects_are_converted_as_by_kube_apiserver(make_api: type[Api], scenario: str) -> None:
    hook = Converter()
    api = make_api(ask=hook.ask)
    api.create("namespaces", {"metadata": {"name": "contract"}})

    side = Side(lambda given: send(api, given), hook, "https://127.0.0.1:9443", b"")
    answers = conversion_contract.play(scenario, side)["answers"]
    for i, (step, ours, theirs) in enumerate(
        zip(SCENARIOS[scenario], answers, REAL_ANSWERS[scenario]["answers"], strict=True)
    ):
        assert ours == theirs, f"{i}: {step[0]} {step[1]}"


@pytest.fixture(scope="module")
def real_side() -> Iterator[Side]:
    with conversion_contract.real_side() as side:
        if side is None:
            pytest.skip("there is no kube-apiserver: KUBEBUILDER_ASSETS names the directory with it and etcd")
        yield side


@pytest.mark.cluster
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_recorded_answers_are_those_of_kube_apiserver(real_side: Side, scenario: str) -> None:
    assert conversion_contract.play(scenario, real_side) == REAL_ANSWERS[scenario]
