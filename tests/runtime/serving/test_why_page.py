"""Page /why."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import Struct
from msgspec.structs import replace

from kcm.runtime.serving.authorization import PathsAllowed
from kcm.runtime.serving.debug_pages import DebugPages, RunningSystem
from kcm.runtime.serving.site import Site
from tests.runtime.serving.conftest import RequestPage


class Found(Struct):
    verdict: str


def why(kind: str, namespace: str, name: str, cluster: str) -> Struct:
    if kind == "fable":
        raise LookupError("kind: the API server serves no kind 'fable'")
    if "%" in name:
        raise ValueError("name: the name of an object, not 'a%'")
    return Found(f"{kind} {namespace}/{name}{f' on {cluster}' if cluster else ''} is stuck")


@pytest.fixture
def site(site: Site) -> Site:
    pages = DebugPages()
    pages.set(cast("RunningSystem", SimpleNamespace(why=why)))
    return replace(site, debug=pages)


def message(text: str) -> Any:
    return json.loads(text)["message"]


def test_explanation_is_shown_as_json(request_page: RequestPage) -> None:
    answer = request_page("/why?kind=pod&namespace=shop&name=web")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert json.loads(answer.text) == {"verdict": "pod shop/web is stuck"}


def test_cluster_of_several_is_a_parameter(request_page: RequestPage) -> None:
    answer = request_page("/why?kind=pod&namespace=shop&name=web&cluster=edge")
    assert json.loads(answer.text) == {"verdict": "pod shop/web on edge is stuck"}


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("", 400, "kind and name are needed"),
        ("?kind=pod", 400, "kind and name are needed"),
        ("?kind=pod&name=a&uid=3", 400, "not uid"),
        ("?kind=pod&name=a&name=b", 400, "not name"),
        ("?kind=pod&name=a%2525", 400, "name: the name of an object"),
        ("?kind=fable&name=a", 404, "serves no kind 'fable'"),
    ],
)
def test_malformed_question_is_refused_with_its_reason(
    request_page: RequestPage, query: str, status: int, text: str
) -> None:
    answer = request_page(f"/why{query}")
    assert answer.status == status
    assert text in message(answer.text)


def test_explanation_can_only_be_read(request_page: RequestPage) -> None:
    assert request_page("/why?kind=pod&name=a", method="POST").status == 405


def test_explanation_requires_authorization(request_page: RequestPage) -> None:
    assert request_page("/why?kind=pod&name=a", authorizer=PathsAllowed(["/healthz"])).status == 403
    assert request_page("/why?kind=pod&name=a", authorizer=PathsAllowed(["/why"])).status == 200


class TestBeforeTheSystemRuns:
    @pytest.fixture
    def site(self, site: Site) -> Site:
        return replace(site, debug=DebugPages())

    def test_explanation_is_unavailable(self, request_page: RequestPage) -> None:
        assert request_page("/why?kind=pod&name=a").status == 503
