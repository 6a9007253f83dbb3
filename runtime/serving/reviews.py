"""Delegated authentication and authorization: an API server reviews tokens and access, and the results are cached.

Source: kubernetes v1.36 apiserver/plugin/pkg/authenticator/token/webhook, apiserver/plugin/pkg/authorizer/webhook,
apiserver/pkg/authentication/token/cache. Difference: a review without a response is repeated whatever the reason,
because a review changes nothing; upstream repeats it after a reset connection only. The rate limit of reviews is that
of apiserver/pkg/server/options (authentication.go, authorization.go).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
import orjson

from kcm.runtime.client.api import Request, Response, Transport
from kcm.runtime.metrics.registry import Family, Metrics
from kcm.runtime.scheduling.limiters import TokenBucket
from kcm.runtime.serving.authentication import AUTHENTICATED, UnauthorizedError
from kcm.runtime.serving.authorization import NO_OPINION, AuthorizationError, PageAttributes, PageDecision, PageUser

V = TypeVar("V")

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TIMEOUT = 10.0  # seconds for a review with its repetitions
TRIES = 5
FIRST_DELAY, FACTOR, JITTER = 0.5, 1.5, 0.2  # seconds before the second try; growth; random share that is added
QPS, BURST = 200.0, 400  # rate limit of a ReviewClient: requests per second, and requests at once
REPEATED = frozenset({0, 429, 500, 504})  # status codes after which a review is repeated; 0: no response
MOST_TOKENS = 4096  # entries of a cache
MOST_DECISIONS = 8192
LARGEST_ATTRIBUTE = 10_000  # bytes that a client may choose of a review whose decision is cached

_CODES = ("code",)
_REQUEST_BUCKETS = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
TOKEN_REQUESTS = Family(
    name="apiserver_delegated_authn_request_total",
    kind="counter",
    help="Number of HTTP requests partitioned by status code.",
    labels=_CODES,
)
TOKEN_SECONDS = Family(
    name="apiserver_delegated_authn_request_duration_seconds",
    kind="histogram",
    help="Request latency in seconds. Broken down by status code.",
    labels=_CODES,
    buckets=_REQUEST_BUCKETS,
)
ACCESS_REQUESTS = Family(
    name="apiserver_delegated_authz_request_total",
    kind="counter",
    help="Number of HTTP requests partitioned by status code.",
    labels=_CODES,
)
ACCESS_SECONDS = Family(
    name="apiserver_delegated_authz_request_duration_seconds",
    kind="histogram",
    help="Request latency in seconds. Broken down by status code.",
    labels=_CODES,
    buckets=_REQUEST_BUCKETS,
)


class ReviewError(Exception):
    """The API server did not answer a review. The text contains the reason."""


class ReviewClient:
    """Sends reviews to an API server, at most QPS per second after the first BURST.

    Its coroutines run on one event loop, because the rate limit has no lock.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        client: str,
        metrics: Metrics,
        requests: Family,
        seconds: Family,
        now: Callable[[], float],
        chance: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Create a client.

        client: name of the sender, as Transport has it.
        requests, seconds: metrics of the requests, by status code.
        now: seconds of a monotonic clock.
        chance: draws a number from 0 to 1, for the delays between tries.
        sleep: waits some seconds.
        """
        self._transport, self._client, self._now = transport, client, now
        self._chance, self._sleep = chance, sleep
        self._metrics, self._requests, self._seconds = metrics, requests, seconds
        self._bucket = TokenBucket(qps=QPS, burst=BURST, now=now())

    async def review(self, path: str, review: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create a review, and return its status. Raises ReviewError."""
        body, deadline, delay = orjson.dumps(review), self._now() + TIMEOUT, FIRST_DELAY
        for tries_left in reversed(range(TRIES)):
            await self._wait_for_token(deadline)
            left = deadline - self._now()
            if left <= 0:
                break
            response = await self._send(Request(method="POST", path=path, body=body, timeout=left))
            if response.status in (200, 201):
                return _status(response.body)
            pause = delay * (1.0 + JITTER * self._chance())
            if response.status not in REPEATED or not tries_left or self._now() + pause >= deadline:
                raise ReviewError(response.problem)
            await self._sleep(pause)
            delay *= FACTOR
        raise ReviewError("no response in time")

    async def _wait_for_token(self, deadline: float) -> None:
        """Wait until the rate limit permits a request. Raises ReviewError at once if that is after the deadline."""
        now = self._now()
        due = self._bucket.reserve(now, until=deadline)
        if due is None:
            raise ReviewError("client rate limiter Wait returned an error: the wait would exceed the deadline")
        if due > now:
            await self._sleep(due - now)

    async def _send(self, request: Request) -> Response:
        loop, began = asyncio.get_running_loop(), self._now()
        answered: asyncio.Future[Response] = loop.create_future()

        def settle(response: Response) -> None:
            if not answered.done():  # it is cancelled if the client of the page has left
                answered.set_result(response)

        def on_response(response: Response) -> None:
            with contextlib.suppress(RuntimeError):  # the loop of the pages has ended
                loop.call_soon_threadsafe(settle, response)

        self._transport.send(request, client=self._client, on_response=on_response)
        response = await answered
        code = str(response.status) if response.status else "<error>"
        self._metrics.counter(self._requests, code).inc()
        self._metrics.histogram(self._seconds, code).observe(self._now() - began)
        return response


def _status(body: bytes) -> Mapping[str, Any]:
    try:
        status = orjson.loads(body).get("status") or {}
    except (ValueError, AttributeError) as error:
        raise ReviewError(f"the response is not a review: {error}") from error
    if not isinstance(status, dict):
        raise ReviewError("the response is not a review: its status is not an object")
    return status


