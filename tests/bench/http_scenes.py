"""Requests to the embedded server as in its own process, except for TLS and the disk: from the bytes of a connection to
those of the response, from a service account with RBAC roles, with kube-apiserver's default admission plugins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson
from cryptography.hazmat.primitives.asymmetric import ec

from kcm.protocols.admission_plugins import enabled_plugins
from kcm.runtime.apiserver.access.account_tokens import AccountTokens
from kcm.runtime.apiserver.access.authentication import Authenticator
from kcm.runtime.apiserver.access.token_authenticator import AcceptedTokens
from kcm.runtime.apiserver.core.settings import ApiSettings
from kcm.runtime.apiserver.http.handler import ApiHttp
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.storage.store import MemoryStore
from kcm.runtime.client.api import Request
from kcm.runtime.http.server.connection import HttpConnection
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.process.version import Version
from kcm.runtime.signing.tokens import SigningKey
from tests.bench.pod_writer import pod
from tests.bench.scene import Scene
from tests.bench.server_requests import APPLY, BINDING, ROLE, deployment

REQUESTS = 50
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/kube-system/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class _FixedClock:
    def now(self) -> float:
        return 1.8e9


class _FixedTimeLoop(asyncio.SelectorEventLoop):
    """Event loop whose time stands still, so that priority and fairness does not depend on the speed of the machine."""

    def time(self) -> float:
        return 0.0


class _MemoryTransport(asyncio.Transport):
    """Transport that keeps the bytes of the last write."""

    written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written = bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class _ConnectedServer:
    """An API server with one connection to its HTTP front end."""

    def __init__(self) -> None:
        tokens = AccountTokens(SigningKey(ec.generate_private_key(ec.SECP256R1())))
        clock = _FixedClock()
        self._api = ApiServer(
            store=MemoryStore(),
            clock=clock,
            settings=ApiSettings(
                collect_garbage=False,
                empty_namespaces=False,
                role_based=True,
                plugins=enabled_plugins(enable=(), disable=()),
            ),
            tokens=AcceptedTokens(accounts=tokens),
        )
        self._api.ensure_roles()
        self._api.publish_address("127.0.0.1", 6443)
        for path, obj in (
            (ACCOUNTS, {"metadata": {"name": "bench"}}),
            ("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}),
            (f"{RBAC}/clusterroles", ROLE),
            (f"{RBAC}/clusterrolebindings", BINDING),
        ):
            self._post(path, obj)
        token_request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        self._token = orjson.loads(self._post(f"{ACCOUNTS}/bench/token", token_request))["status"]["token"]
        version = Version(kubernetes="1.36.2", kcm="1")
        authenticator = Authenticator(self._api.user_of)
        front = ApiHttp(self._api, authenticator=authenticator, version=version, clock=clock, log=quiet_log())
        self._connection, self._transport = HttpConnection(front.server()), _MemoryTransport()
        self._connection.connection_made(self._transport)
        self._loop = _FixedTimeLoop()

    def _post(self, path: str, obj: dict[str, object]) -> bytes:
        response = self._api.handle(Request(method="POST", path=path, body=orjson.dumps(obj)))
        if response.status != 201:
            raise RuntimeError(response.body.decode())
        return response.body

    def request(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> bytes:
        """Return the bytes of a request as a client writes them."""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:6443\r\nUser-Agent: bench/1 (linux/amd64)\r\n"
        head += f"Authorization: Bearer {self._token}\r\nAccept: application/json\r\n"
        if body:
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        return f"{head}\r\n".encode() + body

    def send(self, requests: list[bytes]) -> None:
        self._loop.run_until_complete(self._send(requests))

    async def _send(self, requests: list[bytes]) -> None:
        for request in requests:
            self._connection.data_received(request)
            await asyncio.sleep(0)  # its response is written
            if not self._transport.written.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
                raise RuntimeError(self._transport.written.decode())


def served(request: Callable[[_ConnectedServer, int], bytes]) -> Scene:
    """Return a scene that sends REQUESTS requests at a time. `request` returns the one with the given number."""
    server, sent = _ConnectedServer(), 0

    def act() -> None:
        nonlocal sent
        server.send([request(server, number) for number in range(sent, sent + REQUESTS)])
        sent += REQUESTS

    return Scene(act=act, units=REQUESTS)


def _creation(server: _ConnectedServer, number: int) -> bytes:
    return server.request("POST", PODS, pod(number))


def _application(server: _ConnectedServer, number: int) -> bytes:
    path = f"{DEPLOYMENTS}/d{number:05}?fieldManager=bench&force=true"
    return server.request("PATCH", path, deployment(f"d{number:05}", "i:1"), APPLY)


def creates() -> Scene:
    return served(_creation)


def applies() -> Scene:
    return served(_application)


def gets() -> Scene:
    """Return a scene that gets 50 pods, each once."""
    server = _ConnectedServer()
    server.send([_creation(server, number) for number in range(REQUESTS)])
    requests = [server.request("GET", f"{PODS}/only-writes-{number:05}") for number in range(REQUESTS)]
    return Scene(act=lambda: server.send(requests), units=REQUESTS)
