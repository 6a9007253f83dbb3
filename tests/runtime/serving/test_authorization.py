"""Authorization of requests to the serving port."""

from __future__ import annotations

import json

import pytest
from structlog.testing import LogCapture

from kcm.runtime.serving.authorization import PathsAllowed
from tests.runtime.serving.conftest import RequestPage


@pytest.mark.parametrize(
    "path, status",
    [
        ("/healthz", 200),
        ("/readyz", 404),
        ("/metrics", 403),
        ("/", 403),
        ("/nowhere", 403),
        ("/healthz/ping", 403),
    ],
)
def test_paths_that_are_not_public_are_forbidden(request_page: RequestPage, path: str, status: int) -> None:
    assert request_page(path, authorizer=PathsAllowed(("/healthz", "/readyz", "/livez"))).status == status


def test_rejection_is_a_status_object(request_page: RequestPage, logged: LogCapture) -> None:
    answer = request_page("/metrics", authorizer=PathsAllowed(()), method="DELETE")
    assert json.loads(answer.text) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'forbidden: User "system:anonymous" cannot delete path "/metrics"',
        "reason": "Forbidden",
        "details": {},
        "code": 403,
    }
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.headers["Cache-Control"] == "no-cache, private"


@pytest.mark.parametrize(
    "allowed, path, status",
    [
        ("healthz", "/healthz", 200),
        ("/metrics*", "/metrics/slis", 200),
        ("/metrics*", "/configz", 403),
        ("*", "/configz", 200),
    ],
)
def test_allowed_paths_may_omit_the_slash_and_end_in_a_wildcard(
    request_page: RequestPage, allowed: str, path: str, status: int
) -> None:
    assert request_page(path, authorizer=PathsAllowed((allowed,))).status == status
