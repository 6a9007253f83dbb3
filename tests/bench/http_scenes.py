"""Requests as the embedded server's process has them, but for TLS and the disk: from a connection's bytes to those of
the response, by a service account whose rights roles give, with all admission plugins that kube-apiserver has by
default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson
from cryptography.hazmat.primitives.asymmetric import ec

from kcm.protocols.admission_plugins import enabled_plugins
from kcm.runtime.apiserver.access.account_tokens import AccountTokens
from kcm.runtime.apiserver.access.authentication import Authenticator
from kcm.runtime.apiserver.http.handler import ApiHttp
from kcm.runtime.apiserver.server import ApiServer
from kcm.runtime.apiserver.storage.store import MemoryStore
from kcm.runtime.client.api import Request
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.process.version import Version
from kcm.runtime.signing.tokens import SigningKey
from tests.bench.only_writes import pod
from tests.bench.scene import Scene
from tests.bench.server_requests import APPLY, BINDING, ROLE, deployment

REQUESTS = 50
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/kube-system/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class _StoppedClock:
    def now(self) -> float:
        return 1.8e9


class _StoppedLoop(asyncio.SelectorEventLoop):
    """No request takes time: whose turn it is does not depend on how fast the machine is."""

    def time(self) -> float:
        return 0.0


class _Wire(asyncio.Transport):
    """Keeps what was written last."""

    written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written = bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class _Front:
    """The server behind one connection."""

    def __init__(self) -> None:
        tokens = AccountTokens(SigningKey(ec.generate_private_key(ec.SECP256R1())))
        clock = _StoppedClock()
        self._api = ApiServer(
            store=MemoryStore(),
            clock=clock,
            collect_garbage=False,
            empty_namespaces=False,
            role_based=True,
            tokens=tokens,
            plugins=enabled_plugins(enable=(), disable=()),
        )
        self._api.ensure_roles()
        self._api.reached_at("127.0.0.1", 6443)
        for path, obj in (
            (ACCOUNTS, {"metadata": {"name": "bench"}}),
            ("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}),
            (f"{RBAC}/clusterroles", ROLE),
            (f"{RBAC}/clusterrolebindings", BINDING),
        ):
            self._post(path, obj)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        self._token = orjson.loads(self._post(f"{ACCOUNTS}/bench/token", asked))["status"]["token"]
        version = Version(kubernetes="1.36.2", kcm="1")
        authenticator = Authenticator(self._api.user_of)
        front = ApiHttp(self._api, authenticator=authenticator, version=version, clock=clock, log=quiet_log())
        self._connection, self._wire = front.server()(), _Wire()
        self._connection.connection_made(self._wire)
        self._loop = _StoppedLoop()

    def _post(self, path: str, obj: dict[str, object]) -> bytes:
        response = self._api.handle(Request(method="POST", path=path, body=orjson.dumps(obj)))
        if response.status != 201:
            raise RuntimeError(response.body.decode())
        return response.body

    def request(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> bytes:
        """As a client writes it."""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:6443\r\nUser-Agent: bench/1 (linux/amd64)\r\n"
        head += f"Authorization: Bearer {self._token}\r\nAccept: application/json\r\n"
        if body:
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        return f"{head}\r\n".encode() + body

    def play(self, requests: list[bytes]) -> None:
        self._loop.run_until_complete(self._play(requests))

    async def _play(self, requests: list[bytes]) -> None:
        for one in requests:
            self._connection.data_received(one)
            await asyncio.sleep(0)  # its response is written
            if not self._wire.written.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
                raise RuntimeError(self._wire.written.decode())


def served(request: Callable[[_Front, int], bytes]) -> Scene:
    """request: of this number."""
    front, made = _Front(), 0

    def act() -> None:
        nonlocal made
        front.play([request(front, number) for number in range(made, made + REQUESTS)])
        made += REQUESTS

    return Scene(act=act, units=REQUESTS)


def _creation(front: _Front, number: int) -> bytes:
    return front.request("POST", PODS, pod(number))


def _application(front: _Front, number: int) -> bytes:
    path = f"{DEPLOYMENTS}/d{number:05}?fieldManager=bench&force=true"
    return front.request("PATCH", path, deployment(f"d{number:05}", "i:1"), APPLY)


def creates() -> Scene:
    return served(_creation)


def applies() -> Scene:
    return served(_application)


def gets() -> Scene:
    """Of 50 pods, each once."""
    front = _Front()
    front.play([_creation(front, number) for number in range(REQUESTS)])
    asked = [front.request("GET", f"{PODS}/only-writes-{number:05}") for number in range(REQUESTS)]
    return Scene(act=lambda: front.play(asked), units=REQUESTS)
