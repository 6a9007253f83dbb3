"""In an outage of the server its informers share one probe, and resume together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.informer import Informer, InformerLimits, Outage
from kcm.protocols.resources import Resource
from kcm.runtime.client.api import Request, Response
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.tables.table import Table
from tests.support.scripted import ScriptedStream, ScriptedTransport

INFORMERS = 60


class Server(ScriptedTransport):
    """Server with empty lists and open watches. away: response to requests during an outage."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.away = Response(status=0, error="connection refused", sent=False)
        self._is_away: Callable[[Request], bool] = seen
        self.requests: list[tuple[float, Request]] = []

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        self._note(request)
        found = Response(status=200, body=b'{"metadata":{"resourceVersion":"7"},"items":[]}')
        on_response(self.away if self._is_away(request) else found)

    def watch(
        self,
        request: Request,
        *,
        client: str,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> ScriptedStream:
        self._note(request)
        stream = super().watch(request, client=client, on_lines=on_lines, on_end=on_end)
        if self._is_away(request):
            stream.end(self.away.status, error=self.away.error)
        return stream

    def _note(self, request: Request) -> None:
        self.requests.append((self._world.clock.monotonic(), request))

    def cut(self, requests: Callable[[Request], bool] = lambda _: True) -> None:
        """Cut open watches, and all requests until `come_back`. requests: selects the requests to cut."""
        self._is_away = requests
        gone = [stream for stream in self.streams if requests(stream.request)]
        self.streams = [stream for stream in self.streams if stream not in gone]
        for stream in gone:
            stream.raw(b"")  # the watch was open, as it had received data
            stream.end(0, error="connection reset by peer")

    def come_back(self) -> None:
        self._is_away, self.streams = seen, []


def seen(_request: Request) -> bool:
    return False


class OutageRig:
    def __init__(self, log: FilteringBoundLogger) -> None:
        self.world = World(log=log)
        self.server = Server(self.world)
        outage, system = Outage(), self.world.system()
        for number in range(INFORMERS):
            informer = partial(
                Informer,
                table=Table(Resource(version="v1", plural=f"things{number}", kind="Thing")),
                transport=self.server,
                limits=InformerLimits(streaming_lists=False),
                outage=outage,
                seed=number,
            )
            system.spawn(ActorSpec(name=f"informer:{number}", build=informer))
        self.world.run_for(1.0)
        assert len(self.server.streams) == INFORMERS

    def away(self, seconds: float) -> list[tuple[float, Request]]:
        """Take the server down for some time, and return the requests of this time."""
        self.server.cut()
        known = len(self.server.requests)
        self.world.run_for(seconds)
        return self.server.requests[known:]

    def back(self, seconds: float) -> int:
        """Bring the server back, and return the number of open watches after some seconds."""
        self.server.come_back()
        self.world.run_for(seconds)
        return len(self.server.streams)


@pytest.fixture
def rig(log: FilteringBoundLogger) -> OutageRig:
    return OutageRig(log)


def test_one_informer_probes_for_all(rig: OutageRig) -> None:
    asked = rig.away(60.0)
    assert 15 <= len(asked) <= 35
    assert {request.path for when, request in asked if when > asked[0][0] + 1.0} == {"/version"}


def test_all_informers_resume_soon_after_the_server(rig: OutageRig) -> None:
    rig.away(600.0)
    assert rig.back(4.0 + 1.0) == INFORMERS


def test_informers_resume_at_different_times(rig: OutageRig) -> None:
    rig.away(60.0)
    rig.back(5.0)
    times = sorted(when for when, request in rig.server.requests if request.query.get("watch"))[-INFORMERS:]
    assert 0.5 < times[-1] - times[0] <= 1.0
    assert len(set(times)) > INFORMERS / 2


def test_error_of_a_proxy_does_not_count_as_response(rig: OutageRig) -> None:
    rig.away(10.0)
    rig.server.away = Response(status=503)
    known = len(rig.server.requests)
    rig.world.run_for(20.0)
    assert len(rig.server.requests) - known <= 15
    assert rig.back(5.0) == INFORMERS


def test_resource_that_fails_alone_has_its_own_backoff(rig: OutageRig) -> None:
    lone = rig.server.streams[0].request.path
    rig.server.cut(lambda request: request.path == lone)
    known = len(rig.server.requests)
    rig.world.run_for(60.0)
    asked = [request.path for _, request in rig.server.requests[known:]]
    assert asked.count(lone) <= 7
    assert asked.count("/version") <= asked.count(lone)
    assert len(asked) == asked.count(lone) + asked.count("/version"), "the others watch on"


def shown(logs: LogCapture) -> list[str]:
    """Return warnings, errors, and the info lines that are logged without -v."""
    return [
        entry["event"]
        for entry in logs.entries
        if entry["log_level"] in ("warning", "error") or (entry["log_level"] == "info" and not entry.get("v"))
    ]


def test_outage_is_logged_at_its_begin_and_end(rig: OutageRig, logs: LogCapture) -> None:
    rig.world.run_for(5.0)  # a watch that ends within its first second is logged separately
    rig.away(60.0)
    assert shown(logs) == ["API server does not respond, informers wait for it"]
    rig.back(5.0)
    assert shown(logs) == ["API server does not respond, informers wait for it", "API server responds again"]
    end = logs.entries[[entry["event"] for entry in logs.entries].index("API server responds again")]
    assert 60.0 <= end["seconds"] < 65.0
    assert end["informers"] == INFORMERS
