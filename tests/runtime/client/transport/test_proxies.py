"""Requests through configured proxies; those of the environment are ignored."""

from __future__ import annotations

import asyncio
import queue
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from kcm.runtime.apiserver.process.certificates import Certificates
from kcm.runtime.client.api import Response
from kcm.runtime.client.config import Pem
from tests.runtime.client.transport.test_faults import OK, Script

PATIENCE = 10.0
Connect = Callable[..., Any]


def test_requests_pass_through_a_proxy(connect: Connect, loopback: Any) -> None:
    targets: queue.Queue[str] = queue.Queue()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        targets.put(head.partition(b"\r\n")[0].decode())
        writer.write(OK)
        await reader.read()

    client = connect("http://api.invalid:8080", config={"proxy": loopback.serve_raw(proxy)})
    assert client.request("GET", "/version").status == 200
    assert targets.get_nowait() == "GET http://api.invalid:8080/version HTTP/1.1"


def test_a_forwarding_proxy_receives_the_user_that_its_url_names(connect: Connect, loopback: Any) -> None:
    heads: queue.Queue[bytes] = queue.Queue()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.put(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        await reader.read()

    url = loopback.serve_raw(proxy).replace("http://", "http://us%40er:p%3Aw@")
    assert connect("http://api.invalid:8080/k8s", config={"proxy": url}).request("GET", "/x").status == 200
    head = heads.get_nowait()
    assert head.startswith(b"GET http://api.invalid:8080/k8s/x HTTP/1.1\r\n")
    assert b"\r\nHost: api.invalid:8080\r\n" in head
    assert b"\r\nProxy-Authorization: Basic dXNAZXI6cDp3\r\n" in head


class Tunnel:
    """Proxy that tunnels to a port.

    heads: heads of the CONNECT requests.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.heads: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"HTTP/1.1 200 Go On\r\n\r\n")
        await asyncio.gather(self._pass(reader, there_writer), self._pass(there_reader, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(1 << 16):
                writer.write(chunk)
        except ConnectionError:
            pass
        writer.close()


def test_server_behind_a_tunnel_receives_nothing_of_the_proxy(
    connect: Connect, loopback: Any, server_tls: ssl.SSLContext, certificates: Certificates
) -> None:
    heads: queue.Queue[list[str]] = queue.Queue()

    async def serve(request: web.BaseRequest) -> web.Response:
        heads.put([request.raw_path, request.headers["Host"], *request.headers])
        return web.Response()

    tunnel = Tunnel(int(loopback.serve(serve, tls=server_tls).rpartition(":")[2]))
    config = {
        "proxy": loopback.serve_raw(tunnel).replace("http://", "http://user:pw@"),
        "ca": Pem(origin="ca", path=str(certificates.authority.certificate)),
        "tls_server_name": "kubernetes",
    }
    client = connect("https://api.invalid:6443", config=config)
    assert client.request("POST", "/x", body=b"{}").status == 200
    assert client.request("GET", "/x").status == 200
    path, host, *names = heads.get_nowait()
    assert (path, host) == ("/x", "api.invalid:6443")
    assert not [name for name in names if name.lower().startswith("proxy")]
    (head,) = tunnel.heads
    assert head.startswith(b"CONNECT api.invalid:6443 HTTP/1.1\r\n")
    assert b"\r\nProxy-Authorization: Basic dXNlcjpwdw==\r\n" in head
    assert b"kcm" not in head


def test_client_ignores_proxies_of_the_environment(
    connect: Connect, loopback: Any, refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, refusing)
        monkeypatch.setenv(name.upper(), refusing)
    assert connect(loopback.serve_raw(Script(OK))).request("GET").status == 200


def test_unreachable_proxy_is_reported(connect: Connect, refusing: str) -> None:
    response = connect("http://api.invalid:8080", config={"proxy": refusing}).request("GET")
    address = refusing.removeprefix("http://")
    assert response == Response(
        status=0, error=f"cannot connect to the proxy {address}: connection refused", sent=False
    )


def test_response_of_a_proxy_that_rejects_a_tunnel_is_quoted(connect: Connect, loopback: Any) -> None:
    refusal = b"HTTP/1.1 407 Who Are You\r\nContent-Length: 0\r\n\r\n"
    client = connect("https://api.invalid", config={"proxy": loopback.serve_raw(Script(refusal))})
    response = client.request("GET")
    assert response == Response(
        status=0,
        error="cannot connect to https://api.invalid: the proxy returned 407 Proxy Authentication Required",
        sent=False,
    )
