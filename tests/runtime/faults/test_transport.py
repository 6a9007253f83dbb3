"""The faulty transport between a client and a server that always responds with 200, on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcm.runtime.client.api import Request, Response
from kcm.runtime.faults.plan_file import FaultPlan
from kcm.runtime.faults.transport import FaultyTransport, scope_of
from kcm.runtime.faults.triggers import Strikes
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.simulation.clock import VirtualClock

PODS = "/api/v1/namespaces/default/pods"
BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n'
INITIAL = b'{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}\n'


class Server:
    """Responds at once with the number of requests so far. `watches` contains the open watches."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.watches: list[tuple[Request, Callable[[bytes], None], Callable[[Response], None]]] = []
        self.cancelled = 0

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        self.requests.append(request)
        on_response(Response(status=200, body=str(len(self.requests)).encode()))

    def watch(self, request: Request, *, client: str, on_lines: Any, on_end: Any) -> Server:
        self.watches.append((request, on_lines, on_end))
        return self

    def cancel(self) -> None:
        self.cancelled += 1


class FaultyClient:
    """A client behind the faulty transport.

    responses: (time, status, body or error) of each response
    lines: (time, lines) of each delivery of the watch
    """

    def __init__(self, faults: str) -> None:
        self.clock, self.server = VirtualClock(), Server()
        strikes = Strikes(FaultPlan(seed=1, faults=parse_faults(faults)), clock=self.clock)
        self.transport = FaultyTransport(self.server, strikes, clock=self.clock)
        self.responses: list[tuple[float, int, str]] = []
        self.lines: list[tuple[float, bytes]] = []

    def _on_response(self, response: Response) -> None:
        self.responses.append((self.clock.monotonic(), response.status, response.error or response.body.decode()[:1]))

    def send(self, path: str = PODS, timeout: float | None = 10.0) -> None:
        request = Request(method="POST", path=path, timeout=timeout)
        self.transport.send(request, client="test", on_response=self._on_response)
        self.clock.run_due()

    def watch(self, **query: str) -> Any:
        request = Request(method="GET", path=PODS, query={"watch": "true", **query})
        stream = self.transport.watch(
            request,
            client="test",
            on_lines=lambda lines: self.lines.append((self.clock.monotonic(), lines)),
            on_end=self._on_response,
        )
        self.clock.run_due()
        return stream

    def send_lines(self, lines: bytes) -> None:
        self.server.watches[-1][1](lines)

    def advance(self, seconds: float) -> None:
        end = self.clock.monotonic() + seconds
        while (alarm := self.clock.next_alarm()) is not None and alarm <= end:
            self.clock.advance_to(alarm)
            while self.clock.run_due():
                pass
        self.clock.advance_to(end)


@pytest.mark.parametrize(
    "path, scope",
    [
        ("/api/v1/pods", ("pods", "")),
        ("/api/v1/nodes/n1", ("nodes", "n1")),
        ("/api/v1/namespaces/default", ("namespaces", "default")),
        ("/api/v1/namespaces/default/pods/web/status", ("pods", "default/web")),
        ("/apis/apps/v1/namespaces/default/replicasets", ("replicasets", "default/")),
        ("/apis/example.com/v1/websites", ("websites", "")),
        ("/version", ("", "")),
        ("/api", ("", "")),
    ],
)
def test_scope_of_a_request_is_derived_from_its_path(path: str, scope: tuple[str, str]) -> None:
    assert scope_of(path) == scope