class ReviewCache(Generic[V]):
    """Values by key, each for a limited time; equal requests that run at the same time share one computation.

    For one event loop.
    """

    def __init__(self, *, most: int, now: Callable[[], float]) -> None:
        """Create a cache. most: number of entries; the oldest entry gives way. now: seconds of a monotonic clock."""
        self._most, self._now = most, now
        self._entries: dict[bytes, tuple[float, V]] = {}  # the end of its time, and the value
        self._running: dict[bytes, asyncio.Task[V]] = {}

    async def get(self, key: bytes, fetch: Callable[[], Awaitable[V]], ttl: Callable[[V], float]) -> V:
        """Return the cached value, or else fetch it. An exception of `fetch` is raised by all waiters, and not cached.

        ttl: seconds for which a value is cached; 0 for not at all.
        """
        entry = self._entries.get(key)
        if entry is not None and entry[0] > self._now():
            return entry[1]
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = asyncio.get_running_loop().create_task(self._fetch(key, fetch, ttl))
            running.add_done_callback(_retrieve)
        # A waiter whose client leaves is cancelled, and the others still need the value.
        return await asyncio.shield(running)

    async def _fetch(self, key: bytes, fetch: Callable[[], Awaitable[V]], ttl: Callable[[V], float]) -> V:
        try:
            value = await fetch()
        finally:
            del self._running[key]
        seconds = ttl(value)
        self._entries.pop(key, None)
        if seconds > 0:
            if len(self._entries) >= self._most:
                self._entries.pop(next(iter(self._entries)))
            self._entries[key] = self._now() + seconds, value
        return value


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task, so that asyncio does not log it if every waiter has left."""
    if not task.cancelled():
        task.exception()


class TokenReviews:
    """Authenticates bearer tokens by TokenReviews."""

    def __init__(self, client: ReviewClient, *, ttl: float, now: Callable[[], float]) -> None:
        """Create the authenticator.

        ttl: seconds for which a user, or a rejection, is cached.
        now: seconds of a monotonic clock.
        """
        self._client, self._ttl = client, ttl
        self._cache = ReviewCache[PageUser | None](most=MOST_TOKENS, now=now)
        self._key = secrets.token_bytes(32)  # tokens are kept as keyed hashes, so that no memory dump contains them

    async def user(self, token: str) -> PageUser:
        """Return the user of a token. Raises UnauthorizedError if it is invalid or cannot be reviewed."""
        key = hashlib.blake2b(token.encode(), key=self._key, digest_size=32).digest()
        user = await self._cache.get(key, partial(self._review, token), lambda _user: self._ttl)
        if user is None:
            raise UnauthorizedError("invalid bearer token")
        return user

    async def _review(self, token: str) -> PageUser | None:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        try:
            status = await self._client.review(TOKEN_REVIEWS, review)
        except ReviewError as error:
            raise UnauthorizedError(f"token not reviewed: {error}") from error
        if status.get("authenticated") is not True:
            if status.get("error"):
                raise UnauthorizedError(str(status["error"]))
            return None
        try:
            info = msgspec.convert(status.get("user") or {}, _UserInfo)
        except msgspec.ValidationError as error:
            raise UnauthorizedError(f"token not reviewed: malformed user: {error}") from error
        groups = tuple(dict.fromkeys((*(info.groups or ()), AUTHENTICATED)))
        return PageUser(name=info.username, groups=groups, uid=info.uid, extra=info.extra or {})


class _UserInfo(msgspec.Struct, frozen=True):
    """User in the status of a TokenReview."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class AccessReviews:
    """Authorizes requests by SubjectAccessReviews with non-resource attributes.

    This includes paths below /api and /apis, because upstream resolves requests without any API prefix.
    Source: kubernetes v1.36 controller-manager/app/serve.go, BuildHandlerChain.
    """

    def __init__(
        self, client: ReviewClient, *, allowed_ttl: float, denied_ttl: float, now: Callable[[], float]
    ) -> None:
        """Create the authorizer.

        allowed_ttl, denied_ttl: seconds for which a decision is cached.
        now: seconds of a monotonic clock.
        """
        self._client, self._allowed_ttl, self._denied_ttl = client, allowed_ttl, denied_ttl
        self._cache = ReviewCache[PageDecision](most=MOST_DECISIONS, now=now)

    async def decide(self, attributes: PageAttributes) -> PageDecision:
        """Return the server's decision. Raises AuthorizationError."""
        user = attributes.user
        spec = {
            "user": user.name,
            "groups": user.groups,
            "uid": user.uid,
            "extra": user.extra,
            "nonResourceAttributes": {"path": attributes.path, "verb": attributes.verb},
        }
        review = partial(self._review, spec)
        if len(attributes.path) + len(attributes.verb) > LARGEST_ATTRIBUTE:
            return await review()
        return await self._cache.get(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS), review, self._ttl)

    def _ttl(self, decision: PageDecision) -> float:
        return self._allowed_ttl if decision.is_allowed else self._denied_ttl

    async def _review(self, spec: Mapping[str, Any]) -> PageDecision:
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        try:
            status = await self._client.review(ACCESS_REVIEWS, review)
        except ReviewError as error:
            raise AuthorizationError(str(error)) from error
        if status.get("allowed") is True and status.get("denied") is True:
            raise AuthorizationError("webhook subject access review returned both allow and deny response")
        reason = str(status.get("reason") or "")
        if status.get("allowed") is True:
            return PageDecision(is_allowed=True, reason=reason)
        return PageDecision(is_allowed=False, reason=reason) if reason else NO_OPINION
