from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp
import pytest
import structlog
from msgspec.structs import replace
from structlog.testing import LogCapture

from kcm.runtime.http.server.connection import HttpConnection
from kcm.runtime.http.server.server import HttpServer
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.process.version import Version
from kcm.runtime.serving.application import LARGEST_BODY, Application, PageRequest
from kcm.runtime.serving.authentication import PageAuthenticator
from kcm.runtime.serving.authorization import EverythingAllowed, PageAuthorizer
from kcm.runtime.serving.health import HealthChecks
from kcm.runtime.serving.profiling import Profiler
from kcm.runtime.serving.site import Site, build_application

STARTED = 1763726400.0  # 2025-11-21 12:00:00 UTC


class FixedClock:
    """Clock fixed at two minutes after the start, without alarms."""

    def monotonic(self) -> float:
        return 120.0

    def now(self) -> float:
        return STARTED + 120.0

    def call_at(self, who: str, when: float, what: Callable[[], None]) -> None:
        raise AssertionError("no alarm is wanted here")

    def cancel(self, who: str) -> None:
        raise AssertionError("no alarm is wanted here")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str


RequestPage = Callable[..., Answer]  # type of the fixture `request_page`


@asynccontextmanager
async def client_of(application: Application) -> AsyncIterator[aiohttp.ClientSession]:
    """Serve an application, and yield a client whose URLs are paths."""
    server = HttpServer(application, new_request=PageRequest, largest_body=LARGEST_BODY, now=application.now)
    listening = await asyncio.get_running_loop().create_server(partial(HttpConnection, server), "127.0.0.1", 0)
    try:
        port = listening.sockets[0].getsockname()[1]
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
            yield client
    finally:
        listening.close()
        await server.end(1.0)


@pytest.fixture
def logged() -> LogCapture:
    """Return the capture of log entries."""
    return LogCapture()


@pytest.fixture
def log(logged: LogCapture) -> Any:
    return structlog.wrap_logger(None, processors=[logged], wrapper_class=structlog.make_filtering_bound_logger(0))


@pytest.fixture
def verbosities() -> list[int]:
    """Return the verbosities that were set through the site."""
    return []


@pytest.fixture
def site(log: Any, verbosities: list[int]) -> Site:
    return Site(
        health=HealthChecks(log=log),
        metrics=Metrics(),
        configuration=lambda: {"kubecontrollermanager.config.k8s.io": {"Generic": {"Port": 0}}},
        flags=lambda: {"v": "2", "profiling": "true"},
        set_verbosity=verbosities.append,
        version=Version(kubernetes="1.36.2", kcm="0.1.0"),
        emulated="1.36",
        profiling=True,
        profiler=Profiler(clock=FixedClock()),
        clock=FixedClock(),
        log=log,
        started=STARTED,
    )


@pytest.fixture
def request_page(site: Site) -> RequestPage:
    """Return a function that requests a page: (path, authorizer=…, authenticator=…, method=…, headers=…, data=…)."""

    def request_it(
        path: str,
        *,
        authorizer: PageAuthorizer | None = None,
        authenticator: PageAuthenticator | None = None,
        method: str = "GET",
        profiling: bool = True,
        **request: Any,
    ) -> Answer:
        async def exchange() -> Answer:
            application = build_application(
                replace(site, profiling=profiling), authorizer or EverythingAllowed(), authenticator=authenticator
            )
            async with client_of(application) as client, client.request(method, path, **request) as response:
                return Answer(response.status, dict(response.headers), await response.text())

        return asyncio.run(exchange())

    return request_it
