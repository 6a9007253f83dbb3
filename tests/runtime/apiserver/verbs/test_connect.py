"""Admission of requests to connect to pods, nodes and Services."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcm.runtime.apiserver.core.questions import ELAPSED, Answer, Post, Question
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.client.api import Request
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contracts.admission_webhooks import hook

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
WEB = "/api/v1/namespaces/default/pods/web"
DENIED = 'admission webhook "h.example.com" denied the request: '


class Connections:
    """Server with a webhook for CONNECT, and the requests that the webhook has received."""

    def __init__(self, *resources: str, denied: str = "") -> None:
        self.seen: list[dict[str, Any]] = []
        self._denied = denied
        self.api = Api(call_webhook=self._answer)
        rules = hook("https://127.0.0.1/x", *resources, name="h.example.com", operations=["CONNECT"])
        assert self.api.send("POST", CONFIGURATIONS, {"metadata": {"name": "h"}, "webhooks": [rules]}).status == 201
        self.api.create("pods", self.api.pod())

    def _answer(self, question: Question) -> Answer:
        if not isinstance(question, Post):
            return ELAPSED
        request = json.loads(question.body)["request"]
        self.seen.append(request)
        response = {"uid": request["uid"], "allowed": not self._denied, "status": {"message": self._denied}}
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        return Answer(200, json.dumps(review).encode())

    def object_of(self, target: str, method: str = "POST") -> dict[str, Any]:
        """Return the object that the webhook receives for a request."""
        info = RequestInfo.parse(method, target.encode())
        request = Request(method=method, path=info.path, query=info.query)
        outcome = self.api.server.begin(request, info=info)
        assert self.api.server.webhook_calls.finish(outcome).status == 501
        found: dict[str, Any] = self.seen.pop()["object"]
        return found


def test_webhook_denies_attaching_to_a_pod() -> None:
    scene = Connections("pods/attach", denied="not allowed")
    for method in ("GET", "POST"):
        refused = scene.api.send(method, f"{WEB}/attach", container="main", stdin="true")
        assert (refused.status, refused.message) == (400, f"{DENIED}not allowed")
    seen = scene.seen[0]
    options = {"kind": "PodAttachOptions", "apiVersion": "v1", "stdin": True, "container": "main"}
    assert (seen["operation"], seen["name"], seen["namespace"]) == ("CONNECT", "web", "default")
    assert (seen["object"], seen["oldObject"], seen["options"]) == (options, None, None)
    assert seen["kind"] == {"group": "", "version": "v1", "kind": "PodAttachOptions"}
    assert (seen["resource"]["resource"], seen["subResource"]) == ("pods", "attach")


def test_other_requests_need_a_container_and_are_not_reviewed() -> None:
    scene = Connections("pods/attach", denied="not allowed")
    assert scene.api.send("POST", f"{WEB}/exec").status == 501
    every = Connections("*/*", denied="not allowed")
    assert every.api.send("GET", f"{WEB}/log").status == 501
    assert (scene.seen, every.seen) == ([], [])


def test_admitted_connection_still_needs_a_container() -> None:
    scene = Connections("pods/*")
    assert scene.api.send("POST", f"{WEB}/exec").status == 501
    assert len(scene.seen) == 1


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        ("exec?command=sh&command=-c&command=ls&stdout=1&tty=0", {"command": ["sh", "-c", "ls"], "stdout": True}),
        ("exec", {"command": None}),
        ("portforward?ports=80,81&ports=82", {"ports": [80, 81, 82]}),
        ("portforward", {}),
        ("proxy/a/b", {"path": "/a/b"}),
        ("proxy/", {"path": "/"}),
        ("proxy", {}),
    ],
)
def test_options_come_from_the_query_and_the_path(target: str, fields: dict[str, Any]) -> None:
    options = Connections("pods/*").object_of(f"{WEB}/{target}")
    assert {field: value for field, value in options.items() if field not in ("kind", "apiVersion")} == fields


def test_proxies_of_nodes_and_services_are_reviewed() -> None:
    scene = Connections("nodes/proxy", "services/proxy")
    assert scene.object_of("/api/v1/nodes/n/proxy/pods", "GET")["kind"] == "NodeProxyOptions"
    service = scene.object_of("/api/v1/namespaces/default/services/https:web:443/proxy/x", "GET")
    assert service == {"kind": "ServiceProxyOptions", "apiVersion": "v1", "path": "/x"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"ports": "x"}, 'cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax'),
        ({"ports": "70000"}, 'cannot convert to []int32: strconv.ParseUint: parsing "70000": value out of range'),
        ({"dryRun": "All"}, "dryRun is not supported"),
    ],
)
def test_invalid_options_are_rejected(query: dict[str, str], message: str) -> None:
    refused = Connections("pods/*").api.send("POST", f"{WEB}/portforward", **query)
    assert (refused.status, refused.message) == (400, message)


def test_policy_denies_exec_by_its_command() -> None:
    api = Api()
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]}
    validation = {"expression": "object.command[0] != 'rm'", "message": "no rm"}
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    for plural, spec in (("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)):
        assert api.send("POST", f"{group}/{plural}", {"metadata": {"name": "p"}, "spec": spec}).status == 201
    api.create("pods", api.pod())
    assert api.send("POST", f"{WEB}/exec", command="ls").status == 501
    refused = api.send("POST", f"{WEB}/exec", command="rm")
    assert refused.status == 422
    assert refused.message.endswith("denied request: no rm")
