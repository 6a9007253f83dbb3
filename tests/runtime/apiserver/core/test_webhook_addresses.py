"""Addresses of webhooks, and their substitutes for hollow pods."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcm.protocols.hollow_nodes import WEBHOOK
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core.questions import Answer, Post, Question
from tests.runtime.apiserver.conftest import Answer as Reply
from tests.runtime.apiserver.conftest import Api

V1, V2 = (f"/apis/example.com/{version}/namespaces/default/things" for version in ("v1", "v2"))
HOLLOW = (
    'Post "https://hook.default.svc:443/{path}?timeout={seconds}s": the pods of service "default/hook" are hollow '
    "and serve no requests (to admit everything, annotate the service with hollow.kcm.dev/webhook=admit)"
)


class RecordingWebhook:
    """Webhook that admits everything, and records the addresses of its calls."""

    def __init__(self) -> None:
        self.posts: list[Post] = []

    def __call__(self, question: Question) -> Answer:
        assert isinstance(question, Post)
        self.posts.append(question)
        review = orjson.loads(question.body)
        response = {"uid": review["request"]["uid"], "allowed": True}
        return Answer(200, orjson.dumps({**review, "request": None, "response": response}))


class Rig:
    def __init__(self, *, runtime: str = "hollow://1.36.0", annotated: str = "", value: str = "") -> None:
        # `annotated` is the kind of the object that has the annotation.
        self.asked = RecordingWebhook()
        self.api = Api(call_webhook=self.asked)

        def meta(kind: str, name: str) -> Object:
            return {"name": name, **({"annotations": {WEBHOOK: value}} if kind == annotated else {})}

        if runtime:
            self.api.create("nodes", {"metadata": meta("Node", "n"), "spec": {"podCIDR": "10.44.1.0/24"}})
            status = {"status": {"nodeInfo": {"containerRuntimeVersion": runtime}}}
            path = self.api.path("nodes", "n", "status")
            assert self.api.send("PATCH", path, status, type_=MERGE).status == 200
        self.api.create("pods", {**Api.pod("p"), "metadata": meta("Pod", "p")})
        ports = {"ports": [{"port": 443, "targetPort": 9443}]}
        self.api.create("services", {"metadata": meta("Service", "hook"), "spec": ports})

    def endpoint(self, address: str = "240.0.0.2", name: str = "hook-1", node: str = "n") -> None:
        endpoint: Object = {"addresses": [address], "targetRef": {"kind": "Pod", "name": "p", "namespace": "default"}}
        if node:
            endpoint["nodeName"] = node
        body = {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "hook"}},
            "addressType": "IPv4",
            "endpoints": [endpoint],
            "ports": [{"name": "", "port": 9443}],
        }
        assert self.api.create("endpointslices", body).status == 201

    def webhook(self, kind: str = "validating", policy: str = "Fail", **client: Any) -> None:
        hook = {
            "name": "check.example.com",
            "clientConfig": client or {"service": {"namespace": "default", "name": "hook", "path": "/check"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
            "failurePolicy": policy,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        body = {"metadata": {"name": "check"}, "webhooks": [hook]}
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
        assert self.api.send("POST", path, body).status == 201

    def write(self) -> Reply:
        return self.api.create("configmaps", {"metadata": {"name": "x"}})


MERGE = "application/merge-patch+json"


@pytest.mark.parametrize("kind", ["validating", "mutating"])
def test_webhook_of_hollow_pods_is_refused_without_a_connection(kind: str) -> None:
    rig = Rig()
    rig.endpoint()
    rig.webhook(kind)
    written = rig.write()
    assert (written.status, written.obj["message"]) == (
        500,
        'Internal error occurred: failed calling webhook "check.example.com": failed to call webhook: '
        + HOLLOW.format(path="check", seconds=10),
    )
    assert rig.asked.posts == []


@pytest.mark.parametrize("kind", ["validating", "mutating"])
def test_webhook_of_hollow_pods_with_policy_ignore_admits_without_a_connection(kind: str) -> None:
    rig = Rig()
    rig.endpoint()
    rig.webhook(kind, "Ignore")
    assert rig.write().status == 201
    assert rig.asked.posts == []


@pytest.mark.parametrize("kind", ["validating", "mutating"])
@pytest.mark.parametrize("annotated", ["Service", "Pod", "Node"])
def test_annotation_lets_a_webhook_of_hollow_pods_admit_everything(kind: str, annotated: str) -> None:
    rig = Rig(annotated=annotated, value="admit")
    rig.endpoint()
    rig.webhook(kind)
    assert rig.write().status == 201
    assert rig.asked.posts == []


def test_service_that_admits_needs_no_endpoint() -> None:
    rig = Rig(annotated="Service", value="admit")
    rig.webhook()
    assert rig.write().status == 201


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ("127.0.0.1:8443", ("127.0.0.1", 8443)),
        ("[::1]:8443", ("::1", 8443)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_annotation_leads_a_webhook_of_hollow_pods_to_a_program(value: str, at: tuple[str, int]) -> None:
    rig = Rig(annotated="Pod", value=value)
    rig.endpoint()
    rig.webhook()
    assert rig.write().status == 201
    (post,) = rig.asked.posts
    assert (post.url, post.address) == ("https://hook.default.svc:443/check?timeout=10s", at)


@pytest.mark.parametrize("value", ["true", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", ":80", "a b:80", "h:x"])
def test_unknown_value_of_the_annotation_is_refused(value: str) -> None:
    rig = Rig(annotated="Service", value=value)
    rig.endpoint()
    rig.webhook()
    written = rig.write()
    assert written.status == 500
    assert f'annotation hollow.kcm.dev/webhook must be "admit" or HOST:PORT, got "{value}"' in written.obj["message"]
    assert rig.asked.posts == []


@pytest.mark.parametrize(
    ("runtime", "node", "address", "is_called"),
    [
        ("containerd://2.1.0", "n", "10.1.2.3", True),
        ("", "", "10.1.2.3", True),
        ("", "", "240.0.0.2", False),
        ("", "", "198.18.0.1", False),
        ("hollow://1.36.0", "n", "10.44.1.2", False),
        ("hollow://1.36.0", "", "10.44.1.2", False),
        ("hollow://1.36.0", "", "10.44.2.2", True),
        ("", "gone", "10.1.2.3", False),
    ],
)
def test_only_endpoints_that_are_not_hollow_are_called(runtime: str, node: str, address: str, is_called: bool) -> None:
    rig = Rig(runtime=runtime)
    rig.endpoint(address, node=node)
    rig.webhook()
    assert (rig.write().status == 201) is is_called
    assert [post.address for post in rig.asked.posts] == ([(address, 9443)] if is_called else [])


def test_endpoint_that_is_not_hollow_is_preferred() -> None:
    rig = Rig(annotated="Service", value="admit")
    rig.endpoint()
    rig.endpoint("10.1.2.3", "hook-2", node="")
    rig.webhook()
    assert rig.write().status == 201
    assert [post.address for post in rig.asked.posts] == [("10.1.2.3", 9443)]


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        ("240.1.2.3", "240.1.2.3 is an address of hollow nodes and pods, which serve no requests"),
        ("[::ffff:240.1.2.3]", "240.1.2.3 is an address of hollow nodes and pods, which serve no requests"),
        ("10.44.1.7", "10.44.1.7 is an address of hollow nodes and pods, which serve no requests"),
        ("10.96.0.77", "10.96.0.77 is a cluster IP and cannot be called; specify the service instead"),
    ],
)
def test_url_that_leads_to_hollow_pods_or_services_is_refused(host: str, problem: str) -> None:
    rig = Rig()
    rig.api.server.publish_address("127.0.0.1", 6443)  # only a server with an address records cluster IPs
    fixed = {"clusterIP": "10.96.0.77", "ports": [{"port": 443}]}
    assert rig.api.create("services", {"metadata": {"name": "fixed"}, "spec": fixed}).status == 201
    rig.webhook(url=f"https://{host}:9443/check")
    written = rig.write()
    assert (written.status, problem in written.obj["message"]) == (500, True)
    assert rig.asked.posts == []


def test_url_of_another_machine_is_called() -> None:
    rig = Rig()
    rig.webhook(url="https://192.0.2.1:9443/check")
    assert rig.write().status == 201
    assert [post.url for post in rig.asked.posts] == ["https://192.0.2.1:9443/check?timeout=10s"]


@pytest.mark.parametrize("path", ["//check", "/check/", "/a/../check", "check"])
def test_path_of_a_url_is_cleaned_as_by_client_go(path: str) -> None:
    rig = Rig()
    rig.webhook(url=f"https://192.0.2.1:9443/{path}")
    assert rig.write().status == 201
    assert [post.url for post in rig.asked.posts] == ["https://192.0.2.1:9443/check?timeout=10s"]


def _define(rig: Rig) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    client = {"service": {"namespace": "default", "name": "hook", "path": "/convert"}}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")]
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": versions,
        "conversion": {
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
        },
    }
    rig.api.create("customresourcedefinitions", {"metadata": {"name": "things.example.com"}, "spec": spec})
    made = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"a": 1}}
    assert rig.api.send("POST", V1, made).status == 201


def test_conversion_by_hollow_pods_is_refused_without_a_connection() -> None:
    rig = Rig()
    rig.endpoint()
    _define(rig)
    found = rig.api.send("GET", f"{V2}/x")
    text = "conversion webhook for example.com/v1, Kind=Thing failed: " + HOLLOW.format(path="convert", seconds=30)
    assert (found.status, found.obj["message"]) == (500, text)
    assert rig.asked.posts == []


def test_annotation_converts_by_the_version_alone() -> None:
    """Objects are converted as with the conversion strategy None."""
    rig = Rig(annotated="Node", value="admit")
    rig.endpoint()
    _define(rig)
    found = rig.api.send("GET", f"{V2}/x")
    assert (found.status, found.obj["apiVersion"], found.obj["spec"]) == (200, "example.com/v2", {"a": 1})
    assert rig.asked.posts == []
