"""Requests for commands, and outcomes of responses."""

from __future__ import annotations

import orjson
import pytest

from kcm.actors.engine.dispatcher.requests import client_of, outcome_of, request_for
from kcm.protocols.messages.commands import (
    Command,
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    PatchType,
    Update,
)
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Done,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Outcome,
    Refused,
    ServerFailure,
    Throttled,
    Unknown,
)
from kcm.runtime.client.api import Response
from kcm.runtime.scheduling.permits import Permit


def test_apply_without_a_manager_uses_the_client_name() -> None:
    command = Patch("v1/pods", "d/a", b"{}", PatchType.APPLY)
    assert dict(request_for(command, manager="website-controller").query) == {"fieldManager": "website-controller"}
    merged = Patch("v1/pods", "d/a", b"{}", PatchType.MERGE)
    assert dict(request_for(merged, manager="website-controller").query) == {}


@pytest.mark.parametrize(
    ("command", "method", "path", "query"),
    [
        (Create("v1/pods", "d", b"{}"), "POST", "/api/v1/namespaces/d/pods", {}),
        (Create("v1/nodes", "", b"{}"), "POST", "/api/v1/nodes", {}),
        (Create("v1/pods", "d", b"{}", "a", "binding"), "POST", "/api/v1/namespaces/d/pods/a/binding", {}),
        (
            Update("apps/v1/replicasets", "d/a", b"{}", "status"),
            "PUT",
            "/apis/apps/v1/namespaces/d/replicasets/a/status",
            {},
        ),
        (Patch("v1/nodes", "n", b"{}"), "PATCH", "/api/v1/nodes/n", {}),
        (
            Patch("v1/pods", "d/a", b"{}", PatchType.APPLY, "", "me", True),
            "PATCH",
            "/api/v1/namespaces/d/pods/a",
            {"fieldManager": "me", "force": "true"},
        ),
        (Delete("v1/pods", "d/a"), "DELETE", "/api/v1/namespaces/d/pods/a", {}),
        (
            DeleteCollection("v1/pods", "d", "a=b", "spec.nodeName=n"),
            "DELETE",
            "/api/v1/namespaces/d/pods",
            {"labelSelector": "a=b", "fieldSelector": "spec.nodeName=n"},
        ),
        (
            DeleteCollection("v1/pods", "d", limit=50, continue_from="x"),
            "DELETE",
            "/api/v1/namespaces/d/pods",
            {"limit": "50", "continue": "x"},
        ),
        (Get("v1/pods", "d/a"), "GET", "/api/v1/namespaces/d/pods/a", {}),
        (
            Get("v1/pods", "d/a", as_informer=True),
            "GET",
            "/api/v1/namespaces/d/pods",
            {"fieldSelector": "metadata.name=a"},
        ),
        (Get("v1/nodes", "n", as_informer=True), "GET", "/api/v1/nodes", {"fieldSelector": "metadata.name=n"}),
        (List("v1/pods"), "GET", "/api/v1/pods", {}),
        (List("v1/pods", limit=1, continue_from="x"), "GET", "/api/v1/pods", {"limit": "1", "continue": "x"}),
    ],
)
def test_each_command_is_sent_as_one_request(command: Command, method: str, path: str, query: dict[str, str]) -> None:
    request = request_for(command, permit=Permit(7.0))
    assert (request.method, request.path, dict(request.query), request.permit) == (method, path, query, Permit(7.0))


def test_deletion_contains_preconditions_and_a_grace_period_of_zero() -> None:
    full = Delete("v1/pods", "d/a", uid="u", resource_version="5", grace_seconds=0, propagation="Orphan")
    assert orjson.loads(request_for(full).body) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": "u", "resourceVersion": "5"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Orphan",
    }
    bare = orjson.loads(request_for(Delete("v1/pods", "d/a")).body)
    assert bare == {"kind": "DeleteOptions", "apiVersion": "v1"}


def status(code: int, reason: str, message: str = "no") -> bytes:
    return orjson.dumps({"kind": "Status", "code": code, "reason": reason, "message": message})


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (Response(status=201, body=b"{}"), Done),
        (Response(status=404, body=status(404, "NotFound")), NotFound),
        (Response(status=409, body=status(409, "AlreadyExists")), AlreadyExists),
        (Response(status=409, body=status(409, "Conflict")), Conflict),
        (Response(status=401, body=b"Unauthorized"), Forbidden),
        (Response(status=403, body=status(403, "Forbidden")), Forbidden),
        (Response(status=410, body=status(410, "Expired")), Gone),
        (Response(status=422, body=status(422, "Invalid")), Invalid),
        (Response(status=400, body=b""), Invalid),
        (Response(status=429, retry_after=3.0), Throttled),
        (Response(status=500, body=b"[]"), ServerFailure),
        (Response(status=504, body=status(504, "Timeout")), Unknown),
        (Response(status=0, error="cut"), Unknown),
        (Response(status=0, error="refused", sent=False), Refused),
    ],
)
def test_response_determines_the_outcome(response: Response, expected: type[Outcome]) -> None:
    assert type(outcome_of(response)) is expected


def test_an_answer_without_a_status_object_is_quoted() -> None:
    outcome = outcome_of(Response(status=502, body=b"<html>bad gateway</html>"))
    assert isinstance(outcome, ServerFailure)
    assert outcome.message == "HTTP 502: <html>bad gateway</html>"


LISTED = Get("v1/pods", "d/a", as_informer=True)


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (
            {"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]},
            Done(b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}'),
        ),
        ({"kind": "PodList", "apiVersion": "v1", "items": []}, NotFound("v1/pods 'a' not found")),
        ({"kind": "PodList", "apiVersion": "v1", "items": None}, NotFound("v1/pods 'a' not found")),
        ([], Invalid("HTTP 200, but the body is not a list of v1/pods")),
    ],
)
def test_get_as_informer_reads_the_object_from_a_list(body: object, outcome: Outcome) -> None:
    assert outcome_of(Response(status=200, body=orjson.dumps(body)), LISTED) == outcome
    assert outcome_of(Response(status=403, body=b""), LISTED) == outcome_of(Response(status=403, body=b""))


def test_shared_reads_are_sent_as_the_informers_client() -> None:
    assert client_of(LISTED, "replicaset-controller") == "shared-informers"
    assert client_of(Get("v1/pods", "d/a"), "replicaset-controller") == "replicaset-controller"
