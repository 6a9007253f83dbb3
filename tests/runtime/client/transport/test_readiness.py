"""Waiting for sockets with and without epoll."""

from __future__ import annotations

import queue
import select
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from kcm.runtime.client.api import Request, Response
from kcm.runtime.http.client import connections
from kcm.runtime.http.client.readiness import LoopReadiness

Connect = Callable[..., Any]
PATIENCE = 10.0


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="the loop watches all descriptors here anyway")
def test_loop_watches_sockets_without_epoll(connect: Connect, loopback: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert all(client.response().body == body for _ in range(20))
    received: queue.Queue[bytes | Response] = queue.Queue()
    watch = Request(method="GET", path="/", query={"watch": "1"})
    client.transport.watch(watch, client="tester", on_lines=received.put, on_end=received.put)
    lines = b""
    while not isinstance(item := received.get(timeout=PATIENCE), Response):
        lines += item
    assert (lines, item) == (b"0\n1\n2\n", Response(status=200))
