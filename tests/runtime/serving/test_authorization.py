"""Authorization of requests to the serving port."""

from __future__ import annotations

import json

import pytest
from structlog.testing import LogCapture

from kcm.runtime.serving.authorization import PathsAllowed
from tests.runtime.serving.conftest import Ask


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
def test_paths_that_are_not_for_everybody_are_forbidden(ask: Ask, path: str, status: int) -> None:
    assert ask(path, authorizer=PathsAllowed(("/healthz", "/readyz", "/livez"))).status == status


def test_a_refusal_is_a_status_object(ask: Ask, logged: LogCapture) -> None:
    answer = ask("/metrics", authorizer=PathsAllowed(()), method="DELETE")
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
def test_allowed_paths_may_lack_a_slash_and_end_in_a_star(ask: Ask, allowed: str, path: str, status: int) -> None:
    assert ask(path, authorizer=PathsAllowed((allowed,))).status == status
