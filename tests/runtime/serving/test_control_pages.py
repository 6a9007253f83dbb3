"""Pages /controllers, /controllers/NAME and /controllers/NAME/ACTION."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace
from structlog.testing import LogCapture

from kcm.runtime.serving.application import PageRequest
from kcm.runtime.serving.authorization import EverythingAllowed, PageUser, PathsAllowed
from kcm.runtime.serving.control_pages import LARGEST_SETTINGS
from kcm.runtime.serving.debug_pages import ChangeRefusedError, DebugPages, PendingChange
from kcm.runtime.serving.site import Site
from tests.runtime.serving.conftest import RequestPage

ADA = PageUser(name="ada", groups=("system:authenticated", "operators"))


class Shown(Struct, rename="camel"):
    """State that the fake system shows."""

    up_seconds: float


class Change:
    """Change that becomes visible when it has been checked a number of times."""

    def __init__(self, *, checks: int, is_needed: bool) -> None:
        self._checks, self.is_needed = checks, is_needed

    def is_done(self) -> bool:
        self._checks -= 1
        return self._checks < 0

    def result(self) -> Struct:
        return Shown(0.5)


class Fake:
    """Fake system with the controller "shop"."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str, str]] = []

    def debug_page(self, controller: str, path: str, query: Mapping[str, list[str]]) -> tuple[str, str]:
        raise LookupError(f"{controller} has no page {path!r}: {query}")

    def shown(self, collection: str, name: str) -> Struct:
        if name not in ("", "shop"):
            raise LookupError(f'{collection} "{name}" not found')
        return Shown(2.5 if name else 1.5)

    def change(self, collection: str, name: str, action: str, settings: Mapping[str, object]) -> PendingChange:
        self.shown(collection, name)
        if settings:
            raise ValueError(f"{action} takes no settings, and got {', '.join(settings)}")
        if action == "drain":
            raise ChangeRefusedError("cannot drain shop: it is disabled")
        self.changes.append((collection, name, action))
        return Change(checks={"restart": 10**9, "pause": 2}.get(action, 0), is_needed=action != "resume")

    def activities(self) -> Mapping[int, Mapping[str, str]]:
        return {}

    def why(self, kind: str, namespace: str, name: str, cluster: str) -> Struct:
        raise LookupError(f"kind: no {kind} {namespace}/{name} {cluster}")

    def waits(self) -> Sequence[tuple[Mapping[str, str], int, float]]:
        return ()


class KnowsAda:
    """Authenticator that takes every client for Ada."""

    async def user(self, request: PageRequest) -> PageUser:
        del request
        return ADA


@pytest.fixture
def pages() -> DebugPages:
    return DebugPages()


@pytest.fixture
def shop(pages: DebugPages) -> Fake:
    fake = Fake()
    pages.set(fake)
    return fake


@pytest.fixture
def site(site: Site, pages: DebugPages) -> Site:
    return replace(site, debug=pages)


def audited(logged: LogCapture) -> list[dict[str, Any]]:
    """Return the entries of requested changes, without what all of them have."""
    entries = [dict(entry) for entry in logged.entries if entry["event"] == "control request"]
    return [{key: value for key, value in entry.items() if key not in ("event", "groups")} for entry in entries]


@pytest.mark.usefixtures("shop")
def test_states_are_shown_as_json(request_page: RequestPage) -> None:
    answer = request_page("/controllers")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert json.loads(answer.text) == {"upSeconds": 1.5}
    assert json.loads(request_page("/controllers/shop").text) == {"upSeconds": 2.5}


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    "path",
    ["/controllers/nobody", "/controllers/shop/more", "/controllers/shop/pause/now", "/controllersome", "/zones/a/b"],
)
def test_unknown_page_is_not_found(request_page: RequestPage, path: str) -> None:
    assert request_page(path).status == 404


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("path", "method"), [("/controllers/shop", "DELETE"), ("/controllers/shop/pause", "GET")])
def test_other_methods_are_refused(request_page: RequestPage, path: str, method: str) -> None:
    answer = request_page(path, method=method, authenticator=KnowsAda())
    assert (answer.status, json.loads(answer.text)["reason"]) == (405, "MethodNotAllowed")


