"""Contract of `Transport`: HTTP and the simulated network, with and without a fault plan."""

from __future__ import annotations

import asyncio
import queue
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.connection import user_agents
from kcm.runtime.apiserver.core.suspended_requests import Suspended
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.storage.store import MemoryStore
from kcm.runtime.client.api import Request, Response, Transport
from kcm.runtime.client.config import ClientConfig, Credential
from kcm.runtime.client.credentials import FixedCredential
from kcm.runtime.client.transport import HttpTransport
from kcm.runtime.faults.plan_file import FaultPlan
from kcm.runtime.faults.transport import FaultyTransport
from kcm.runtime.faults.triggers import Strikes
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock, SystemClock
from kcm.runtime.scheduling.permits import Permit, Tenure
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.disk import SimulatedDisk
from kcm.runtime.simulation.network import SimulatedNetwork
from kcm.runtime.simulation.transport import SimulatedTransport
from tests.runtime.apiserver.http.served import PODS, TOKEN, Served, posted_pod, serving

PATIENCE = 10.0  # seconds


class Side:
    """Transport implementation with its API server. came: (callback, value) of each callback in order."""

    transport: Transport
    clock: Clock

    def __init__(self) -> None:
        self.came: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def send(self, method: str, path: str = PODS, body: Any = None, **fields: Any) -> None:
        raw = b"" if body is None else orjson.dumps(body)
        request = Request(method=method, path=path, body=raw, **fields)
        self.transport.send(request, client="tester", on_response=lambda response: self.came.put(("ok", response)))

    def ask(self, method: str, path: str = PODS, body: Any = None, **fields: Any) -> Response:
        self.send(method, path, body, **fields)
        response: Response = self.next()[1]
        return response

    def watch(self, path: str = PODS, **query: str) -> Any:
        return self.transport.watch(
            Request(method="GET", path=path, query={"watch": "true", **query}),
            client="tester",
            on_lines=lambda lines: [self.came.put(("line", line)) for line in lines.splitlines(keepends=True)],
            on_end=lambda response: self.came.put(("end", response)),
        )

    def next(self) -> tuple[str, Any]:
        """Return the next response, line or end of a watch."""
        raise NotImplementedError

    def is_silent(self) -> bool:
        """Report whether nothing arrives before the response to a request that is sent now."""
        self.send("GET", f"{PODS}/none")
        what, value = self.next()
        return what == "ok" and value.status == 404

    def close(self) -> None:
        return None


class Http(Side):
    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self.clock = self._system = SystemClock()
        self._loop, self._over = asyncio.new_event_loop(), asyncio.Event()
        began: queue.Queue[str] = queue.Queue()

        async def serve() -> None:
            async with serving(MemoryStore()) as served:
                await _namespace(served)
                began.put(served.url)
                await self._over.wait()

        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(serve()), daemon=True)
        self._thread.start()
        config = ClientConfig(
            origin="test",
            server=began.get(timeout=PATIENCE),
            credentials=FixedCredential(Credential(authorization=f"Bearer {TOKEN}")),
        )
        self._http = HttpTransport(config, agents=user_agents("kcm", {}), metrics=Metrics(), clock=self.clock, log=log)
        self._http.start()
        self.transport = self._http

    def next(self) -> tuple[str, Any]:
        return self.came.get(timeout=PATIENCE)

    def close(self) -> None:
        self._http.close(0)
        self._system.close()
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE)
        self._loop.close()


async def _namespace(served: Served) -> None:
    await served.ask("POST", "/api/v1/namespaces", json={"metadata": {"name": "default"}})


class Simulated(Side):
    def __init__(self, _log: FilteringBoundLogger) -> None:
        super().__init__()
        self.clock = self._virtual = VirtualClock()
        server = ApiServer(store=SimulatedDisk(), clock=self._virtual)
        self.transport = SimulatedTransport(
            SimulatedNetwork(server, clock=self._virtual, random=random.Random(1)), "tester"
        )

    def next(self) -> tuple[str, Any]:
        until = self._virtual.monotonic() + PATIENCE
        while self.came.empty() and (alarm := self._virtual.next_alarm()) is not None and alarm <= until:
            self._virtual.advance_to(alarm)
            self._virtual.run_due()
        return self.came.get_nowait()


def under_a_plan(make: Callable[[FilteringBoundLogger], Side]) -> Callable[[FilteringBoundLogger], Side]:
    def wrapped(log: FilteringBoundLogger) -> Side:
        side = make(log)
        strikes = Strikes(FaultPlan(seed=1, faults=()), clock=side.clock)
        side.transport = FaultyTransport(side.transport, strikes, clock=side.clock)
        return side

    return wrapped


SIDES: dict[str, Callable[[FilteringBoundLogger], Side]] = {
    "http": Http,
    "simulated": Simulated,
    "http under a fault plan": under_a_plan(Http),
    "simulated under a fault plan": under_a_plan(Simulated),
}


@pytest.fixture(params=SIDES.values(), ids=SIDES.keys())
def side(request: pytest.FixtureRequest, log: FilteringBoundLogger) -> Iterator[Side]:
    made: Side = request.param(log)
    yield made
    made.close()


def test_a_request_has_one_response(side: Side) -> None:
    created = side.ask("POST", body=posted_pod("web"))
    assert (created.status, created.sent, created.error) == (201, True, "")
    assert orjson.loads(created.body)["metadata"]["name"] == "web"
    assert side.is_silent()


def test_a_refusal_is_a_response(side: Side) -> None:
    assert side.ask("POST", body=posted_pod("web")).status == 201
    again = side.ask("POST", body=posted_pod("web"))
    assert (again.status, orjson.loads(again.body)["reason"]) == (409, "AlreadyExists")
    assert side.ask("GET", "/apis/none/v1/things").status == 404


