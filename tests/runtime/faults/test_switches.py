from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kcm.runtime.client.api import Request, Response
from kcm.runtime.faults.switches import SwitchedTransport

PODS = Request(method="GET", path="/api/v1/pods", query={"watch": "true"})


class Watch:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Server:
    """Transport whose server accepts every request."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.watches: list[Watch] = []
        self.end: Callable[[Response], None]

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        del client
        self.sent.append(request.path)
        on_response(Response(status=200))

    def watch(
        self, request: Request, *, client: str, on_lines: Callable[[bytes], None], on_end: Callable[[Response], None]
    ) -> Watch:
        del request, client, on_lines
        self.end = on_end
        self.watches.append(Watch())
        return self.watches[-1]


class SoonClock:
    """Clock that calls at once what is due now."""

    def monotonic(self) -> float:
        return 5.0

    def call_at(self, who: object, when: float, what: Callable[[], None]) -> None:
        del who
        assert when == 5.0
        what()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def transport(server: Server) -> SwitchedTransport:
    clock: Any = SoonClock()
    return SwitchedTransport(server, clock=clock)


def sent(transport: SwitchedTransport, method: str, path: str) -> list[Response]:
    answers: list[Response] = []
    transport.send(Request(method=method, path=path), client="x", on_response=answers.append)
    return answers


def watched(transport: SwitchedTransport) -> list[Response]:
    ends: list[Response] = []
    transport.watch(PODS, client="x", on_lines=lambda _: None, on_end=ends.append)
    return ends


def test_refused_writes_do_not_reach_the_server(transport: SwitchedTransport, server: Server) -> None:
    transport.refuse_writes(on=True)
    (answer,) = sent(transport, "POST", "/api/v1/namespaces/shop/pods")
    assert (answer.status, json.loads(answer.body)["reason"]) == (503, "ServiceUnavailable")
    assert sent(transport, "GET", "/api/v1/pods")[0].status == 200
    assert sent(transport, "PUT", "/apis/coordination.k8s.io/v1/namespaces/x/leases/y")[0].status == 200
    transport.refuse_writes(on=False)
    assert sent(transport, "DELETE", "/api/v1/namespaces/shop/pods/a")[0].status == 200
    assert len(server.sent) == 3


def test_cut_watch_ends_once_and_is_refused_until_it_is_allowed(transport: SwitchedTransport, server: Server) -> None:
    ends = watched(transport)
    assert transport.watched == ["pods"]
    transport.cut_watches("nodes", on=True)
    assert ends == []
    transport.cut_watches("pods", on=True)
    assert [end.status for end in ends] == [0]
    assert server.watches[0].is_cancelled
    server.end(Response(status=200))
    assert len(ends) == 1
    assert [end.error for end in watched(transport)] == ["connection refused (injected)"]
    assert (len(server.watches), transport.watched) == (1, ["nodes", "pods"])
    transport.cut_watches("pods", on=False)
    assert watched(transport) == []
    assert len(server.watches) == 2


def test_watch_that_was_cancelled_has_no_end(transport: SwitchedTransport, server: Server) -> None:
    ends: list[Response] = []
    transport.watch(PODS, client="x", on_lines=lambda _: None, on_end=ends.append).cancel()
    transport.cut_watches("pods", on=True)
    server.end(Response(status=200))
    assert (ends, server.watches[0].is_cancelled) == ([], True)
