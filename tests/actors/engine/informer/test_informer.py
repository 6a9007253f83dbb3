"""Informers notice broken watches, lose no change, and are not blocked by malformed objects."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.informer import Informer, InformerLimits, Outage
from kcm.protocols.codec import decode
from kcm.protocols.messages.watches import EventType, Interest, Subscribe, Synced, WatchEvent, WatchEvents
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS
from kcm.protocols.versions import ObjectVersion
from kcm.protocols.watch_lines import INITIAL_EVENTS_END
from kcm.runtime.client.api import Response
from kcm.runtime.metrics.families import INFORMER_PROCESSING_LATENCY, INFORMER_QUEUED_ITEMS
from kcm.runtime.metrics.meters import InformerMeter
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.tables.overlay import Overlay
from kcm.runtime.tables.table import FORESEEN, Table
from tests.support.objects import pod
from tests.support.scripted import Probe, ScriptedTransport


class InformerRig:
    """Informer of pods with its table, its server and a subscriber."""

    def __init__(
        self, log: FilteringBoundLogger, limits: InformerLimits, transport: ScriptedTransport | None = None
    ) -> None:
        self.world = World(log=log)
        self.transport = transport or ScriptedTransport()
        self.table = Table(PODS)
        self.metrics = Metrics()
        self.system = self.world.system()
        self._received: list[Any] = []
        self.system.spawn(ActorSpec(name="probe", build=partial(Probe, kept=self._received)))
        self.spec = ActorSpec(
            name="informer:v1/pods",
            build=partial(
                Informer,
                table=self.table,
                transport=self.transport,
                limits=limits,
                outage=Outage(),
                seed=1,
                meter=InformerMeter(self.metrics, PODS, program="kcm"),
            ),
        )
        self.system.spawn(self.spec)
        self.system.tell("informer:v1/pods", Subscribe("probe"))
        self.settle()

    def settle(self) -> None:
        self.world.run_for(0)

    @property
    def received(self) -> list[Any]:
        """Return the events that the subscriber received."""
        self.settle()
        return [event for message in self._received for event in _events_of(message)]

    @property
    def events(self) -> list[tuple[str, str, str]]:
        return [(m.type, m.key, m.resource_version) for m in self.received if isinstance(m, WatchEvent)]

    def keys(self) -> list[str]:
        self.settle()
        return sorted(entry.key for entry in self.table.entries())

    def sync(self, *pods: Object, version: int = 100) -> None:
        """Send the response of the streaming list."""
        self.transport.stream.say(*(("ADDED", pod) for pod in pods), initial_end(version))
        self.settle()


def _events_of(message: Any) -> tuple[Any, ...]:
    return message.events if isinstance(message, WatchEvents) else (message,)


def watched(name: str, version: int, **metadata: Any) -> Object:
    """Build a pod as in a watch event."""
    return {"kind": "Pod", "apiVersion": "v1", **pod(name, version=version, metadata=metadata)}


def bookmark(version: int, **annotations: str) -> tuple[str, Object]:
    return "BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version), "annotations": annotations}}


def initial_end(version: int) -> tuple[str, Object]:
    return bookmark(version, **{INITIAL_EVENTS_END: "true"})


@pytest.fixture
def rig(log: FilteringBoundLogger) -> InformerRig:
    return InformerRig(log, InformerLimits(silence=90.0))


def end(rig: InformerRig) -> None:
    """End the watch after its requested timeout, as the server does."""
    rig.settle()
    rig.world.run_for(2.0)
    rig.transport.stream.end(200)
    rig.settle()


def warnings(logs: LogCapture) -> list[str]:
    return [entry["event"] for entry in logs.entries if entry["log_level"] == "warning"]


def test_streaming_list_fills_the_table_at_its_end_and_continues_as_watch(rig: InformerRig) -> None:
    assert rig.transport.stream.request.query["sendInitialEvents"] == "true"
    rig.transport.stream.say(("ADDED", watched("a", 7)), ("ADDED", watched("b", 9)))
    assert rig.keys() == []
    assert not rig.table.synced
    rig.transport.stream.say(initial_end(100))
    assert rig.keys() == ["default/a", "default/b"]
    assert rig.received == [Synced("v1/pods")]
    rig.transport.stream.say(
        ("MODIFIED", watched("a", 101)), ("DELETED", watched("b", 102)), ("ADDED", watched("c", 103))
    )
    assert rig.keys() == ["default/a", "default/c"]
    assert rig.events == [
        ("MODIFIED", "default/a", "101"),
        ("DELETED", "default/b", "102"),
        ("ADDED", "default/c", "103"),
    ]
    assert len(rig.transport.streams) == 1


def test_without_streaming_lists_pages_are_listed_and_watched_from_their_version(rig: InformerRig) -> None:
    rig.transport.stream.end(400, body=b"sendInitialEvents is forbidden")
    rig.settle()
    first = rig.transport.answer(
        body={"metadata": {"resourceVersion": "50", "continue": "next"}, "items": [watched("a", 49)]}
    )
    assert first.query["limit"] == "500"
    rig.settle()
    second = rig.transport.answer(
        body={"metadata": {"resourceVersion": "50", "continue": ""}, "items": [watched("b", 3)]}
    )
    assert second.query["continue"] == "next"
    assert rig.keys() == ["default/a", "default/b"]
    # The version of the list and not of an item: events between the two would be sent a second time.
    assert rig.transport.stream.request.query["resourceVersion"] == "50"


@pytest.mark.parametrize("items", [{}, {"items": None}, {"items": []}])
def test_list_without_items_is_empty(rig: InformerRig, items: Object) -> None:
    rig.transport.stream.end(400)
    rig.settle()
    rig.transport.answer(body={"metadata": {"resourceVersion": "5"}, **items})
    rig.settle()
    assert rig.table.synced
    assert rig.keys() == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"metadata":{}}',
        b'{"items":3,"metadata":{"resourceVersion":"5"}}',
        b"{",
        b'{"items":[],"metadata":{"resourceVersion":"%s"}}' % (b"7" * 4301),
    ],
)
def test_malformed_list_is_requested_again(rig: InformerRig, logs: LogCapture, body: bytes) -> None:
    rig.transport.stream.end(400)
    rig.settle()
    rig.transport.answer(body=body)
    rig.settle()
    assert not rig.table.synced
    assert "watch failed, retrying" in warnings(logs)
    rig.world.run_for(5.0)
    assert len(rig.transport.sent) == 1


@pytest.mark.parametrize(
    "status, body, error",
    [
        (403, b'{"kind":"Status","message":"pods is forbidden"}', "watch answered 403: pods is forbidden"),
        (500, b"<html>", "watch answered 500"),
        (502, b"[]", "watch answered 502"),
        (503, b"", "watch answered 503"),
    ],
)
def test_log_contains_the_message_of_the_server(
    rig: InformerRig, logs: LogCapture, status: int, body: bytes, error: str
) -> None:
    rig.transport.stream.end(status, body=body)
    rig.settle()
    assert [e["error"] for e in logs.entries if e["event"] == "watch failed, retrying"] == [error]


def test_a_silent_watch_is_cut_and_renewed_from_the_last_version(rig: InformerRig, logs: LogCapture) -> None:
    rig.sync(watched("a", 7))
    rig.world.run_for(80.0)
    rig.transport.stream.say(bookmark(140))
    rig.world.run_for(85.0)
    assert len(rig.transport.streams) == 1
    rig.world.run_for(20.0)
    assert len(rig.transport.streams) == 2
    assert rig.transport.streams[0].cancelled
    assert rig.transport.stream.request.query["resourceVersion"] == "140"
    assert "watch cut after silence" in warnings(logs)
    assert rig.keys() == ["default/a"]


def test_silent_resumed_watch_is_not_a_fault_and_gets_a_shorter_timeout(rig: InformerRig, logs: LogCapture) -> None:
    rig.sync(watched("a", 7))
    end(rig)
    rig.world.run_for(100.0)
    assert len(rig.transport.streams) == 3
    for _ in range(3):
        assert rig.transport.stream.request.query["timeoutSeconds"] == "45"
        rig.world.run_for(45.0)
        end(rig)
        assert rig.table.age(rig.world.clock.monotonic()) == 0.0
    assert warnings(logs) == []
    rig.transport.stream.say(bookmark(140))
    end(rig)
    assert int(rig.transport.stream.request.query["timeoutSeconds"]) >= 300


def test_resumed_watch_that_never_ends_is_cut_with_a_warning(rig: InformerRig, logs: LogCapture) -> None:
    rig.sync(watched("a", 7))
    end(rig)
    rig.world.run_for(100.0)
    assert warnings(logs) == []
    rig.world.run_for(100.0)
    assert warnings(logs) == ["watch cut after silence"]
    assert len(rig.transport.streams) == 4


def test_half_open_connection_without_any_data_is_cut(rig: InformerRig) -> None:
    rig.world.run_for(100.0)
    assert len(rig.transport.streams) == 2
    assert not rig.table.synced


def test_late_data_of_a_cut_watch_is_ignored(rig: InformerRig) -> None:
    rig.sync()
    old = rig.transport.stream
    rig.world.run_for(100.0)
    old.say(("ADDED", watched("ghost", 101)))
    assert rig.keys() == []


def test_closed_watch_is_resumed_from_its_last_version(rig: InformerRig) -> None:
    rig.sync(version=100)
    rig.transport.stream.say(("ADDED", watched("a", 120)))
    rig.settle()
    rig.transport.stream.end(200)
    rig.settle()
    assert len(rig.transport.streams) == 2
    assert rig.transport.stream.request.query["resourceVersion"] == "120"
    assert "sendInitialEvents" not in rig.transport.stream.request.query


def test_watch_that_repeatedly_ends_at_once_backs_off(rig: InformerRig) -> None:
    rig.sync()
    for _ in range(5):
        rig.transport.stream.end(200)
        rig.settle()
    opened = len(rig.transport.streams)
    rig.world.run_for(0.5)
    assert len(rig.transport.streams) == opened <= 3


@pytest.mark.parametrize(
    "status",
    [
        {"kind": "Status", "code": 410, "reason": "Expired", "metadata": {}, "message": "too old"},
        {"kind": "Status", "code": 410},
        {"reason": "Gone"},
    ],
)
def test_relist_after_gone_delivers_only_differences(rig: InformerRig, status: Object) -> None:
    rig.sync(watched("same", 1), watched("changed", 2), watched("gone", 3))
    rig.transport.stream.say(("ERROR", status))
    rig.settle()
    assert "resourceVersion" not in rig.transport.stream.request.query  # from the store, not from a cache
    rig.transport.stream.say(
        ("ADDED", watched("same", 1)),
        ("ADDED", watched("changed", 12)),
        ("ADDED", watched("new", 13)),
        initial_end(200),
    )
    assert sorted(rig.events) == [
        ("ADDED", "default/new", "13"),
        ("DELETED", "default/gone", "3"),
        ("MODIFIED", "default/changed", "12"),
    ]


def test_recreated_object_arrives_as_modified_with_both_uids(rig: InformerRig) -> None:
    rig.sync(watched("a", 1))
    rig.transport.stream.say(("ERROR", {"code": 410}))
    rig.settle()
    rig.transport.stream.say(("ADDED", {**watched("a", 9, uid="uid-other")}), initial_end(200))
    event = rig.received[-1]
    assert isinstance(event, WatchEvent)
    assert (event.type, event.uid, event.previous_uid) == ("MODIFIED", "uid-other", "uid-a")


@pytest.mark.parametrize("status", [429, 500, 0])
def test_refused_watch_backs_off_without_a_list(rig: InformerRig, status: int) -> None:
    rig.sync()
    rig.transport.stream.end(status, error="" if status else "connection refused")
    rig.settle()
    assert len(rig.transport.streams) == 1
    rig.world.run_for(2.0)
    assert len(rig.transport.streams) == 2
    assert rig.transport.stream.request.query["resourceVersion"] == "100"


def test_retry_after_is_honoured(rig: InformerRig) -> None:
    rig.sync()
    rig.transport.stream.end(429, retry_after=20.0)
    rig.world.run_for(19.0)
    assert len(rig.transport.streams) == 1
    rig.world.run_for(2.0)
    assert len(rig.transport.streams) == 2


def test_the_backoff_grows_to_half_a_minute_and_a_bit(rig: InformerRig) -> None:
    rig.sync()
    times = []
    for _ in range(9):
        rig.transport.stream.end(500)
        before = rig.world.clock.monotonic()
        opened = len(rig.transport.streams)
        assert rig.world.run_until(lambda: len(rig.transport.streams) > opened, within=120.0)  # noqa: B023
        times.append(rig.world.clock.monotonic() - before)
    assert 0.8 <= times[0] <= 1.6
    assert times[1] >= 1.6
    assert 30.0 <= times[-1] <= 60.0


@pytest.mark.parametrize(
    "line",
    [
        b"{not json",
        b'{"type":"ADDED"}',
        b'{"type":"ADDED","object":[]}',
        b'{"type":"ADDED","object":{}}',
        b'{"type":"ADDED","object":{"metadata":7}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"abc"}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"7","ownerReferences":"no"}}}',
        b'{"type":"WEIRD","object":{"metadata":{"name":"x","namespace":"default","resourceVersion":"107"}}}',
        b'{"type":"BOOKMARK","object":{"metadata":{}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"%s"}}}' % (b"7" * 4301),
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%s"}}}' % (b"7" * 4301),
    ],
)
def test_malformed_event_is_logged_and_does_not_block_others(rig: InformerRig, logs: LogCapture, line: bytes) -> None:
    rig.sync(watched("a", 7))
    rig.transport.stream.raw(line + b"\n")
    rig.transport.stream.say(("ADDED", watched("good", 150)))
    assert rig.keys() == ["default/a", "default/good"]
    assert any(entry["event"] == "malformed object skipped" for entry in logs.entries)
    assert rig.table.version == 150


def test_replayed_old_events_do_not_revert_the_table(rig: InformerRig) -> None:
    rig.sync(watched("a", 90))
    rig.transport.stream.say(("MODIFIED", watched("a", 50)), ("DELETED", watched("a", 60)))
    assert rig.keys() == ["default/a"]
    assert rig.events == []


def test_an_object_of_a_megabyte_passes(rig: InformerRig) -> None:
    rig.sync(watched("big", 7, annotations={"blob": "x" * 1_000_000}))
    assert rig.keys() == ["default/big"]


def test_managed_fields_are_dropped_at_the_door(rig: InformerRig) -> None:
    rig.sync(watched("a", 7, managedFields=[{"manager": "kubectl"}]))
    entry = rig.table.get("default/a")
    assert entry is not None
    assert b"managedFields" not in entry.raw


def test_later_subscriber_gets_synced_at_once(rig: InformerRig) -> None:
    rig.sync(watched("a", 7))
    before = len(rig.received)
    rig.system.tell("informer:v1/pods", Subscribe("probe"))
    assert rig.received[before:] == [Synced("v1/pods")]


def test_new_incarnation_prevents_table_writes_of_the_old_one(rig: InformerRig) -> None:
    rig.sync(watched("a", 7))
    old = rig.transport.stream
    rig.system.spawn(rig.spec)
    rig.settle()
    old.say(("ADDED", watched("ghost", 120)))
    rig.settle()
    rig.sync(watched("b", 130), version=140)
    assert rig.keys() == ["default/b"]


OWNED = {"ownerReferences": [{"apiVersion": "v1", "kind": "Set", "name": "s", "uid": "uid-s", "controller": True}]}


@pytest.mark.parametrize(
    "change", [("DELETED", watched("a", 101)), ("MODIFIED", watched("a", 101))], ids=["gone", "released"]
)
def test_successor_sends_the_events_that_the_informer_did_not_send(
    rig: InformerRig, change: tuple[str, Object]
) -> None:
    # The informer fails after the write to the table and before it sends the event to the subscribers.
    rig.sync(watched("a", 7, **OWNED), watched("b", 8))

    def fail(_sender: str, to: str, _frame: bytes) -> None:
        if to == "probe":
            raise RuntimeError("the event cannot be sent")

    rig.system.taps.append(fail)
    rig.transport.stream.say(change)
    assert rig.events == []
    assert not rig.system.is_alive("informer:v1/pods")
    rig.system.taps.remove(fail)
    rig.system.spawn(rig.spec)
    events = [message for message in rig.received if isinstance(message, WatchEvent)]
    assert [(event.type, event.key) for event in events] == [(change[0], "default/a")]
    assert orjson.loads(events[0].previous)["metadata"]["ownerReferences"] == OWNED["ownerReferences"]
    rig.system.spawn(rig.spec)
    assert len(rig.events) == 1, "and once is enough"


def test_deletion_between_incarnations_is_delivered_before_new_subscriptions(rig: InformerRig) -> None:
    rig.sync(watched("gone", 7), watched("anew", 8), watched("same", 9))
    rig.world.kill(rig.system, "informer:v1/pods")
    rig.settle()
    rig.system.spawn(rig.spec)
    rig.settle()
    rig.sync(watched("anew", 120, uid="another"), watched("same", 9), version=130)
    assert rig.events == [("DELETED", "default/gone", "7"), ("MODIFIED", "default/anew", "120")]


def test_successor_sends_nothing_to_dead_subscribers(rig: InformerRig) -> None:
    rig.sync(watched("a", 7))
    rig.world.kill(rig.system, "informer:v1/pods")
    rig.world.kill(rig.system, "probe")
    rig.settle()
    rig.system.spawn(rig.spec)
    rig.settle()
    received: list[str] = []
    rig.system.taps.append(lambda _sender, to, _frame: received.append(to))
    rig.sync(version=130)
    assert "probe" not in received


def test_frames_are_readable_by_anybody(rig: InformerRig) -> None:
    frames: list[bytes] = []
    rig.system.taps.append(lambda _sender, to, frame: frames.append(frame) if to == "probe" else None)
    rig.sync()
    rig.transport.stream.say(("ADDED", watched("a", 101)))
    rig.settle()
    assert isinstance(decode(frames[-1]), WatchEvents)


# Long and repeated failures.


def test_failed_informer_cancels_its_watch(rig: InformerRig) -> None:
    rig.sync(watched("a", 7))
    stream = rig.transport.stream
    rig.table.claim()  # another writer claims the table, so that writes of this informer fail
    stream.say(("ADDED", watched("b", 120)))
    rig.settle()
    assert not rig.system.is_alive("informer:v1/pods")
    assert stream.cancelled
    assert rig.keys() == ["default/a"]


def test_incarnation_replaced_before_its_start_leaves_the_table_to_its_successor(rig: InformerRig) -> None:
    """The informers are restarted while they start if the lease is lost then."""
    rig.sync(watched("a", 7))
    rig.system.spawn(rig.spec)
    rig.world.hang(rig.system, "informer:v1/pods", 1.0)
    rig.system.spawn(rig.spec)
    rig.world.run_for(2.0)  # the older incarnation starts after the newer one
    rig.sync(watched("a", 7), watched("b", 120), version=120)
    assert rig.system.is_alive("informer:v1/pods")
    assert rig.system.stragglers("informer:v1/pods") == []
    assert rig.keys() == ["default/a", "default/b"]


def test_repeated_gone_responses_are_retried_with_backoff(rig: InformerRig) -> None:
    rig.sync(watched("a", 7))
    for _ in range(200):
        if rig.transport.streams[-1].cancelled:
            rig.settle()
            break
        if rig.transport.stream.request.query.get("sendInitialEvents"):
            rig.transport.stream.say(("ADDED", watched("a", 7)), initial_end(100))
        else:
            rig.transport.stream.end(200)
        rig.transport.stream.say(("ERROR", {"code": 410, "reason": "Expired"}))
        rig.settle()
    assert len(rig.transport.streams) < 10
    lists = len(rig.transport.streams)
    rig.world.run_for(5.0)
    assert len(rig.transport.streams) == lists + 1, "and it tries again"


def test_watch_that_repeatedly_ends_after_a_bookmark_backs_off(rig: InformerRig) -> None:
    rig.sync()
    for _ in range(50):
        stream = rig.transport.stream
        stream.say(bookmark(200))
        stream.end(200)
        rig.settle()
    assert len(rig.transport.streams) < 5


def test_list_without_a_response_is_requested_again(rig: InformerRig) -> None:
    rig.transport.stream.end(422)  # no streaming lists
    rig.settle()
    assert len(rig.transport.sent) == 1
    rig.world.run_for(300.0)
    assert len(rig.transport.sent) >= 2
    stale, rig.transport.sent[:] = rig.transport.sent[0], rig.transport.sent[-1:]
    rig.transport.answer(200, {"metadata": {"resourceVersion": "50"}, "items": [watched("a", 7)]})
    assert rig.keys() == ["default/a"]
    stale[2](Response(status=200, body=b'{"metadata":{"resourceVersion":"9"},"items":[]}'))
    assert rig.keys() == ["default/a"], "the answer that came too late is ignored"


def test_incomplete_streaming_list_is_replaced_by_pages(rig: InformerRig) -> None:
    for _ in range(3):
        if rig.transport.sent:
            break
        rig.transport.stream.say(("ADDED", watched("a", 7)))
        rig.world.run_for(120.0)
    assert rig.transport.sent
    rig.transport.answer(200, {"metadata": {"resourceVersion": "50"}, "items": [watched("a", 7)]})
    assert rig.keys() == ["default/a"]


# Bursts.


def frames_to(rig: InformerRig, name: str) -> list[bytes]:
    frames: list[bytes] = []
    rig.system.taps.append(lambda _sender, to, frame: frames.append(frame) if to == name else None)
    return frames


def test_burst_of_events_is_sent_in_one_frame(rig: InformerRig) -> None:
    rig.sync()
    frames = frames_to(rig, "probe")
    burst = [("ADDED", watched(f"p{number}", 100 + number)) for number in range(1, 501)]
    for start in range(0, 500, 50):  # several chunks arrive before the informer handles the first
        rig.transport.stream.say(*burst[start : start + 50])
    rig.settle()
    assert len(frames) == 1
    assert [key for _, key, _ in rig.events] == [f"default/p{number}" for number in range(1, 501)]


def test_single_event_is_sent_at_once(rig: InformerRig) -> None:
    rig.sync()
    frames = frames_to(rig, "probe")
    for number in (1, 2, 3):
        rig.transport.stream.say(("ADDED", watched(f"p{number}", 100 + number)))
        rig.settle()
        assert len(frames) == number


def test_unconcerned_subscriber_gets_nothing(rig: InformerRig) -> None:
    rig.sync()
    rig.system.tell("informer:v1/pods", Subscribe("probe", (Interest(owner_kinds=("Job",)),)))
    rig.settle()
    frames = frames_to(rig, "probe")
    rig.transport.stream.say(
        ("ADDED", watched("a", 101)), ("MODIFIED", watched("a", 102)), ("DELETED", watched("a", 103))
    )
    rig.settle()
    assert frames == []


# Unreadable objects.

NO_OWNERS = {"ownerReferences": "no"}


def unread(logs: LogCapture) -> list[tuple[str, str]]:
    return [
        (entry["event"].partition(",")[0].partition(":")[0], entry["key"])
        for entry in logs.entries
        if entry["event"].startswith("object can")
    ]


def test_object_that_becomes_unreadable_keeps_its_last_state(rig: InformerRig, logs: LogCapture) -> None:
    rig.sync(watched("a", 7))
    rig.transport.stream.say(("MODIFIED", watched("a", 101, **NO_OWNERS)), ("MODIFIED", watched("a", 102, **NO_OWNERS)))
    assert rig.keys() == ["default/a"]
    assert [(entry.key, entry.uid, entry.version, entry.owner) for entry in rig.table.unreadable()] == [
        ("default/a", "uid-a", 102, None)
    ]
    assert rig.events == []
    assert rig.table.version == 102
    assert unread(logs) == [("object cannot be read", "default/a")], "it is said once"
    rig.transport.stream.say(("MODIFIED", watched("a", 103)))
    assert rig.events == [("MODIFIED", "default/a", "103")]
    assert rig.table.unreadable() == []
    assert unread(logs)[1:] == [("object can be read again", "default/a")]


def test_unreadable_object_is_delivered_once_it_becomes_readable(rig: InformerRig) -> None:
    rig.sync()
    rig.transport.stream.say(("ADDED", watched("a", 101, **NO_OWNERS)))
    assert rig.keys() == []
    assert len(rig.table.unreadable()) == 1
    rig.transport.stream.say(("MODIFIED", watched("a", 102)))
    assert rig.events == [("ADDED", "default/a", "102")]


def test_deletion_of_an_unreadable_object_is_delivered(rig: InformerRig) -> None:
    rig.sync(watched("a", 7))
    for name in ("a", "b"):
        rig.transport.stream.say(("MODIFIED", watched(name, 101, **NO_OWNERS)))
        rig.transport.stream.say(("DELETED", watched(name, 102, **NO_OWNERS)))
    assert rig.keys() == []
    assert rig.table.unreadable() == []
    assert rig.events == [("DELETED", "default/a", "7")]


def test_object_replaced_by_an_unreadable_one_is_deleted(rig: InformerRig) -> None:
    rig.sync(watched("a", 7))
    rig.transport.stream.say(("MODIFIED", watched("a", 101, uid="another", **NO_OWNERS)))
    assert rig.keys() == []
    assert rig.events == [("DELETED", "default/a", "7")]
    assert [entry.uid for entry in rig.table.unreadable()] == ["another"]


def test_list_keeps_the_last_state_of_an_unreadable_object_and_restores_others(rig: InformerRig) -> None:
    rig.sync(watched("a", 7), watched("b", 8))
    rig.transport.stream.say(("MODIFIED", watched("b", 101, **NO_OWNERS)), ("ADDED", watched("c", 102, **NO_OWNERS)))
    rig.transport.stream.end(410)
    rig.settle()
    rig.sync(watched("a", 103, **NO_OWNERS), watched("b", 104), version=110)
    assert rig.keys() == ["default/a", "default/b"]
    assert [entry.key for entry in rig.table.unreadable()] == ["default/a"]
    assert rig.events == [("MODIFIED", "default/b", "104")]


def test_replayed_old_events_do_not_restore_unreadable_objects(rig: InformerRig) -> None:
    rig.sync(watched("a", 7))
    rig.transport.stream.say(("MODIFIED", watched("a", 101, **NO_OWNERS)), ("MODIFIED", watched("a", 50)))
    assert rig.events == []
    assert [entry.version for entry in rig.table.unreadable()] == [101]


def stored(version: int, **metadata: Any) -> Object:
    """Return a pod with its fields in the order of kube-apiserver."""
    meta = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": str(version), **metadata}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {}}


def test_event_of_a_foreseen_version_is_not_decoded_again(rig: InformerRig) -> None:
    rig.sync()
    wrote = stored(101, managedFields=[{"manager": "kcm"}])
    entry = Overlay(rig.table).wrote(orjson.dumps(wrote))
    rig.transport.stream.say(("ADDED", wrote))
    assert rig.events == [("ADDED", "default/a", "101")]
    assert rig.table.get("default/a") is entry
    (event,) = (message for message in rig.received if isinstance(message, WatchEvent))
    assert orjson.loads(event.object) == {"metadata": stored(101)["metadata"], "spec": {}}

    entry = Overlay(rig.table).wrote(orjson.dumps(stored(102)))
    rig.transport.stream.say(("MODIFIED", stored(102)))
    assert rig.events[1:] == [("MODIFIED", "default/a", "102")]
    assert rig.table.get("default/a") is entry


@pytest.mark.parametrize("shown", [stored(102, labels={"app": "web"}), stored(101, uid="another")])
def test_event_of_another_version_than_foreseen_is_decoded(rig: InformerRig, shown: Object) -> None:
    rig.sync()
    Overlay(rig.table).wrote(orjson.dumps(stored(101)))
    rig.transport.stream.say(("ADDED", shown))
    rig.settle()
    entry = rig.table.get("default/a")
    assert entry is not None
    assert orjson.loads(entry.raw)["metadata"] == shown["metadata"]


def test_foreseen_versions_are_dropped_by_a_list_and_beyond_the_limit(rig: InformerRig) -> None:
    def foresee(version: int) -> None:
        rig.table.foresee(rig.table.make_entry(stored(version), b"{}"))

    writer = rig.table.claim()
    foresee(1)
    writer.replace([], 100)
    assert not writer.foresees
    for version in range(FORESEEN + 1):
        foresee(version)
    assert writer.foreseen(ObjectVersion("default/a", "u", 0)) is None
    assert writer.foreseen(ObjectVersion("default/a", "u", FORESEEN)) is not None
    assert not writer.foresees


def test_own_writes_are_left_out_for_the_writer_that_needs_none(rig: InformerRig) -> None:
    others: list[Any] = []
    rig.system.spawn(ActorSpec(name="other", build=partial(Probe, kept=others)))
    interests = (Interest(own_writes=False), Interest(types=(EventType.MODIFIED,)))
    for name in ("probe", "other"):
        rig.system.tell("informer:v1/pods", Subscribe(name, interests))
    rig.sync()
    overlay = Overlay(rig.table, "probe")

    def matches(received: list[Any]) -> list[tuple[int, ...]]:
        rig.settle()
        return [message.matches for message in received if isinstance(message, WatchEvents)]

    overlay.wrote(orjson.dumps(stored(101)), made=True)
    rig.transport.stream.say(("ADDED", stored(101)))
    assert rig.events == []
    assert matches(others) == [(1,)]
    overlay.wrote(orjson.dumps(stored(102)), made=True)
    rig.transport.stream.say(("MODIFIED", stored(102)))
    assert matches(rig._received) == [(2,)]
    assert matches(others) == [(1,), (3,)]
    overlay.wrote(orjson.dumps(stored(103)))  # the response may show another client's write
    rig.transport.stream.say(("MODIFIED", stored(103)))
    assert matches(rig._received) == [(2,), (3,)]
    rig.transport.stream.say(("MODIFIED", stored(104)))
    assert matches(rig._received) == [(2,), (3,), (3,)]


def test_each_batch_of_changes_is_observed_with_its_latency(rig: InformerRig) -> None:
    labels = ("kcm", "", "v1", "pods")
    latency = rig.metrics.histogram(INFORMER_PROCESSING_LATENCY, *labels)
    rig.sync(watched("a", 7))
    listed = sum(latency.counts)
    assert listed >= 1
    rig.transport.stream.say(("MODIFIED", watched("a", 101)))
    rig.settle()
    rig.transport.stream.say(("MODIFIED", watched("a", 102)))
    rig.settle()
    assert sum(latency.counts) == listed + 2
    assert rig.metrics.gauge(INFORMER_QUEUED_ITEMS, *labels).value == 0
