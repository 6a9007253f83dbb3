"""Credentials of a controller's service account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from kcm.protocols.times import format_time
from kcm.runtime.client.account_tokens import AccountToken
from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.config import ConfigError

NOW = 1_800_000_000.0
ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/job-controller"
TOKEN, ALL = f"{ACCOUNT}/token", "/api/v1/namespaces/kube-system/serviceaccounts"
SYSTEM = "/api/v1/namespaces/kube-system"


def response(code: int, **fields: Any) -> Response:
    return Response(status=code, body=orjson.dumps(fields))


def issued(seconds: float = 3600.0, token: str = "t") -> Response:
    return response(201, status={"token": token, "expirationTimestamp": format_time(NOW + seconds)})


class Server:
    """Fake server for token requests.

    responses: by method and path, in order; the last one is repeated.
    """

    def __init__(self, responses: dict[str, list[Response]]) -> None:
        self.responses, self.requests, self.bodies, self.pauses = responses, list[str](), list[Any](), list[float]()
        self.source = AccountToken("job-controller", request=self.ask, pause=self.pauses.append, now=lambda: NOW)

    def ask(self, request: Request) -> Response:
        what = f"{request.method} {request.path}"
        self.requests.append(what)
        self.bodies.append(orjson.loads(request.body) if request.body else None)
        left = self.responses[what]
        return left.pop(0) if len(left) > 1 else left[0]


def test_token_is_requested_for_an_hour_and_used_for_four_fifths_of_it() -> None:
    server = Server({f"GET {ACCOUNT}": [response(200)], f"POST {TOKEN}": [issued()]})
    credential = server.source.load()
    assert (credential.authorization, credential.lifetime) == ("Bearer t", 2880.0)
    assert server.requests == [f"GET {ACCOUNT}", f"POST {TOKEN}"]
    assert server.bodies[1] == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }


@pytest.mark.parametrize("seconds", [-100.0, 0.0, 599.0])
def test_clock_skew_of_the_server_causes_no_continuous_requests(seconds: float) -> None:
    server = Server({f"GET {ACCOUNT}": [response(200)], f"POST {TOKEN}": [issued(seconds)]})
    assert server.source.load().lifetime == 480.0


@pytest.mark.parametrize("created", [201, 409])
def test_missing_account_is_created(created: int) -> None:
    server = Server(
        {
            f"GET {ACCOUNT}": [response(404)],
            f"GET {SYSTEM}": [response(200)],
            f"POST {ALL}": [response(created)],
            f"POST {TOKEN}": [issued()],
        }
    )
    assert server.source.load().authorization == "Bearer t"
    assert server.requests[-2:] == [f"POST {ALL}", f"POST {TOKEN}"]
    assert server.bodies[-2]["metadata"] == {"name": "job-controller", "namespace": "kube-system"}


@pytest.mark.parametrize("may", [201, 403])
def test_missing_namespace_is_created_if_permitted(may: int) -> None:
    server = Server(
        {
            f"GET {ACCOUNT}": [response(404)],
            f"GET {SYSTEM}": [response(404)],
            "POST /api/v1/namespaces": [response(may)],
            f"POST {ALL}": [response(201)],
            f"POST {TOKEN}": [issued()],
        }
    )
    assert server.source.load().authorization == "Bearer t"


@pytest.mark.parametrize(
    ("responses", "missing"),
    [
        (
            {f"GET {ACCOUNT}": [response(403, message="no get")]},
            "get serviceaccount kube-system/job-controller: no get",
        ),
        (
            {f"GET {ACCOUNT}": [response(404)], f"GET {SYSTEM}": [response(200)], f"POST {ALL}": [response(403)]},
            "create serviceaccount kube-system/job-controller: the server returned 403",
        ),
        (
            {f"GET {ACCOUNT}": [response(200)], f"POST {TOKEN}": [response(403, message="no token")]},
            "create serviceaccounts/token kube-system/job-controller: no token",
        ),
    ],
)
def test_forbidden_request_is_reported_without_retry(responses: dict[str, list[Response]], missing: str) -> None:
    server = Server(responses)
    with pytest.raises(ConfigError) as caught:
        server.source.load()
    assert str(caught.value) == f"failed to get token for kube-system/job-controller: {missing}"
    assert server.pauses == []


@pytest.mark.parametrize(
    "failure",
    [
        response(500),
        Response(status=0, error="connection refused"),
        response(201),
        response(201, status={"token": "t"}),
    ],
)
def test_failed_request_is_tried_four_times(failure: Response) -> None:
    server = Server({f"GET {ACCOUNT}": [response(200)], f"POST {TOKEN}": [failure]})
    with pytest.raises(ConfigError, match="failed to get token for kube-system/job-controller"):
        server.source.load()
    assert server.pauses == [0.5, 1.0, 2.0]
    server = Server({f"GET {ACCOUNT}": [response(200)], f"POST {TOKEN}": [failure, failure, issued()]})
    assert server.source.load().authorization == "Bearer t"
    assert server.pauses == [0.5, 1.0]


def test_invalid_token_is_not_put_into_a_header() -> None:
    server = Server({f"GET {ACCOUNT}": [response(200)], f"POST {TOKEN}": [issued(token="a\nb")]})
    with pytest.raises(ConfigError):
        server.source.load()


def test_pauses_between_retries_end_with_the_process() -> None:
    pauses: list[Callable[[float], object]] = [lambda _seconds: True]
    server = Server({f"GET {ACCOUNT}": [response(503)]})
    server.source = AccountToken("job-controller", request=server.ask, pause=pauses[0], now=lambda: NOW)
    with pytest.raises(ConfigError, match="the server returned 503"):
        server.source.load()
