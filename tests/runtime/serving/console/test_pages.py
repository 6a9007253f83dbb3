from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace
from structlog.testing import LogCapture

from kcm.runtime.serving.authorization import (
    ALLOWED,
    NO_OPINION,
    EverythingAllowed,
    PageAttributes,
    PageAuthorizer,
    PageDecision,
    PathsAllowed,
)
from kcm.runtime.serving.console import streams
from kcm.runtime.serving.console.pages import Console, ConsoleParts, LinkKey, RefusedError
from kcm.runtime.serving.console.streams import MOST_STREAMS
from kcm.runtime.serving.site import Site, build_application
from tests.runtime.serving.conftest import Answer, client_of

Use = Callable[[aiohttp.ClientSession], Any]
KEY = LinkKey()
SIGNED_IN = {"Authorization": f"Bearer {KEY.key}"}


class Numbers:
    """Topic with one row that counts its samples, or the one that is given."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.samples = 0

    def sample(self) -> Mapping[str, Any]:
        self.samples += 1
        return self.rows or {"samples": self.samples}


class ReadOnly:
    """Authorizer that allows GET."""

    async def decide(self, attributes: PageAttributes) -> PageDecision:
        return ALLOWED if attributes.verb == "get" else NO_OPINION


@pytest.fixture
def numbers() -> Numbers:
    return Numbers()


@pytest.fixture
def console(log: Any, numbers: Numbers) -> Console:
    def double(body: Mapping[str, Any]) -> Any:
        if body["number"] == 0:
            raise RefusedError("0 cannot be doubled")
        return {"doubled": body["number"] * 2}

    def triple(query: Mapping[str, list[str]]) -> Any:
        return {"tripled": 3 * int(query["number"][0])}

    console = Console(log=log)
    console.set(
        ConsoleParts(topics={"numbers": lambda _: numbers}, questions={"triple": triple}, actions={"double": double})
    )
    return console


def use(site: Site, console: Console, what: Use, *, authorizer: PageAuthorizer | None = None) -> Any:
    """Serve the site with the console to signed-in users, and return what a client gets."""

    async def exchange() -> Any:
        application = build_application(
            replace(site, console=console), authorizer or PathsAllowed([]), authenticator=KEY, local=True
        )
        async with client_of(application) as client:
            found = await what(client)
            console.close()
            return found

    return asyncio.run(exchange())


def answer_of(site: Site, console: Console, method: str, path: str, **request: Any) -> Answer:
    authorizer = request.pop("authorizer", None)

    async def ask(client: aiohttp.ClientSession) -> Answer:
        async with client.request(method, path, **request) as response:
            return Answer(response.status, dict(response.headers), await response.text())

    answer: Answer = use(site, console, ask, authorizer=authorizer)
    return answer


def test_page_needs_no_credentials_and_is_protected(site: Site, console: Console) -> None:
    answer = answer_of(site, console, "GET", "/console/controllers?sort=name")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Cache-Control"] == "no-cache"
    again = answer_of(site, console, "GET", "/console/", headers={"If-None-Match": answer.headers["Etag"]})
    assert (again.status, again.text) == (304, "")


def test_files_are_compressed(site: Site, console: Console) -> None:
    async def sizes(client: aiohttp.ClientSession) -> tuple[str, str]:
        async with client.get("/console/", headers={"Accept-Encoding": "gzip"}) as compressed:
            async with client.get("/console/", headers={"Accept-Encoding": "identity"}) as plain:
                assert await compressed.read() == await plain.read()
                return compressed.headers.get("Content-Encoding", ""), plain.headers.get("Content-Encoding", "")

    assert use(site, console, sizes) == ("gzip", "")


@pytest.mark.parametrize(
    "path", ["/console/api/access", "/console/live/numbers", "/console/api/double", "/console/assets/0/app.js"]
)
def test_everything_else_needs_the_key(site: Site, console: Console, path: str) -> None:
    assert answer_of(site, console, "GET", path).status == 403
    wrong = {"Authorization": "Bearer " + "A" * len(KEY.key)}
    assert answer_of(site, console, "GET", path, headers=wrong).status == 401
    assert answer_of(site, console, "POST", "/console/").status == 403


def test_pages_of_other_names_for_this_host_are_refused(site: Site, console: Console) -> None:
    for path in ("/console/", "/console/api/access"):
        assert answer_of(site, console, "GET", path, headers={**SIGNED_IN, "Host": "rebound.example"}).status == 403


def test_access_lists_what_the_console_offers_and_the_user_may(site: Site, console: Console) -> None:
    path = "/console/api/access?path=/controllers/x/pause"
    answer = answer_of(site, console, "GET", path, headers=SIGNED_IN)
    assert json.loads(answer.text) == {
        "user": "kcm:console",
        "may": {"/controllers/x/pause": True},
        "topics": ["numbers"],
        "questions": ["triple"],
        "actions": ["double"],
    }
    reader = answer_of(site, console, "GET", path, headers=SIGNED_IN, authorizer=ReadOnly())
    assert json.loads(reader.text)["may"] == {"/controllers/x/pause": False}
    many = "/console/api/access?" + "&".join(f"path=/{number}" for number in range(65))
    assert answer_of(site, console, "GET", many, headers=SIGNED_IN).status == 400


def test_questions_are_answered(site: Site, console: Console) -> None:
    answer = answer_of(site, console, "GET", "/console/api/triple?number=4", headers=SIGNED_IN)
    assert (answer.status, json.loads(answer.text)) == (200, {"tripled": 12})
    assert answer_of(site, console, "GET", "/console/api/triple?number=x", headers=SIGNED_IN).status == 400
    assert answer_of(site, console, "GET", "/console/api/triple", headers=SIGNED_IN).status == 404
    assert answer_of(site, console, "GET", "/console/api/other", headers=SIGNED_IN).status == 404


def test_actions_need_post_json_and_the_right_and_are_logged(site: Site, console: Console, logged: LogCapture) -> None:
    path = "/console/api/double"
    done = answer_of(site, console, "POST", path, headers=SIGNED_IN, json={"number": 4})
    assert (done.status, json.loads(done.text)) == (200, {"doubled": 8})
    (entry,) = [entry for entry in logged.entries if entry["event"] == "console action"]
    assert (entry["user"], entry["action"], json.loads(entry["body"])) == ("kcm:console", "double", {"number": 4})
    refused = answer_of(site, console, "POST", path, headers=SIGNED_IN, json={"number": 0})
    assert (refused.status, refused.text) == (409, "0 cannot be doubled\n")
    assert answer_of(site, console, "GET", path, headers=SIGNED_IN).status == 405
    assert answer_of(site, console, "POST", path, headers=SIGNED_IN, data="{}").status == 415
    assert answer_of(site, console, "POST", path, headers=SIGNED_IN, json=[4]).status == 400
    as_json = {**SIGNED_IN, "Content-Type": "application/json"}
    nested = answer_of(site, console, "POST", path, headers=as_json, data=b"[" * 4000)
    assert (nested.status, nested.text) == (400, "the body is nested too deeply\n")
    reader = answer_of(site, console, "POST", path, headers=SIGNED_IN, json={"number": 4}, authorizer=ReadOnly())
    assert reader.status == 403
    large = {"number": 1, "text": "x" * 20_000}
    assert answer_of(site, console, "POST", path, headers=SIGNED_IN, json=large).status == 413


async def event_of(response: aiohttp.ClientResponse) -> dict[str, Any]:
    line = await response.content.readuntil(b"\n\n")
    event: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
    return event


def test_viewers_share_samples_and_get_differences(
    site: Site, console: Console, numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PERIOD", 0.1)  # a second would be long
    numbers.rows = {"a": 1, "b": {"c": 2}}

    async def watch(client: aiohttp.ClientSession) -> None:
        async with client.get("/console/live/numbers", headers=SIGNED_IN) as first:
            assert first.headers["Content-Type"].startswith("text/event-stream")
            assert await event_of(first) == {"full": True, "set": {"a": 1, "b": {"c": 2}}}
            async with client.get("/console/live/numbers", headers=SIGNED_IN) as second:
                assert await event_of(second) == {"full": True, "set": {"a": 1, "b": {"c": 2}}}
                assert console.streams.viewers == 2
                numbers.rows = {"a": 1, "d": 4}
                taken = numbers.samples
                for response in (first, second):
                    assert await event_of(response) == {"set": {"d": 4}, "gone": ["b"]}
                assert numbers.samples <= taken + 2

    use(site, console, watch)


def test_nothing_is_sampled_after_the_last_viewer_has_left(site: Site, console: Console, numbers: Numbers) -> None:
    async def watch(client: aiohttp.ClientSession) -> None:
        async with client.get("/console/live/numbers", headers=SIGNED_IN) as response:
            await event_of(response)
            response.close()
        while console.streams.viewers:
            await asyncio.sleep(0.01)
        tasks = [task.get_coro() for task in asyncio.all_tasks()]
        assert not [task for task in tasks if "WatchedTopic" in getattr(task, "__qualname__", "")]

    use(site, console, watch)
    assert numbers.samples == 1


def test_number_of_streams_is_limited(site: Site, console: Console) -> None:
    async def watch(client: aiohttp.ClientSession) -> int:
        opened = [await client.get("/console/live/numbers", headers=SIGNED_IN) for _ in range(MOST_STREAMS)]
        async with client.get("/console/live/numbers", headers=SIGNED_IN) as refused:
            status = refused.status
        for response in opened:
            response.close()
        return status

    assert use(site, console, watch) == 429


def test_failed_sample_is_shown_and_logged(site: Site, console: Console, numbers: Numbers, logged: LogCapture) -> None:
    numbers.rows = {"a": object()}

    async def watch(client: aiohttp.ClientSession) -> dict[str, Any]:
        async with client.get("/console/live/numbers", headers=SIGNED_IN) as response:
            return await event_of(response)

    assert "TypeError" in use(site, console, watch)["error"]
    assert [entry["topic"] for entry in logged.entries if entry["log_level"] == "error"] == ["numbers?[]"]


def test_close_ends_open_streams(site: Site, console: Console) -> None:
    async def watch(client: aiohttp.ClientSession) -> bytes:
        async with client.get("/console/live/numbers", headers=SIGNED_IN) as response:
            await event_of(response)
            console.close()
            return await response.content.read()

    assert use(site, console, watch) == b""


def test_site_without_console_has_no_such_pages(site: Site) -> None:
    async def ask() -> int:
        async with client_of(build_application(site, EverythingAllowed())) as client:
            return (await client.get("/console/")).status

    assert asyncio.run(ask()) == 404
