"""Suspended requests resume against the current state once they have the results of calls."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcm.protocols.admission_plugins import ON_BY_DEFAULT
from kcm.runtime.apiserver.core.questions import ELAPSED, Answer, Delay, Question
from kcm.runtime.apiserver.core.suspended_requests import LONGEST, Suspended
from kcm.runtime.client.api import Request, Response
from tests.runtime.apiserver.conftest import Api

POD = {"metadata": {"generateName": "web-"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
PATH = "/api/v1/namespaces/default/pods"


@pytest.fixture
def api(make_api: type[Api]) -> Api:
    return make_api(plugins=ON_BY_DEFAULT)


def begun(api: Api) -> Suspended:
    """Begin to create a pod whose service account does not exist yet."""
    outcome = api.server.begin(Request(method="POST", path=PATH, body=orjson.dumps(POD)))
    assert isinstance(outcome, Suspended)
    return outcome


def resumed(suspended: Suspended) -> Response | Suspended:
    return suspended.resume([ELAPSED for _ in suspended.questions])


def body(outcome: Response | Suspended) -> dict[str, Any]:
    assert isinstance(outcome, Response)
    decoded: dict[str, Any] = orjson.loads(outcome.body)
    return decoded


def test_other_requests_are_handled_while_one_is_suspended(api: Api) -> None:
    revision, waiting = api.server.revision, begun(api)
    assert waiting.questions == (Delay(0.15, 0),)
    assert api.server.revision == revision

    api.create("serviceaccounts", {"metadata": {"name": "default"}})
    made = resumed(waiting)

    assert body(made)["spec"]["serviceAccountName"] == "default"
    assert api.list("pods").names == [body(made)["metadata"]["name"]]


def test_suspended_request_is_rejected_after_nine_pauses(api: Api) -> None:
    outcome: Response | Suspended = begun(api)
    pauses = 0
    while isinstance(outcome, Suspended):
        pauses += len(outcome.questions)
        outcome = resumed(outcome)
    assert (pauses, outcome.status) == (9, 403)
    assert "error looking up service account default/default" in body(outcome)["message"]


def test_each_attempt_uses_the_same_random_values(api: Api) -> None:
    waiting = begun(api)
    for _ in range(3):
        resumed(waiting)
    api.clock.time += 1.0
    api.create("serviceaccounts", {"metadata": {"name": "default"}})
    before = api.create("configmaps", {"metadata": {"name": "c"}}).meta
    meta = body(resumed(waiting))["metadata"]
    assert meta["uid"] < before["uid"]
    assert meta["creationTimestamp"] < before["creationTimestamp"]


def test_suspended_request_times_out(api: Api) -> None:
    waiting = begun(api)
    api.clock.time += LONGEST + 1
    refused = resumed(waiting)
    assert isinstance(refused, Response)
    assert (refused.status, body(refused)["reason"]) == (504, "Timeout")


def test_synchronous_caller_pauses_until_the_response(make_api: type[Api]) -> None:
    asked: list[Question] = []

    def ask(question: Question) -> Answer:
        asked.append(question)
        if len(asked) == 3:
            api.create("serviceaccounts", {"metadata": {"name": "default"}})
        return ELAPSED

    api = make_api(plugins=ON_BY_DEFAULT, call_webhook=ask)
    assert api.create("pods", POD).status == 201
    assert asked == [Delay(0.15, number) for number in range(3)]
