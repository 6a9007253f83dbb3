"""What is set of a connection, and both ways to wait for it; tests of the transport show the rest."""

from __future__ import annotations

import queue
import select
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from kcm.runtime.client import connections
from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.connections import _prepare_socket
from kcm.runtime.client.readiness import LoopReadiness

Connect = Callable[..., Any]
PATIENCE = 10.0


def test_a_socket_notices_a_peer_that_is_gone_and_discards_what_it_did_not_send_when_it_is_closed() -> None:
    with socket.socket() as made:
        made.set_inheritable(True)
        assert _prepare_socket(made.fileno(), 0) == 0
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert struct.unpack("ii", made.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)) == (1, 0)
        if hasattr(socket, "TCP_KEEPIDLE"):
            times = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            assert [made.getsockopt(socket.IPPROTO_TCP, time) for time in times] == [30, 15, 4]
        assert not made.get_inheritable()


def test_a_proxy_without_a_port_has_its_schemes() -> None:
    assert connections._with_port("http://user:pw@proxy") == "http://user:pw@proxy:80"
    assert connections._with_port("https://proxy/") == "https://proxy:443/"
    assert connections._with_port("http://[::1]:3128") == "http://[::1]:3128"


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="the loop watches all descriptors here anyway")
def test_where_there_is_no_epoll_the_loop_itself_waits(
    connect: Connect, loopback: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.rel_url.query:
            return web.Response(body=await request.read())
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(3):
            await response.write(b"%d\n" % number)
        return response

    monkeypatch.setattr(connections, "new_readiness", LoopReadiness)
    client = connect(loopback.serve(serve))
    body = b"x" * 500_000
    for _ in range(20):
        client.send("POST", body=body)
    assert all(client.answer().body == body for _ in range(20))
    came: queue.Queue[bytes | Response] = queue.Queue()
    watch = Request(method="GET", path="/", query={"watch": "1"})
    client.transport.watch(watch, client="tester", on_lines=came.put, on_end=came.put)
    lines = b""
    while not isinstance(one := came.get(timeout=PATIENCE), Response):
        lines += one
    assert (lines, one) == (b"0\n1\n2\n", Response(status=200))