@pytest.mark.usefixtures("shop")
def test_states_require_authorization(request_page: RequestPage) -> None:
    assert request_page("/controllers", authorizer=PathsAllowed(["/healthz"])).status == 403
    assert request_page("/controllers", authorizer=PathsAllowed(["/controllers"])).status == 200


def test_states_are_unavailable_before_the_system_runs(request_page: RequestPage) -> None:
    assert request_page("/controllers").status == 503
    assert request_page("/controllers/shop/pause", method="POST", authenticator=KnowsAda()).status == 503


@pytest.mark.parametrize(
    ("action", "outcome", "status"),
    [("enable", "Done", 200), ("pause", "Done", 200), ("resume", "Unchanged", 200), ("restart", "Pending", 202)],
)
def test_change_is_awaited_and_logged_with_its_user(
    request_page: RequestPage, shop: Fake, logged: LogCapture, action: str, outcome: str, status: int
) -> None:
    timeout = "?timeout=0" if action == "restart" else ""
    answer = request_page(f"/controllers/shop/{action}{timeout}", method="POST", authenticator=KnowsAda())
    assert answer.status == status
    assert json.loads(answer.text) == {
        "target": "controllers/shop",
        "action": action,
        "outcome": outcome,
        "result": {"upSeconds": 0.5},
    }
    assert shop.changes == [("controllers", "shop", action)]
    assert audited(logged) == [
        {"user": "ada", "action": action, "target": "controllers/shop", "outcome": outcome, "log_level": "info"}
    ]
    assert next(entry for entry in logged.entries if "groups" in entry)["groups"] == ["operators"]


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/controllers/nobody/pause", b"", 404, 'controllers "nobody" not found'),
        ("/controllers/shop/drain", b"", 409, "cannot drain shop: it is disabled"),
        ("/controllers/shop/pause", b'{"a": 1}', 400, "pause takes no settings, and got a"),
        ("/controllers/shop/pause", b"[1]", 400, "the body is not a JSON object: Expected `object`, got `array`"),
        ("/controllers/shop/pause", b'{"a": ' + b"[" * 4000, 400, "the body is nested too deeply"),
        (
            "/controllers/shop/pause",
            b" " * LARGEST_SETTINGS + b"{}",
            400,
            "the body has 4098 bytes; the most is 4096",
        ),
        (
            "/controllers/shop/pause?timeout=a+day",
            b"",
            400,
            "timeout is a number of seconds from 0 to 60, not 'a day'",
        ),
    ],
)
def test_refused_change_is_logged_with_the_error(
    request_page: RequestPage, shop: Fake, logged: LogCapture, path: str, body: bytes, status: int, error: str
) -> None:
    answer = request_page(path, method="POST", data=body, authenticator=KnowsAda())
    assert (answer.status, json.loads(answer.text)["message"]) == (status, error)
    assert [(entry["outcome"], entry["error"], entry["user"]) for entry in audited(logged)] == [
        ("Refused", error, "ada")
    ]
    assert shop.changes == []


def test_change_without_the_right_is_forbidden_and_logged(
    request_page: RequestPage, shop: Fake, logged: LogCapture
) -> None:
    answer = request_page(
        "/controllers/shop/disable",
        method="POST",
        authenticator=KnowsAda(),
        authorizer=PathsAllowed(["/controllers", "/controllers/shop"]),
    )
    assert answer.status == 403
    assert 'User "ada" cannot post path "/controllers/shop/disable"' in json.loads(answer.text)["message"]
    assert [(entry["user"], entry["outcome"], entry["log_level"]) for entry in audited(logged)] == [
        ("ada", "Forbidden", "warning")
    ]
    assert shop.changes == []


def test_clients_without_authentication_change_nothing(request_page: RequestPage, shop: Fake) -> None:
    answer = request_page("/controllers/shop/disable", method="POST", authorizer=EverythingAllowed())
    assert (answer.status, json.loads(answer.text)["message"]) == (403, "changes need the secure port")
    assert shop.changes == []


def test_page_of_another_site_changes_nothing(request_page: RequestPage, shop: Fake) -> None:
    def disable(origin: str) -> int:
        headers = {"Origin": origin, "Host": "127.0.0.1:10257"}
        path = "/controllers/shop/disable"
        return request_page(path, method="POST", authenticator=KnowsAda(), headers=headers).status

    assert disable("https://evil.example") == 403
    assert shop.changes == []
    assert disable("https://127.0.0.1:10257") == 200
