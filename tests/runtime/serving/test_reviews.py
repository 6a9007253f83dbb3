"""Reviews of tokens and access by an API server: retries, caches, and malformed responses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from kcm.runtime.client.api import Request, Response
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.serving.authentication import UnauthorizedError
from kcm.runtime.serving.authorization import AuthorizationError, PageAttributes, PageDecision, PageUser
from kcm.runtime.serving.reviews import (
    ACCESS_REQUESTS,
    ACCESS_REVIEWS,
    ACCESS_SECONDS,
    BURST,
    QPS,
    TIMEOUT,
    TOKEN_REVIEWS,
    AccessReviews,
    ReviewCache,
    ReviewClient,
    ReviewError,
    TokenReviews,
)

JANE = {"authenticated": True, "user": {"username": "jane", "uid": "u-1", "groups": ["dev"], "extra": {"k": ["v"]}}}
METRICS_PAGE = PageAttributes(user=PageUser(name="jane", groups=("dev",), uid="u-1"), verb="get", path="/metrics")


class Server:
    """A transport with prepared responses, the last of which is repeated; and a clock."""

    def __init__(self, *responses: Response) -> None:
        self.responses, self.requests, self.metrics = list(responses), list[Request](), Metrics()
        self.now, self.pauses = 0.0, list[float]()

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        assert client == "test"
        self.requests.append(request)
        on_response(self.responses.pop(0) if len(self.responses) > 1 else self.responses[0])

    def watch(self, request: Request, **_: Any) -> Any:
        raise AssertionError(f"no watch is expected: {request}")

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def client(self, *, sleep: Callable[[float], Awaitable[object]] | None = None) -> ReviewClient:
        return ReviewClient(
            self,
            client="test",
            metrics=self.metrics,
            requests=ACCESS_REQUESTS,
            seconds=ACCESS_SECONDS,
            now=lambda: self.now,
            chance=lambda: 0.0,
            sleep=self.sleep if sleep is None else sleep,
        )

    def tokens(self) -> TokenReviews:
        return TokenReviews(self.client(), ttl=10.0, now=lambda: self.now)

    def access(self) -> AccessReviews:
        return AccessReviews(self.client(), allowed_ttl=10.0, denied_ttl=5.0, now=lambda: self.now)


def reviewed(**status: Any) -> Response:
    return Response(status=201, body=orjson.dumps({"kind": "Review", "status": status}))


def failed(status: int, message: str = "broken") -> Response:
    return Response(status=status, body=orjson.dumps({"kind": "Status", "message": message}))


def test_token_is_reviewed_once_while_its_user_is_cached() -> None:
    server = Server(reviewed(**JANE))
    tokens = server.tokens()

    async def scenario() -> None:
        for _ in range(3):
            user = await tokens.user("t")
            assert user == PageUser(name="jane", groups=("dev", "system:authenticated"), uid="u-1", extra={"k": ("v",)})
        server.now = 10.5
        await tokens.user("t")

    asyncio.run(scenario())
    assert [request.path for request in server.requests] == [TOKEN_REVIEWS] * 2
    assert orjson.loads(server.requests[0].body)["spec"] == {"token": "t"}


@pytest.mark.parametrize(
    ("response", "problem", "is_cached"),
    [
        (reviewed(authenticated=False), "invalid bearer token", True),
        (reviewed(), "invalid bearer token", True),
        (reviewed(authenticated="yes"), "invalid bearer token", True),
        (reviewed(authenticated=False, error="token has expired"), "token has expired", False),
        (failed(403, "not allowed"), "token not reviewed: not allowed", False),
        (Response(status=201, body=b"<html>"), "token not reviewed: the response is not a review", False),
        (Response(status=201, body=b"[]"), "token not reviewed: the response is not a review", False),
        (reviewed(authenticated=True, user={"username": 7}), "token not reviewed: malformed user", False),
    ],
)
def test_token_without_a_user_is_unauthorized(response: Response, problem: str, is_cached: bool) -> None:
    server = Server(response)
    tokens = server.tokens()

    async def scenario() -> None:
        for _ in range(2):
            with pytest.raises(UnauthorizedError, match=f"^{problem}"):
                await tokens.user("t")

    asyncio.run(scenario())
    assert len(server.requests) == (1 if is_cached else 2)


@pytest.mark.parametrize("status", [0, 429, 500, 504])
def test_review_is_repeated_with_growing_pauses(status: int) -> None:
    server = Server(failed(status), failed(status), reviewed(allowed=True))
    assert asyncio.run(server.access().decide(METRICS_PAGE)) == PageDecision(is_allowed=True)
    assert server.pauses == [0.5, 0.75]
    code = str(status) if status else "<error>"
    assert server.metrics.counter(ACCESS_REQUESTS, code).value == 2
    assert server.metrics.counter(ACCESS_REQUESTS, "201").value == 1


def test_review_is_tried_five_times() -> None:
    server = Server(failed(500))
    with pytest.raises(AuthorizationError, match=r"^broken$"):
        asyncio.run(server.access().decide(METRICS_PAGE))
    assert len(server.requests) == 5
    assert server.pauses == [0.5, 0.75, 1.125, 1.6875]


def test_reviews_beyond_the_burst_wait_for_the_rate_limit() -> None:
    server = Server(reviewed(allowed=True))
    client = server.client()

    async def scenario() -> None:
        for _ in range(BURST + 2):
            await client.review(ACCESS_REVIEWS, {})

    asyncio.run(scenario())
    assert len(server.requests) == BURST + 2
    assert server.pauses == pytest.approx([1 / QPS, 1 / QPS])


def test_review_fails_at_once_if_the_rate_limit_lasts_longer_than_its_deadline() -> None:
    server = Server(reviewed(allowed=True))
    in_time = BURST + int(QPS * TIMEOUT)

    async def scenario() -> list[Any]:
        client = server.client(sleep=lambda _seconds: asyncio.sleep(0))  # the clock stands still
        reviews = [client.review(ACCESS_REVIEWS, {}) for _ in range(in_time + 100)]
        return await asyncio.gather(*reviews, return_exceptions=True)

    failures = [result for result in asyncio.run(scenario()) if isinstance(result, ReviewError)]
    assert len(failures) == pytest.approx(100, abs=1)
    assert str(failures[0]).startswith("client rate limiter Wait returned an error")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 503])
def test_other_failures_of_a_review_are_final(status: int) -> None:
    server = Server(failed(status))
    with pytest.raises(AuthorizationError, match=r"^broken$"):
        asyncio.run(server.access().decide(METRICS_PAGE))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "decision", "cached_for"),
    [
        ({"allowed": True, "reason": "a role"}, PageDecision(is_allowed=True, reason="a role"), 10.0),
        ({"allowed": False}, PageDecision(is_allowed=False), 5.0),
        ({"allowed": False, "denied": True, "reason": "no"}, PageDecision(is_allowed=False, reason="no"), 5.0),
    ],
)
def test_decision_is_cached_for_its_time(status: dict[str, Any], decision: PageDecision, cached_for: float) -> None:
    server = Server(reviewed(**status))
    access = server.access()

    async def scenario() -> None:
        assert await access.decide(METRICS_PAGE) == decision
        server.now = cached_for - 0.1
        assert await access.decide(METRICS_PAGE) == decision
        assert len(server.requests) == 1
        server.now = cached_for + 0.1
        assert await access.decide(METRICS_PAGE) == decision

    asyncio.run(scenario())
    assert [request.path for request in server.requests] == [ACCESS_REVIEWS] * 2
    assert orjson.loads(server.requests[0].body)["spec"] == {
        "user": "jane",
        "groups": ["dev"],
        "uid": "u-1",
        "extra": {},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


def test_answer_that_allows_and_denies_is_an_error() -> None:
    with pytest.raises(AuthorizationError, match="both allow and deny"):
        asyncio.run(Server(reviewed(allowed=True, denied=True)).access().decide(METRICS_PAGE))


def test_decision_about_a_very_long_path_is_not_cached() -> None:
    server = Server(reviewed(allowed=True))
    access, long = server.access(), PageAttributes(user=PageUser(name="jane"), verb="get", path="/" + "x" * 10_000)

    async def scenario() -> None:
        for _ in range(2):
            assert (await access.decide(long)).is_allowed

    asyncio.run(scenario())
    assert len(server.requests) == 2


def test_equal_requests_at_the_same_time_share_one_review() -> None:
    fetched: list[int] = []

    async def scenario() -> None:
        cache = ReviewCache[int](most=2, now=lambda: 0.0)
        begin = asyncio.Event()

        async def fetch() -> int:
            await begin.wait()
            fetched.append(1)
            return len(fetched)

        waiters = [asyncio.create_task(cache.get(b"k", fetch, lambda _: 1.0)) for _ in range(3)]
        await asyncio.sleep(0)
        waiters[0].cancel()  # its client has left; the others get the value nevertheless
        begin.set()
        assert await waiters[1] == await waiters[2] == 1
        with pytest.raises(asyncio.CancelledError):
            await waiters[0]

    asyncio.run(scenario())
    assert fetched == [1]


def test_full_cache_drops_its_oldest_entry() -> None:
    fetched: list[str] = []

    async def scenario() -> None:
        cache = ReviewCache[str](most=2, now=lambda: 0.0)

        async def get(key: str) -> str:
            async def fetch() -> str:
                fetched.append(key)
                return key

            awaited: Awaitable[str] = cache.get(key.encode(), fetch, lambda _: 1.0)
            return await awaited

        for key in ("a", "b", "c", "b", "a"):
            assert await get(key) == key

    asyncio.run(scenario())
    assert fetched == ["a", "b", "c", "a"]
