"""The simulated network: latency of requests and watches, and faults in transit."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from kcm.runtime.apiserver.core.questions import Answer, Post, Question
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.client.api import Request, Response
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.scheduling.permits import Permit, Tenure
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.disk import SimulatedDisk
from kcm.runtime.simulation.network import SimulatedNetwork
from kcm.runtime.simulation.side_threads import SideThread
from kcm.runtime.simulation.transport import SimulatedTransport
from kcm.runtime.simulation.watch_streams import SimulatedStream
from tests.runtime.apiserver.converters import Converter
from tests.runtime.apiserver.core.test_conversion import V1, V2, definition, thing
from tests.runtime.apiserver.stores import HeldStore
from tests.support.objects import pod

LATENCY = 0.1
PODS = "/api/v1/namespaces/default/pods"


class Client:
    """Client of the network in one process.

    responses: (time, status, error)
    lines: (time, type, name) of each watch event
    ended: (time, status, error)
    """

    def __init__(self, faults: str = "") -> None:
        self.clock, self.disk = VirtualClock(), SimulatedDisk()
        self.network = SimulatedNetwork(
            ApiServer(store=self.disk, clock=self.clock), clock=self.clock, random=random.Random(1), latency=LATENCY
        )
        if faults:
            self.network.injector = Injector(parse_faults(faults), seed=1, clock=self.clock)
        self.transport = SimulatedTransport(self.network, "manager")
        self.responses: list[tuple[float, int, str]] = []
        self.lines: list[tuple[float, str, str]] = []
        self.ended: list[tuple[float, int, str]] = []
        self.last: Response | None = None

    def send(self, method: str, path: str = PODS, body: Mapping[str, Any] | None = None, timeout: float = 10.0) -> None:
        """Send a request, and run for a minute."""
        raw = b"" if body is None else orjson.dumps(body)
        self.transport.send(
            Request(method=method, path=path, body=raw, timeout=timeout), client="test", on_response=self._responded
        )
        self.run_for(60.0)

    def watch(self, path: str = PODS, **query: str) -> SimulatedStream:
        stream = self.transport.watch(
            Request(method="GET", path=path, query={"watch": "true", **query}),
            client="test",
            on_lines=self._lines,
            on_end=lambda response: self.ended.append((self.clock.monotonic(), response.status, response.error)),
        )
        self.run_for(1.0)
        return stream

    def create(self, name: str) -> None:
        """Create an object in the server directly, without the network and its faults."""
        request = Request(method="POST", path=PODS, body=orjson.dumps(pod(name)))
        assert self.network.server.handle(request).status == 201

    def run_for(self, seconds: float) -> None:
        end = self.clock.monotonic() + seconds
        while (alarm := self.clock.next_alarm()) is not None and alarm <= end:
            self.clock.advance_to(alarm)
            while self.clock.run_due():
                pass
        self.clock.advance_to(end)

    @property
    def stored(self) -> list[str]:
        return sorted(stored.key for stored in self.disk.load() if stored.storage == "pods")

    def _responded(self, response: Response) -> None:
        self.responses.append((self.clock.monotonic(), response.status, response.error))
        self.last = response

    def _lines(self, lines: bytes) -> None:
        for line in lines.splitlines():
            event = orjson.loads(line)
            name = event["object"]["metadata"].get("name", "")
            self.lines.append((self.clock.monotonic(), event["type"], name))


def test_a_request_and_its_response_each_take_up_to_twice_the_latency() -> None:
    client = Client()
    client.send("POST", body=pod("web"))
    ((when, status, _),) = client.responses
    assert status == 201
    assert 2 * LATENCY <= when <= 4 * LATENCY
    assert client.stored == ["default/web"]


@pytest.mark.parametrize(
    ("fault", "status", "error", "stored"),
    [
        ("command-lost", 0, "timed out", []),
        ("command-refused", 0, "connection refused", []),
        ("command-answered status=503", 503, "", []),
        ("outcome-lost", 0, "timed out", ["default/web"]),
        ("partition", 0, "timed out", []),
        ("command-delayed seconds=5", 201, "", ["default/web"]),
        ("command-delayed seconds=30", 0, "timed out", ["default/web"]),
        ("request-held seconds=5", 201, "", ["default/web"]),
        ("request-held seconds=30", 0, "not sent: it may not begin any more", []),
        ("command-repeated", 409, "", ["default/web"]),
    ],
)
def test_a_fault_decides_whether_the_command_is_carried_out_and_what_its_client_receives(
    fault: str, status: int, error: str, stored: list[str]
) -> None:
    client = Client(fault)
    client.send("POST", body=pod("web"))
    assert [(status, error) for _, status, error in client.responses] == [(status, error)] * len(client.responses)
    assert client.responses[0][1:] == (status, error)
    assert client.stored == stored


def test_request_arrives_after_its_client_has_timed_out() -> None:
    client = Client("command-delayed seconds=30")
    client.send("POST", body=pod("web"), timeout=7.0)
    assert client.responses == [(7.0, 0, "timed out")], "and hears nothing of it later"
    assert client.stored == ["default/web"]


def test_request_is_not_sent_if_its_permit_expires_while_the_thread_is_blocked() -> None:
    client, tenure = Client(), Tenure()
    http = SideThread(client.clock)
    transport, answers = SimulatedTransport(client.network, "held", http), list[Response]()
    http.hold(3.0)
    tenure.extend(100.0)
    for name, permit in (("late", Permit(0.5)), ("given-back", Permit(100.0, tenure)), ("in-time", Permit(9.0))):
        request = Request(method="POST", path=PODS, body=orjson.dumps(pod(name)), permit=permit)
        transport.send(request, client="test", on_response=answers.append)
    tenure.end()
    client.run_for(2.9)
    assert (answers, client.network.requests) == ([], [])
    client.run_for(5.0)
    assert [(answer.status, answer.sent) for answer in answers if answer.status == 0] == [(0, False)] * 2
    assert client.stored == ["default/in-time"]
    assert [when for when, _, _ in client.network.requests] == [3.0], "when its bytes go out"


def test_lines_and_responses_are_delayed_while_the_thread_is_blocked() -> None:
    client = Client()
    http = SideThread(client.clock)
    client.transport = SimulatedTransport(client.network, "held", http)
    client.watch()
    http.hold(client.clock.monotonic() + 20.0)
    for name in "ab":
        client.create(name)
    client.run_for(19.0)
    assert client.lines == []
    client.run_for(2.0)
    assert [name for _, _, name in client.lines] == ["a", "b"]


def test_lost_request_ends_with_its_timeout() -> None:
    client = Client("command-lost most=1")
    client.send("POST", body=pod("web"), timeout=7.0)
    assert client.responses == [(7.0, 0, "timed out")]


def test_only_unsent_requests_are_reported_as_unsent() -> None:
    refused, lost = Client("command-refused"), Client("command-lost")
    for client in (refused, lost):
        client.send("POST", body=pod("web"))
    assert refused.last is not None
    assert lost.last is not None
    assert (refused.last.sent, lost.last.sent) == (False, True)


def test_repeated_outcome_is_delivered_twice() -> None:
    client = Client("outcome-repeated")
    client.send("POST", body=pod("web"))
    assert [status for _, status, _ in client.responses] == [201, 201]


def test_fault_of_an_object_does_not_affect_others() -> None:
    client = Client("command-refused object=default/web")
    client.send("POST", body=pod("web"))
    client.send("POST", body=pod("api"))
    assert [status for _, status, _ in client.responses] == [0, 201]


def test_watch_delivers_changes_in_order() -> None:
    client = Client()
    client.watch()
    for name in "abc":
        client.create(name)
    client.run_for(1.0)
    assert [(type, name) for _, type, name in client.lines] == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


def test_lagging_watch_stays_in_order() -> None:
    client = Client("watch-lagging seconds=20 most=1")
    client.watch()
    for name in "ab":
        client.create(name)
    client.run_for(19.0)
    assert client.lines == []
    client.run_for(5.0)
    assert [name for _, _, name in client.lines] == ["a", "b"]


def test_stalled_watch_delivers_nothing_and_does_not_end() -> None:
    client = Client("watch-stalled most=1")
    client.watch()
    client.create("a")
    client.run_for(600.0)
    assert (client.lines, client.ended) == ([], [])


def test_dropped_watch_loses_events_in_transit() -> None:
    client = Client("watch-dropped most=1")
    client.watch()
    client.create("a")
    client.run_for(1.0)
    assert client.lines == []
    assert [(status, error) for _, status, error in client.ended] == [(0, "unexpected EOF")]


def test_a_rewound_watch_repeats_the_last_changes() -> None:
    client = Client("watch-rewound amount=1 most=1")
    for name in "ab":
        client.create(name)
    client.watch(resourceVersion=str(client.network.server.revision))
    assert [name for _, _, name in client.lines] == ["b"]


def test_cancelled_watch_delivers_nothing() -> None:
    client = Client()
    stream = client.watch()
    client.create("a")
    stream.cancel()
    client.run_for(1.0)
    assert (client.lines, client.ended) == ([], [])


def test_stopped_server_ends_watches_and_refuses_requests() -> None:
    client = Client()
    client.watch()
    client.network.server_is_down = True
    client.network.break_streams()
    client.send("GET")
    client.watch()
    assert [(status, error) for _, status, error in client.responses] == [(0, "connection refused")]
    assert [error for _, _, error in client.ended] == ["connection reset by peer", "connection refused"]


def test_a_restarted_server_has_what_was_committed() -> None:
    client = Client()
    client.create("a")
    client.network.server = ApiServer(store=client.disk, clock=client.clock)
    client.send("GET", f"{PODS}/a")
    assert client.responses[-1][1] == 200
    client.send("DELETE", f"{PODS}/a")
    assert client.stored == []


def test_a_response_waits_until_the_write_is_on_disk() -> None:
    client, store = Client(), HeldStore()
    client.network.server = ApiServer(store=store, clock=client.clock)
    client.clock.call_after(3.0, store.release)
    client.send("POST", body=pod("a"))
    assert [(int(when), status) for when, status, _ in client.responses] == [(3, 201)]


def test_crash_loses_only_unacknowledged_writes() -> None:
    client, store = Client(), HeldStore()
    client.network.server = ApiServer(store=store, clock=client.clock)
    watched = client.watch()

    def crash() -> None:
        client.network.server = ApiServer(store=client.disk, clock=client.clock)  # with an empty disk

    client.clock.call_after(3.0, crash)
    client.send("POST", body=pod("a"))
    client.send("GET", f"{PODS}/a")
    watched.cancel()
    assert [(status, error) for _, status, error in client.responses] == [(0, "timed out"), (404, "")]
    assert client.lines == []


def test_webhook_delays_only_its_request() -> None:
    client = Client()
    asked: list[float] = []

    def refuse(question: Question) -> Answer:
        assert isinstance(question, Post)
        asked.append(client.clock.monotonic())
        review = orjson.loads(question.body)
        response = {"uid": review["request"]["uid"], "allowed": False}
        return Answer(200, orjson.dumps({**review, "response": response}))

    client.network.call_webhook = refuse
    hook = {
        "name": "hook.example.com",
        "clientConfig": {"url": "https://hook/x"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    client.send("POST", path, {"metadata": {"name": "hooks"}, "webhooks": [hook]})
    client.send("POST", body=pod("web"))

    (began,), (ended, status, _) = (
        [at for at, _, scope in client.network.requests if scope.path == PODS],
        client.responses[-1],
    )
    assert status == 400
    assert began + LATENCY <= asked[0] - 2 * LATENCY
    assert asked[0] + LATENCY <= ended


def test_watch_events_wait_for_the_conversion_webhook() -> None:
    client, converter = Client(), Converter()
    client.network.call_webhook = converter.ask
    body = definition()
    client.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    client.send("POST", V1, thing("a"))
    client.watch(path=V2)
    client.send("POST", V1, thing("b"))
    assert [(type_, name) for _, type_, name in client.lines] == [("ADDED", "a"), ("ADDED", "b")]
    posted = next(at for at, _, scope in reversed(client.network.requests) if scope.method == "POST")
    assert client.lines[-1][0] >= posted + 4 * LATENCY
    assert len(converter.heard) == 2
