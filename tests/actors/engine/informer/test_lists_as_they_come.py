"""Lists whose JSON is parsed while the transport receives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.informer import InformerLimits
from kcm.protocols.messages.watches import Synced
from kcm.runtime.client.api import Request, Response
from tests.actors.engine.informer.test_informer import InformerRig, watched
from tests.support.objects import pod
from tests.support.scripted import ScriptedStream, ScriptedTransport


class Reading(ScriptedTransport):
    """Transport that also implements kcm.runtime.client.api.ReadsAsItComes."""

    def read(
        self,
        request: Request,
        *,
        client: str,
        on_bytes: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> ScriptedStream:
        return self.watch(request, client=client, on_lines=on_bytes, on_end=on_end)


@pytest.fixture
def rig(log: FilteringBoundLogger) -> InformerRig:
    return InformerRig(log, InformerLimits(silence=90.0), Reading())


def list_of(*pods: Any, version: str = "100") -> bytes:
    whole = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": pods}
    return orjson.dumps(whole) + b"\n"


def bring(rig: InformerRig, body: bytes, *, piece: int = 300) -> None:
    for at in range(0, len(body), piece):
        rig.transport.stream.raw(body[at : at + piece])
    rig.settle()


def test_list_fills_the_table_at_its_end_and_the_watch_begins_at_its_version(rig: InformerRig) -> None:
    asked = rig.transport.stream.request
    assert (asked.path, asked.query) == ("/api/v1/pods", {})
    bring(rig, list_of(pod("a", version=7), pod("b", version=9)))
    assert (rig.keys(), rig.table.synced) == ([], False)
    rig.transport.stream.end()
    assert rig.keys() == ["default/a", "default/b"]
    assert rig.received == [Synced("v1/pods")]
    watch = rig.transport.stream.request
    assert (watch.query["watch"], watch.query["resourceVersion"]) == ("true", "100")
    rig.transport.stream.say(("MODIFIED", watched("a", 101)))
    assert rig.events == [("MODIFIED", "default/a", "101")]


def test_changes_since_the_last_list_are_sent(rig: InformerRig) -> None:
    bring(rig, list_of(pod("a", version=7), pod("b", version=9)))
    rig.transport.stream.end()
    rig.settle()
    rig.transport.stream.end(410)
    rig.settle()
    assert rig.transport.stream.request.query == {}  # from the store itself, after that
    bring(rig, list_of(pod("a", version=107), pod("c", version=108), version="110"))
    rig.transport.stream.end()
    assert rig.events == [
        ("DELETED", "default/b", "9"),
        ("MODIFIED", "default/a", "107"),
        ("ADDED", "default/c", "108"),
    ]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (list_of(pod("a", version=7))[:-20], 200, ""),
        (list_of(pod("a", version=7)), 0, "the connection was cut off"),
        (list_of(pod("a", version=7), version=""), 200, ""),
        (b'{"kind":"Status"}', 200, ""),
    ],
    ids=["half", "broken off", "without a version", "no list"],
)
def test_truncated_list_is_requested_again_and_finally_in_pages(
    rig: InformerRig, body: bytes, status: int, error: str
) -> None:
    for _ in range(2):
        bring(rig, body)
        rig.transport.stream.end(status, error=error)
        rig.settle()
        assert not rig.table.synced
        rig.world.run_for(60.0)
    assert len(rig.transport.streams) == 2
    asked = rig.transport.answer(body=orjson.loads(list_of(pod("b", version=8))))
    assert asked.query["limit"] == "500"
    assert rig.keys() == ["default/b"]


def test_truncated_list_does_not_affect_the_next_one(rig: InformerRig) -> None:
    bring(rig, list_of(*[pod(f"old-{number}", version=7) for number in range(9)])[:-50])
    rig.transport.stream.end(0, error="reset")
    rig.world.run_for(60.0)
    bring(rig, list_of(pod("new", version=8)))
    rig.transport.stream.end()
    assert rig.keys() == ["default/new"]


def test_refused_list_is_retried_later(rig: InformerRig) -> None:
    rig.transport.stream.end(403, body=b'{"message":"not you"}')
    rig.settle()
    assert len(rig.transport.streams) == 1
    rig.world.run_for(60.0)
    bring(rig, list_of(pod("a", version=7)))
    rig.transport.stream.end()
    assert rig.keys() == ["default/a"]


def test_watch_without_read_support_fills_the_table(rig: InformerRig) -> None:
    # Journals contain such events if the transport of the recorded run has no read().
    rig.sync(watched("a", 7))
    assert rig.keys() == ["default/a"]
    assert rig.table.synced
