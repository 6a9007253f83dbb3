"""A broken connection of a working watch delays the table only until the next watch."""

from __future__ import annotations

import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.informer import InformerLimits
from tests.actors.engine.informer.test_informer import InformerRig, bookmark, warnings, watched

RESET = {"error": "connection reset by peer"}


@pytest.fixture
def rig(log: FilteringBoundLogger) -> InformerRig:
    rig = InformerRig(log, InformerLimits(silence=90.0))
    rig.sync(watched("a", 7))
    return rig


def test_broken_watch_is_resumed_at_once_from_the_last_version(rig: InformerRig, logs: LogCapture) -> None:
    rig.world.run_for(30.0)
    rig.transport.stream.say(("ADDED", watched("b", 120)))
    rig.transport.stream.end(0, **RESET)
    rig.settle()
    assert len(rig.transport.streams) == 2
    assert rig.transport.stream.request.query["resourceVersion"] == "120"
    assert warnings(logs) == []
    assert any(entry["event"] == "watch broke, opening it again" for entry in logs.entries)


def test_connections_cut_every_half_minute_are_resumed_without_backoff(rig: InformerRig) -> None:
    # If the cuts counted as failures, each would back off for longer, up to a minute.
    for turn in range(20):
        rig.world.run_for(30.0)
        rig.transport.stream.say(bookmark(200 + turn))
        rig.settle()
        rig.transport.stream.end(0, **RESET)
        rig.settle()
        assert len(rig.transport.streams) == turn + 2


def test_watch_that_repeatedly_breaks_at_once_backs_off(rig: InformerRig) -> None:
    rig.world.run_for(30.0)
    for _ in range(5):
        rig.transport.stream.end(0, **RESET)
        rig.settle()
    rig.world.run_for(0.5)
    assert len(rig.transport.streams) == 2


def test_watch_that_never_began_waits_for_the_server(rig: InformerRig, logs: LogCapture) -> None:
    # A server on which connections time out must not be flooded with requests.
    rig.world.run_for(2.0)
    rig.transport.stream.say(bookmark(200))
    rig.transport.stream.end(0, **RESET)
    rig.settle()
    rig.world.run_for(20.0)
    rig.transport.stream.end(0, error="connecting took longer than 10 s")
    rig.settle()
    assert warnings(logs) == ["API server does not respond, informers wait for it"]
    assert len(rig.transport.streams) == 2


def test_watch_cut_before_its_first_event_is_reopened_at_once(rig: InformerRig, logs: LogCapture) -> None:
    # A load balancer that closes idle connections does so before the first bookmark, which is sent after a minute.
    for _ in range(5):
        rig.world.run_for(35.0)
        rig.transport.stream.end(0, begun=True, **RESET)
        rig.settle()
    assert warnings(logs) == []
    assert len(rig.transport.streams) == 6


def test_watch_ended_by_an_error_response_does_not_count_as_broken(rig: InformerRig, logs: LogCapture) -> None:
    rig.world.run_for(30.0)
    rig.transport.stream.say(bookmark(200))
    rig.transport.stream.end(500)
    rig.settle()
    assert warnings(logs) == ["watch failed, retrying"]
    assert len(rig.transport.streams) == 1
