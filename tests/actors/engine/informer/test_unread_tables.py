"""Tables without subscribers: their events are handled together, and before a new subscriber reads the table."""

from __future__ import annotations

import orjson
import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.informer import InformerLimits
from kcm.protocols.messages.watches import Subscribe, Synced, Unsubscribe
from kcm.protocols.objects import Object
from kcm.runtime.client.watch_stream import MOST_HELD
from tests.actors.engine.informer.test_informer import InformerRig, watched

EVERY = 1.0
INFORMER = "informer:v1/pods"


@pytest.fixture
def rig(log: FilteringBoundLogger) -> InformerRig:
    """Return an informer whose only subscriber has left."""
    rig = InformerRig(log, InformerLimits(silence=90.0, unread_every=EVERY))
    rig.sync(server_form("a", 7))
    rig.system.tell(INFORMER, Unsubscribe("probe"))
    rig.settle()
    return rig


def server_form(name: str, version: int, **metadata: object) -> Object:
    """Build a pod whose JSON begins as that of kube-apiserver, so that its version is found without decoding it."""
    pod = watched(name, version, **metadata)
    first = {field: pod["metadata"][field] for field in ("name", "namespace", "uid", "resourceVersion")}
    return {"kind": "Pod", "apiVersion": "v1", **pod, "metadata": {**first, **pod["metadata"]}}


def version(rig: InformerRig, key: str = "default/a") -> int:
    rig.settle()
    entry = rig.table.get(key)
    return 0 if entry is None else entry.resource_version


def test_events_are_handled_after_a_while(rig: InformerRig) -> None:
    rig.transport.stream.say(("MODIFIED", server_form("a", 101)))
    rig.transport.stream.say(("ADDED", server_form("b", 102)), ("DELETED", server_form("b", 103)))
    rig.world.run_for(0.9 * EVERY)
    assert version(rig) == 7
    rig.world.run_for(0.2 * EVERY)
    assert version(rig) == 101
    assert rig.keys() == ["default/a"]
    assert rig.table.version == 103


def test_only_the_last_change_of_an_object_is_decoded(rig: InformerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    make = rig.table.make_entry
    monkeypatch.setattr(
        rig.table, "make_entry", lambda obj, raw: made.append(int(obj["metadata"]["resourceVersion"])) or make(obj, raw)
    )
    for number in range(101, 105):
        rig.transport.stream.say(("MODIFIED", server_form("a", number)))
    rig.world.run_for(2 * EVERY)
    assert made == [104]
    assert version(rig) == 104


def test_new_subscriber_finds_all_events_that_have_arrived(rig: InformerRig) -> None:
    rig.transport.stream.say(("MODIFIED", server_form("a", 101)))
    seen: list[int] = []
    rig._received.clear()
    rig.system.taps.append(
        lambda _from, to, _frame: seen.append(rig.table.version) if to == "probe" else None  # when Synced is sent
    )
    rig.system.tell(INFORMER, Subscribe("probe"))
    assert rig.received == [Synced("v1/pods")]
    assert seen == [101]
    rig.transport.stream.say(("MODIFIED", server_form("a", 102)))
    assert rig.events == [("MODIFIED", "default/a", "102")]  # at once


def test_subscriber_that_leaves_at_once_does_not_stay_subscribed(rig: InformerRig) -> None:
    rig.transport.stream.say(("MODIFIED", server_form("a", 101)))
    rig.system.tell(INFORMER, Subscribe("probe"))
    rig.system.tell(INFORMER, Unsubscribe("probe"))
    rig.settle()
    rig._received.clear()
    rig.transport.stream.say(("MODIFIED", server_form("a", 102)))
    rig.world.run_for(2 * EVERY)
    assert rig.received == []
    assert version(rig) == 102


def test_many_bytes_are_handled_at_once(rig: InformerRig) -> None:
    rig.transport.stream.say(("MODIFIED", server_form("a", 101, annotations={"large": "x" * MOST_HELD})))
    assert version(rig) == 101


def test_events_before_the_end_of_a_watch_are_handled(rig: InformerRig) -> None:
    rig.world.run_for(5.0)
    rig.transport.stream.say(("MODIFIED", server_form("a", 101)))
    rig.transport.stream.end(200)
    assert version(rig) == 101
    assert rig.transport.stream.request.query["resourceVersion"] == "101"
    rig.transport.stream.say(("MODIFIED", server_form("a", 102)))  # of the next watch, which holds them as well
    assert version(rig) == 101
    rig.world.run_for(1.1 * EVERY)
    assert version(rig) == 102


def test_malformed_line_does_not_hide_the_others(rig: InformerRig) -> None:
    lines = [orjson.dumps({"type": "MODIFIED", "object": server_form("a", number)}) for number in (101, 102)]
    rig.transport.stream.raw(b"\n".join([lines[0], b"{", lines[1], b""]))
    rig.world.run_for(1.1 * EVERY)
    assert version(rig) == 102
