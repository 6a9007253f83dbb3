"""Reader of an API server: what it requests, and what it does with refusals."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from kcm.actors.explanation.api_reader import ApiReader
from kcm.actors.explanation.evidence import Evidence, ReadError
from kcm.actors.explanation.explain import explain
from kcm.protocols.resources import DEPLOYMENTS, PODS, SECRETS
from kcm.runtime.client.api import METADATA_LIST, Request, Response
from tests.actors.explanation.scenario import Scene
from tests.actors.explanation.stage import NAMESPACE, Stage


class Recorder:
    """Server that responds to each path with a status and a body, and keeps the requests."""

    def __init__(self, **responses: tuple[int, Any]) -> None:
        self.responses, self.requests = responses, list[Request]()

    def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        kind = "list" if "fieldSelector" in request.query or request.path.endswith("s") else "get"
        status, body = self.responses[kind]
        return Response(status=status, body=json.dumps(body).encode())


WEB = {"metadata": {"name": "web", "namespace": "shop"}}
FORBIDDEN = (403, {"message": "pods is forbidden"})


def test_object_that_may_only_be_listed_is_listed_by_its_name() -> None:
    server = Recorder(get=FORBIDDEN, list=(200, {"items": [WEB]}))
    assert ApiReader(server).get(PODS, "shop/web") == WEB
    assert dict(server.requests[1].query) == {"fieldSelector": "metadata.name=web"}


def test_only_metadata_of_secrets_is_read() -> None:
    server = Recorder(list=(200, {"items": [WEB]}))
    assert ApiReader(server).get(SECRETS, "shop/web") == WEB
    assert [request.accept for request in server.requests] == [METADATA_LIST]


def test_missing_object_is_none_and_a_refusal_is_an_error() -> None:
    assert ApiReader(Recorder(get=(404, {"message": "not found"}))).get(PODS, "shop/web") is None
    with pytest.raises(ReadError, match="pods is forbidden"):
        ApiReader(Recorder(get=FORBIDDEN, list=FORBIDDEN)).get(PODS, "shop/web")


def test_nothing_is_read_after_the_time_is_over() -> None:
    left = iter([3.0, 0.0])
    server = Recorder(get=(200, WEB))
    reader = ApiReader(server, left=lambda: next(left))
    reader.get(PODS, "shop/web")
    with pytest.raises(ReadError, match="no time is left"):
        reader.get(PODS, "shop/web")
    assert [request.timeout for request in server.requests] == [3.0]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def test_explanation_over_requests_is_that_of_the_objects(stage: Stage) -> None:
    requests: list[Request] = []

    def ask(request: Request) -> Response:
        requests.append(request)
        return stage.cluster.request(request.method, request.path, query=request.query, accept=request.accept)

    Scene(stage, NAMESPACE, random.Random(1)).pod_owner("image", kind="Deployment", container={"image": "nginx:404"})
    stage.run(20.0)
    key = f"{NAMESPACE}/image"

    found = explain(DEPLOYMENTS, key, Evidence(ApiReader(ask), now=stage.cluster.clock.now()))

    assert [cause.code for cause in found.causes] == ["image-pull"]
    assert found.causes == stage.why("deployment", "image", with_manager=False).causes
    selectors = {request.query.get("labelSelector") for request in requests if request.path.endswith("/replicasets")}
    assert selectors == {"app=image"}
    assert found.notes == ()


def test_kind_of_a_custom_resource_is_found_by_discovery() -> None:
    resource = {
        "resource": "widgets",
        "responseKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
        "scope": "Namespaced",
        "singularResource": "widget",
        "shortNames": ["wd"],
    }
    group = {"metadata": {"name": "example.com"}, "versions": [{"version": "v1", "resources": [resource]}]}
    reader = ApiReader(lambda _request: Response(status=200, body=json.dumps({"items": [group]}).encode()))
    for name in ("widget", "widgets", "Widget", "wd"):
        found = reader.find("", name)
        assert found is not None
        assert (found.id, found.namespaced) == ("example.com/v1/widgets", True)
    assert reader.find("other.com", "widget") is None
