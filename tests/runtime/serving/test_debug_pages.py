"""Debug pages of controllers (/debug/controllers/<name>/…)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from msgspec import Struct
from msgspec.structs import replace

from kcm.runtime.serving.authorization import PathsAllowed
from kcm.runtime.serving.debug_pages import DebugPages, PendingChange
from kcm.runtime.serving.site import Site
from tests.runtime.serving.conftest import RequestPage


class Shop:
    """Fake system with one page, and another that times out."""

    def __init__(self) -> None:
        self.requested: list[tuple[str, str, Mapping[str, list[str]]]] = []

    def debug_page(self, controller: str, path: str, query: Mapping[str, list[str]]) -> tuple[str, str]:
        self.requested.append((controller, path, dict(query)))
        match path:
            case "/graph":
                return "digraph {}", "text/vnd.graphviz"
            case "/slow":
                raise TimeoutError("shop did not respond within 30 s")
            case "/broken":
                raise RuntimeError("no stock")
        raise LookupError(path)

    def shown(self, collection: str, name: str) -> Struct:
        raise NotImplementedError(collection, name)

    def change(self, collection: str, name: str, action: str, settings: Mapping[str, object]) -> PendingChange:
        raise NotImplementedError(collection, name, action, settings)

    def activities(self) -> Mapping[int, Mapping[str, str]]:
        return {}

    def why(self, kind: str, namespace: str, name: str, cluster: str) -> Struct:
        raise LookupError(f"kind: no {kind} {namespace}/{name} {cluster}")

    def waits(self) -> Sequence[tuple[Mapping[str, str], int, float]]:
        return ()


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def pages() -> DebugPages:
    return DebugPages()


@pytest.fixture
def site(site: Site, pages: DebugPages) -> Site:
    return replace(site, debug=pages)


def test_a_page_of_a_controller_is_shown_with_its_content_type(
    request_page: RequestPage, pages: DebugPages, shop: Shop
) -> None:
    pages.set(shop)
    answer = request_page("/debug/controllers/shop/graph?uid=a&uid=b&x=", profiling=False)
    assert (answer.status, answer.text) == (200, "digraph {}")
    assert answer.headers["Content-Type"] == "text/vnd.graphviz"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert shop.requested == [("shop", "/graph", {"uid": ["a", "b"], "x": [""]})]


@pytest.mark.parametrize(
    ("path", "requested"),
    [
        ("/debug/controllers/shop", ("shop", "", {})),
        ("/debug/controllers/shop/", ("shop", "/", {})),
        ("/debug/controllers/shop/a/b", ("shop", "/a/b", {})),
    ],
)
def test_unknown_page_is_not_found(
    request_page: RequestPage,
    pages: DebugPages,
    shop: Shop,
    path: str,
    requested: tuple[str, str, dict[str, list[str]]],
) -> None:
    pages.set(shop)
    assert (request_page(path).status, shop.requested) == (404, [requested])


def test_no_page_is_found_before_the_controllers_run(request_page: RequestPage) -> None:
    assert request_page("/debug/controllers/shop/graph").status == 404


def test_timeout_is_504_and_error_is_500(request_page: RequestPage, pages: DebugPages, shop: Shop) -> None:
    pages.set(shop)
    slow = request_page("/debug/controllers/shop/slow")
    assert (slow.status, slow.text) == (504, "shop did not respond within 30 s\n")
    assert request_page("/debug/controllers/shop/broken").status == 500


def test_page_requires_authorization(request_page: RequestPage, pages: DebugPages, shop: Shop) -> None:
    pages.set(shop)
    assert request_page("/debug/controllers/shop/graph", authorizer=PathsAllowed(["/healthz"])).status == 403
    assert shop.requested == []
    assert (
        request_page("/debug/controllers/shop/graph", authorizer=PathsAllowed(["/debug/controllers/*"])).status == 200
    )