def test_warnings_of_a_response_are_handed_on(side: Side) -> None:
    created = side.ask("POST", body={**posted_pod("web"), "spce": {}})
    assert (created.status, created.warnings) == (201, ('unknown field "spce"',))
    merge = {"content_type": "application/merge-patch+json"}
    patched = side.ask("PATCH", f"{PODS}/web", {"metadata": {"labels": {"a": "b"}}, "speck": 'a "b"'}, **merge)
    assert (patched.status, patched.warnings) == (200, ('unknown field "speck"',))
    assert side.ask("PATCH", f"{PODS}/web", {"metadata": {"labels": {"a": "c"}}}, **merge).warnings == ()
    strict = side.ask("PATCH", f"{PODS}/web", {"spce": {}}, query={"fieldValidation": "Strict"}, **merge)
    assert strict.status == 422
    assert side.is_silent()


@pytest.mark.parametrize("way", ["the time is over", "the tenure is over", "the tenure ended"])
def test_without_its_permit_a_request_does_not_go_out(side: Side, way: str) -> None:
    now, tenure = side.clock.monotonic(), Tenure()
    tenure.extend(now if way == "the tenure is over" else now + 100.0)
    if way == "the tenure ended":
        tenure.end()
    permit = Permit(now) if way == "the time is over" else Permit(now + 100.0, tenure)
    late = side.ask("POST", body=posted_pod("web"), permit=permit)
    assert (late.status, late.sent) == (0, False)
    assert side.ask("GET", f"{PODS}/web").status == 404
    tenure.extend(now + 100.0)
    assert side.ask("POST", body=posted_pod("web"), permit=Permit(now + 100.0, tenure)).status == 201


def test_the_time_of_a_request_counts_from_when_it_is_sent(side: Side) -> None:
    late = side.ask("POST", body=posted_pod("web"), timeout=1e-9)
    assert late.status == 0
    assert late.error


AFTER = 1.0  # seconds, the smallest value of a Retry-After header


class Refusing:
    """Server that refuses requests for some names: name → (status, how often). handled: names in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plan: dict[str, tuple[int, float]] = {}
        self.handled: list[str] = []
        self.refused: Callable[[str], None] = lambda _name: None
        begin = ApiServer.begin

        def refusing(server: ApiServer, request: Request, **more: Any) -> Response | Suspended:
            name = request.path.rpartition("/")[2] if request.method == "GET" else request.query.get("fieldManager", "")
            self.handled.append(name)
            status, times = self.plan.get(name, (0, 0))
            if self.handled.count(name) > times:
                return begin(server, request, **more)
            self.refused(name)
            return Response(status=status, body=b"{}", retry_after=AFTER)

        monkeypatch.setattr(ApiServer, "begin", refusing)


@pytest.fixture
def refusing(side: Side, monkeypatch: pytest.MonkeyPatch) -> Refusing:
    return Refusing(monkeypatch)


def test_response_with_retry_after_is_retried(side: Side, refusing: Refusing) -> None:
    tenure = Tenure()
    tenure.extend(side.clock.monotonic() + 100.0)
    refusing.plan = {"written": (429, 1), "read": (500, 1), "busy": (503, 1), "deposed": (429, 1)}
    refusing.refused = lambda name: tenure.end() if name == "deposed" else None
    began = side.clock.monotonic()
    side.send("POST", body=posted_pod("written"), query={"fieldManager": "written"})
    side.send("POST", body=posted_pod("deposed"), query={"fieldManager": "deposed"}, permit=Permit(tenure=tenure))
    side.send("GET", f"{PODS}/read")
    side.send("GET", f"{PODS}/busy")
    responses = [side.next()[1] for _ in range(4)]
    assert side.clock.monotonic() - began >= AFTER
    assert sorted(response.status for response in responses) == [0, 201, 404, 404]
    assert [response.sent for response in responses if response.status == 0] == [False]
    assert sorted(refusing.handled) == ["busy", "busy", "deposed", "read", "read", "written", "written"]


@pytest.mark.parametrize(
    ("method", "status", "timeout"),
    [("POST", 504, 30.0), ("POST", 500, 30.0), ("POST", 429, AFTER / 2), ("GET", 404, 30.0)],
)
def test_a_refusal_stands_that_may_have_been_carried_out_or_whose_time_is_short(
    side: Side, refusing: Refusing, method: str, status: int, timeout: float
) -> None:
    refusing.plan = {"one": (status, 100)}
    path = f"{PODS}/one" if method == "GET" else PODS
    began = side.clock.monotonic()
    response = side.ask(method, path, posted_pod("one"), query={"fieldManager": "one"}, timeout=timeout)
    assert (response.status, response.retry_after, refusing.handled) == (status, AFTER, ["one"])
    assert side.clock.monotonic() - began < AFTER


def test_a_watch_brings_whole_lines_in_order_and_nothing_once_it_is_cancelled(side: Side) -> None:
    stream = side.watch(
        resourceVersion="0", sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    what, line = side.next()
    assert (what, orjson.loads(line)["type"]) == ("line", "BOOKMARK")
    seen = []
    for name in ("a", "b"):  # concurrent requests may overtake each other
        side.send("POST", body=posted_pod(name))
        seen += [side.next(), side.next()]
    lines = [value for what, value in seen if what == "line"]
    assert [orjson.loads(line)["object"]["metadata"]["name"] for line in lines] == ["a", "b"]
    assert all(line.endswith(b"\n") for line in lines)
    stream.cancel()
    assert side.is_silent()


def test_refused_watch_ends_once_with_its_reason(side: Side) -> None:
    side.watch("/apis/none/v1/things")
    what, response = side.next()
    assert (what, response.status) == ("end", 404)
    assert side.is_silent()