@pytest.mark.parametrize(
    "faults, responses, arrived",
    [
        ("partition 0..5 resource=nodes", [(0.0, 200, "1")], 1),
        ("command-lost", [(10.0, 0, "timed out (injected)")], 0),
        ("command-refused", [(0.0, 0, "connection refused (injected)")], 0),
        ("command-answered status=500", [(0.0, 500, "{")], 0),
        ("command-delayed seconds=3", [(3.0, 200, "1")], 1),
        ("command-delayed seconds=30", [(10.0, 0, "timed out (injected)")], 0),
        ("command-repeated", [(0.0, 200, "2")], 2),
        ("outcome-lost", [(10.0, 0, "timed out (injected)")], 1),
        ("outcome-repeated", [(0.0, 200, "1"), (0.0, 200, "1")], 1),
        ("partition 0..5", [(10.0, 0, "timed out (injected)")], 0),
        ("partition 5..9", [(0.0, 200, "1")], 1),
        ("command-lost object=default/other", [(0.0, 200, "1")], 1),
        ("command-lost process=hollow*", [(0.0, 200, "1")], 1),
    ],
)
def test_a_request_meets_the_fault_of_the_plan(
    faults: str, responses: list[tuple[float, int, str]], arrived: int
) -> None:
    way = FaultyClient(faults)
    way.send()
    way.advance(60)
    assert way.responses == responses
    assert len(way.server.requests) == arrived


def test_fault_strikes_up_to_its_limit() -> None:
    way = FaultyClient("command-answered status=429 seconds=2 most=2")
    for _ in range(4):
        way.send()
    way.advance(1)
    assert sorted(status for _, status, _ in way.responses) == [200, 200, 429, 429]


def test_a_watch_without_faults_passes_at_once() -> None:
    way = FaultyClient("command-lost")
    way.watch()
    way.send_lines(b"a\n")
    way.server.watches[0][2](Response(status=200))
    assert way.lines == [(0.0, b"a\n")]
    assert way.responses == [(0.0, 200, "")]


def test_late_lines_stay_in_order_and_the_end_comes_last() -> None:
    way = FaultyClient("watch-lagging seconds=3 most=1")
    way.watch()
    way.send_lines(b"a\n")
    way.advance(1)
    way.send_lines(b"b\n")
    way.server.watches[0][2](Response(status=200))
    way.advance(10)
    assert way.lines == [(3.0, b"a\n"), (3.0, b"b\n")]
    assert way.responses == [(3.0, 200, "")]


def test_stalled_watch_delivers_neither_lines_nor_its_end() -> None:
    way = FaultyClient("watch-stalled")
    way.watch()
    way.send_lines(b"a\n")
    way.server.watches[0][2](Response(status=200))
    way.advance(60)
    assert (way.lines, way.responses) == ([], [])


def test_a_dropped_watch_is_cut_and_its_client_notified() -> None:
    way = FaultyClient("watch-dropped")
    way.watch()
    way.send_lines(b"a\n")
    assert way.lines == []
    assert way.responses == [(0.0, 0, "unexpected EOF (injected)")]
    assert way.server.cancelled == 1


def test_a_partition_holds_lines_back_until_it_ends() -> None:
    way = FaultyClient("partition 2..7")
    way.watch()
    way.advance(3)
    way.send_lines(b"a\n")
    way.advance(10)
    assert way.lines == [(7.0, b"a\n")]
    way = FaultyClient("partition 0..7")
    way.watch()
    assert way.responses == [(0.0, 0, "connection refused (injected)")]
    assert way.server.watches == []


def test_bookmarks_are_withheld_except_the_one_that_ends_a_list() -> None:
    way = FaultyClient("bookmarks-withheld")
    way.watch()
    way.send_lines(b"a\n" + BOOKMARK + INITIAL)
    way.send_lines(BOOKMARK)
    assert way.lines == [(0.0, b"a\n" + INITIAL)]


@pytest.mark.parametrize("version, asked", [("100", "95"), ("3", "1"), ("0", "0"), ("", "")])
def test_a_rewound_watch_begins_in_the_past(version: str, asked: str) -> None:
    way = FaultyClient("watch-rewound amount=5")
    way.watch(resourceVersion=version)
    assert way.server.watches[0][0].query["resourceVersion"] == asked


def test_a_cancelled_watch_receives_no_late_lines() -> None:
    way = FaultyClient("watch-lagging seconds=3")
    stream = way.watch()
    way.send_lines(b"a\n")
    stream.cancel()
    way.advance(10)
    assert (way.lines, way.responses, way.server.cancelled) == ([], [], 1)


def test_delayed_request_keeps_its_permit() -> None:
    way = FaultyClient("command-delayed seconds=3")
    way.send(timeout=10.0)
    way.advance(3.0)
    assert [request.permit.until for request in way.server.requests] == [10.0]
