"""Debug pages of controllers (/debug/controllers/<name>/…)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kcm.runtime.serving.authorization import PathsAllowed
from kcm.runtime.serving.debug_pages import DebugPages
from kcm.runtime.serving.site import Site
from tests.runtime.serving.conftest import Ask


class Shop:
    """Fake source with one page, and another that times out."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Mapping[str, list[str]]]] = []

    def __call__(self, controller: str, path: str, query: Mapping[str, list[str]]) -> tuple[str, str]:
        self.asked.append((controller, path, dict(query)))
        match path:
            case "/graph":
                return "digraph {}", "text/vnd.graphviz"
            case "/slow":
                raise TimeoutError("shop did not answer within 30 s")
            case "/broken":
                raise RuntimeError("no stock")
        raise LookupError(path)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def pages() -> DebugPages:
    return DebugPages()


@pytest.fixture
def site(site: Site, pages: DebugPages) -> Site:
    return replace(site, debug=pages)


def test_a_page_of_a_controller_is_shown_with_its_content_type(ask: Ask, pages: DebugPages, shop: Shop) -> None:
    pages.set(shop)
    answer = ask("/debug/controllers/shop/graph?uid=a&uid=b&x=", profiling=False)
    assert (answer.status, answer.text) == (200, "digraph {}")
    assert answer.headers["Content-Type"] == "text/vnd.graphviz"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert shop.asked == [("shop", "/graph", {"uid": ["a", "b"], "x": [""]})]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/debug/controllers/shop", ("shop", "", {})),
        ("/debug/controllers/shop/", ("shop", "/", {})),
        ("/debug/controllers/shop/a/b", ("shop", "/a/b", {})),
    ],
)
def test_unknown_page_is_not_found(
    ask: Ask, pages: DebugPages, shop: Shop, path: str, asked: tuple[str, str, dict[str, list[str]]]
) -> None:
    pages.set(shop)
    assert (ask(path).status, shop.asked) == (404, [asked])


def test_before_anything_runs_nothing_is_found(ask: Ask) -> None:
    assert ask("/debug/controllers/shop/graph").status == 404


def test_timeout_is_504_and_error_is_500(ask: Ask, pages: DebugPages, shop: Shop) -> None:
    pages.set(shop)
    slow = ask("/debug/controllers/shop/slow")
    assert (slow.status, slow.text) == (504, "shop did not answer within 30 s\n")
    assert ask("/debug/controllers/shop/broken").status == 500


def test_it_is_for_those_who_may_see_it(ask: Ask, pages: DebugPages, shop: Shop) -> None:
    pages.set(shop)
    assert ask("/debug/controllers/shop/graph", authorizer=PathsAllowed(["/healthz"])).status == 403
    assert shop.asked == []
    assert ask("/debug/controllers/shop/graph", authorizer=PathsAllowed(["/debug/controllers/*"])).status == 200
