"""An ApiServer behind HTTP on a free loopback port, and a client for it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp
import orjson
import structlog
from structlog.testing import LogCapture

from kcm.runtime.apiserver.access.authentication import Authenticator
from kcm.runtime.apiserver.http.audit import AuditLog
from kcm.runtime.apiserver.http.handler import ApiHttp
from kcm.runtime.apiserver.kinds.core import pod as pod_kind
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.users import User
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.storage.store import MemoryStore, Store
from kcm.runtime.http.server.connection import HttpConnection
from kcm.runtime.process.version import Version
from tests.runtime.apiserver.servers import new_server
from tests.support.objects import pod

TOKEN = "secret"
ADMIN_ALONE = {TOKEN: User("admin")}
NOW = 1_767_322_800.0  # 2026-01-02T03:00:00Z
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
RESOURCES = (
    ResourceDefinition(plural="namespaces", kind="Namespace", namespaced=False),
    ResourceDefinition(
        plural="pods", kind="Pod", short_names=("po",), subresources=("status",), printer=pod_kind.RESOURCE.printer
    ),
    ResourceDefinition(group="apps", plural="deployments", kind="Deployment"),
)


class SetClock:
    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> float:
        return self.time


@dataclass(frozen=True)
class Tls:
    server: ssl.SSLContext
    client: ssl.SSLContext


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Any
    raw: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.raw)


@dataclass(frozen=True)
class Served:
    api: ApiServer
    front: ApiHttp
    clock: SetClock
    logs: LogCapture
    session: aiohttp.ClientSession
    url: str

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        async with self.session.request(method, self.url + path, **options) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.ask("GET", path, **options)

    async def create(self, name: str, path: str = PODS, **fields: Any) -> Answer:
        return await self.ask("POST", path, json=posted_pod(name, **fields))


def posted_pod(name: str, **fields: Any) -> dict[str, Any]:
    """Return the body of a POST. `fields` are fields of the object beside metadata and spec."""
    return {"apiVersion": "v1", "kind": "Pod", **pod(name, namespace=""), **fields}


@asynccontextmanager
async def serving(
    store: Store,
    resources: Iterable[ResourceDefinition] = RESOURCES,
    *,
    users: Mapping[str, User] = ADMIN_ALONE,
    audit: AuditLog | None = None,
    role_based: bool = False,
    anonymous: bool = True,
    tls: Tls | None = None,
    **arguments: Any,
) -> AsyncIterator[Served]:
    """Serve the API on loopback.

    anonymous: with role_based only, as in the process.
    arguments: of new_server.
    """
    clock, logs = SetClock(), LogCapture()
    api = new_server(store, clock, resources=resources, users=users, role_based=role_based, **arguments)
    front = ApiHttp(
        api,
        authenticator=Authenticator(api.user_of),
        version=Version(kubernetes="1.36.2", kcm="1"),
        clock=clock,
        log=structlog.wrap_logger(None, processors=[logs]),
        audit=audit,
        anonymous=anonymous and role_based,
    )
    server = front.server()
    listening = await asyncio.get_running_loop().create_server(
        partial(HttpConnection, server), "127.0.0.1", 0, ssl=None if tls is None else tls.server
    )
    try:
        scheme = "http" if tls is None else "https"
        url = f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        timeout = aiohttp.ClientTimeout(total=20)
        connector = None if tls is None else aiohttp.TCPConnector(ssl=tls.client)
        async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as session:
            yield Served(api, front, clock, logs, session, url)
    finally:
        front.end_watches()
        listening.close()
        await server.end(1.0)
        await front.close()


def run(
    scenario: Callable[[Served], Awaitable[None]],
    *,
    store: Store | None = None,
    resources: Iterable[ResourceDefinition] = RESOURCES,
    users: Mapping[str, User] = ADMIN_ALONE,
    role_based: bool = False,
    audit: AuditLog | None = None,
    anonymous: bool = True,
    tls: Tls | None = None,
) -> None:
    async def whole() -> None:
        kept = MemoryStore() if store is None else store
        arguments = {"users": users, "role_based": role_based, "audit": audit, "anonymous": anonymous, "tls": tls}
        async with serving(kept, resources, **arguments) as served:
            await scenario(served)

    asyncio.run(whole())


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until the condition is met, or the test times out."""
    while not condition():
        await asyncio.sleep(0.001)
