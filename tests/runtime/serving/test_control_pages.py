"""Pages /controllers and /controllers/NAME."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from msgspec import Struct
from msgspec.structs import replace

from kcm.runtime.serving.authorization import PathsAllowed
from kcm.runtime.serving.debug_pages import DebugPages
from kcm.runtime.serving.site import Site
from tests.runtime.serving.conftest import RequestPage


class Shown(Struct, rename="camel"):
    """State that the fake system shows."""

    up_seconds: float


class Fake:
    """Fake system with the controller "shop"."""

    def debug_page(self, controller: str, path: str, query: Mapping[str, list[str]]) -> tuple[str, str]:
        raise LookupError(f"{controller} has no page {path!r}: {query}")

    def controller_states(self) -> Struct:
        return Shown(1.5)

    def controller_details(self, controller: str) -> Struct:
        if controller != "shop":
            raise LookupError(f'controllers "{controller}" not found')
        return Shown(2.5)

    def activities(self) -> Mapping[int, Mapping[str, str]]:
        return {}

    def waits(self) -> Sequence[tuple[Mapping[str, str], int, float]]:
        return ()


@pytest.fixture
def pages() -> DebugPages:
    return DebugPages()


@pytest.fixture
def site(site: Site, pages: DebugPages) -> Site:
    return replace(site, debug=pages)


def test_states_are_shown_as_json(request_page: RequestPage, pages: DebugPages) -> None:
    pages.set(Fake())
    answer = request_page("/controllers")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert json.loads(answer.text) == {"upSeconds": 1.5}
    assert json.loads(request_page("/controllers/shop").text) == {"upSeconds": 2.5}


@pytest.mark.parametrize("path", ["/controllers/nobody", "/controllers/shop/more", "/controllersome"])
def test_unknown_controller_is_not_found(request_page: RequestPage, pages: DebugPages, path: str) -> None:
    pages.set(Fake())
    answer = request_page(path)
    assert answer.status == 404
    assert json.loads(answer.text)["reason"] == "NotFound"


def test_other_methods_are_refused(request_page: RequestPage, pages: DebugPages) -> None:
    pages.set(Fake())
    answer = request_page("/controllers/shop", method="DELETE")
    assert (answer.status, json.loads(answer.text)["reason"]) == (405, "MethodNotAllowed")


def test_states_require_authorization(request_page: RequestPage, pages: DebugPages) -> None:
    pages.set(Fake())
    assert request_page("/controllers", authorizer=PathsAllowed(["/healthz"])).status == 403
    assert request_page("/controllers", authorizer=PathsAllowed(["/controllers"])).status == 200


def test_states_are_unavailable_before_the_system_runs(request_page: RequestPage) -> None:
    assert request_page("/controllers").status == 503
