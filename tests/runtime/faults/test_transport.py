"""The faulty transport between a client and a server that always says yes, on a virtual clock."""

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
    """Answers at once, with how many requests there have been. watches: those that are open."""

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


class Way:
    """A client on one end. heard: (when, status, body or error) of every answer; lines: (when, lines)."""

    def __init__(self, faults: str) -> None:
        self.clock, self.server = VirtualClock(), Server()
        strikes = Strikes(FaultPlan(seed=1, faults=parse_faults(faults)), clock=self.clock)
        self.transport = FaultyTransport(self.server, strikes, clock=self.clock)
        self.heard: list[tuple[float, int, str]] = []
        self.lines: list[tuple[float, bytes]] = []

    def _answered(self, response: Response) -> None:
        self.heard.append((self.clock.monotonic(), response.status, response.error or response.body.decode()[:1]))

    def send(self, path: str = PODS, timeout: float | None = 10.0) -> None:
        request = Request(method="POST", path=path, timeout=timeout)
        self.transport.send(request, client="test", on_response=self._answered)
        self.clock.sound_due()

    def watch(self, **query: str) -> Any:
        request = Request(method="GET", path=PODS, query={"watch": "true", **query})
        stream = self.transport.watch(
            request,
            client="test",
            on_lines=lambda lines: self.lines.append((self.clock.monotonic(), lines)),
            on_end=self._answered,
        )
        self.clock.sound_due()
        return stream

    def say(self, lines: bytes) -> None:
        self.server.watches[-1][1](lines)

    def pass_time(self, seconds: float) -> None:
        end = self.clock.monotonic() + seconds
        while (alarm := self.clock.next_alarm()) is not None and alarm <= end:
            self.clock.advance_to(alarm)
            while self.clock.sound_due():
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
def test_a_path_says_what_a_request_is_about(path: str, scope: tuple[str, str]) -> None:
    assert scope_of(path) == scope


@pytest.mark.parametrize(
    "faults, heard, arrived",
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
def test_a_request_meets_the_fault_of_the_plan(faults: str, heard: list[tuple[float, int, str]], arrived: int) -> None:
    way = Way(faults)
    way.send()
    way.pass_time(60)
    assert way.heard == heard
    assert len(way.server.requests) == arrived


def test_a_fault_strikes_as_often_as_it_may() -> None:
    way = Way("command-answered status=429 seconds=2 most=2")
    for _ in range(4):
        way.send()
    way.pass_time(1)
    assert sorted(status for _, status, _ in way.heard) == [200, 200, 429, 429]


def test_a_watch_without_faults_passes_at_once() -> None:
    way = Way("command-lost")
    way.watch()
    way.say(b"a\n")
    way.server.watches[0][2](Response(status=200))
    assert way.lines == [(0.0, b"a\n")]
    assert way.heard == [(0.0, 200, "")]


def test_late_lines_stay_in_order_and_the_end_comes_last() -> None:
    way = Way("watch-lagging seconds=3 most=1")
    way.watch()
    way.say(b"a\n")
    way.pass_time(1)
    way.say(b"b\n")
    way.server.watches[0][2](Response(status=200))
    way.pass_time(10)
    assert way.lines == [(3.0, b"a\n"), (3.0, b"b\n")]
    assert way.heard == [(3.0, 200, "")]


def test_a_stalled_watch_says_nothing_more_not_even_its_end() -> None:
    way = Way("watch-stalled")
    way.watch()
    way.say(b"a\n")
    way.server.watches[0][2](Response(status=200))
    way.pass_time(60)
    assert (way.lines, way.heard) == ([], [])


def test_a_dropped_watch_is_cut_and_its_client_notified() -> None:
    way = Way("watch-dropped")
    way.watch()
    way.say(b"a\n")
    assert way.lines == []
    assert way.heard == [(0.0, 0, "unexpected EOF (injected)")]
    assert way.server.cancelled == 1


def test_a_partition_holds_lines_back_until_it_ends() -> None:
    way = Way("partition 2..7")
    way.watch()
    way.pass_time(3)
    way.say(b"a\n")
    way.pass_time(10)
    assert way.lines == [(7.0, b"a\n")]
    way = Way("partition 0..7")
    way.watch()
    assert way.heard == [(0.0, 0, "connection refused (injected)")]
    assert way.server.watches == []


def test_bookmarks_are_withheld_but_for_the_one_that_ends_a_list() -> None:
    way = Way("bookmarks-withheld")
    way.watch()
    way.say(b"a\n" + BOOKMARK + INITIAL)
    way.say(BOOKMARK)
    assert way.lines == [(0.0, b"a\n" + INITIAL)]


@pytest.mark.parametrize("version, asked", [("100", "95"), ("3", "1"), ("0", "0"), ("", "")])
def test_a_rewound_watch_begins_in_the_past(version: str, asked: str) -> None:
    way = Way("watch-rewound amount=5")
    way.watch(resourceVersion=version)
    assert way.server.watches[0][0].query["resourceVersion"] == asked


def test_a_cancelled_watch_receives_no_late_lines() -> None:
    way = Way("watch-lagging seconds=3")
    stream = way.watch()
    way.say(b"a\n")
    stream.cancel()
    way.pass_time(10)
    assert (way.lines, way.heard, way.server.cancelled) == ([], [], 1)


def test_what_is_late_reaches_the_server_with_the_permit_that_it_had() -> None:
    way = Way("command-delayed seconds=3")
    way.send(timeout=10.0)
    way.pass_time(3.0)
    assert [request.permit.until for request in way.server.requests] == [10.0]
