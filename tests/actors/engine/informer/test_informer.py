"""Informers are never silently deaf, forget nothing, and are stalled by no malformed object."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from actors.engine.informer import Informer, InformerLimits
from protocols.codec import decode
from protocols.messages.watching import Subscribe, Synced, WatchEvent, WatchEvents
from protocols.resources import PODS
from protocols.watch_lines import INITIAL_EVENTS_END
from runtime.client.api import Response
from runtime.simulation.world import World
from runtime.system.actor_system import ActorSpec
from runtime.tables.table import Table
from tests.support.scripted import Probe, ScriptedTransport


class Setting:
    """One informer of pods, its table, the server's end, and a subscriber."""

    def __init__(self, log: FilteringBoundLogger, limits: InformerLimits) -> None:
        self.world = World(log=log)
        self.transport = ScriptedTransport()
        self.table = Table(PODS)
        self.system = self.world.system()
        self._told: list[Any] = []
        self.system.spawn(ActorSpec(name="probe", build=partial(Probe, kept=self._told)))
        self.spec = ActorSpec(
            name="informer:v1/pods",
            build=partial(Informer, table=self.table, transport=self.transport, limits=limits, seed=1),
        )
        self.system.spawn(self.spec)
        self.system.tell("informer:v1/pods", Subscribe("probe"))
        self.settle()

    def settle(self) -> None:
        self.world.run_for(0)

    @property
    def told(self) -> list[Any]:
        """What the subscriber was sent, each event by itself."""
        self.settle()
        return [one for message in self._told for one in _events_of(message)]

    @property
    def events(self) -> list[tuple[str, str, str]]:
        return [(m.type, m.key, m.resource_version) for m in self.told if isinstance(m, WatchEvent)]

    def keys(self) -> list[str]:
        self.settle()
        return sorted(entry.key for entry in self.table.entries())

    def sync(self, *pods: dict[str, Any], version: int = 100) -> None:
        """Answer the streaming list."""
        self.transport.stream.say(*(("ADDED", one) for one in pods), initial_end(version))
        self.settle()


def _events_of(message: Any) -> tuple[Any, ...]:
    return message.events if isinstance(message, WatchEvents) else (message,)


def pod(name: str, version: int, **meta: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"namespace": "d", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version), **meta},
        "spec": {},
    }


def bookmark(version: int, **annotations: str) -> tuple[str, dict[str, Any]]:
    return "BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version), "annotations": annotations}}


def initial_end(version: int) -> tuple[str, dict[str, Any]]:
    return bookmark(version, **{INITIAL_EVENTS_END: "true"})


@pytest.fixture
def setting(log: FilteringBoundLogger) -> Setting:
    return Setting(log, InformerLimits(silence=90.0))


def warnings(logs: LogCapture) -> list[str]:
    return [entry["event"] for entry in logs.entries if entry["log_level"] == "warning"]


def test_a_streaming_list_fills_the_table_at_its_end_and_goes_on_as_the_watch(setting: Setting) -> None:
    assert setting.transport.stream.request.query["sendInitialEvents"] == "true"
    setting.transport.stream.say(("ADDED", pod("a", 7)), ("ADDED", pod("b", 9)))
    assert setting.keys() == []
    assert not setting.table.synced
    setting.transport.stream.say(initial_end(100))
    assert setting.keys() == ["d/a", "d/b"]
    assert setting.told == [Synced("v1/pods")]
    setting.transport.stream.say(("MODIFIED", pod("a", 101)), ("DELETED", pod("b", 102)), ("ADDED", pod("c", 103)))
    assert setting.keys() == ["d/a", "d/c"]
    assert setting.events == [("MODIFIED", "d/a", "101"), ("DELETED", "d/b", "102"), ("ADDED", "d/c", "103")]
    assert len(setting.transport.streams) == 1


def test_without_streaming_lists_it_lists_in_pages_and_watches_from_the_lists_version(setting: Setting) -> None:
    setting.transport.stream.end(400, body=b"sendInitialEvents is forbidden")
    setting.settle()
    first = setting.transport.answer(
        body={"metadata": {"resourceVersion": "50", "continue": "next"}, "items": [pod("a", 49)]}
    )
    assert first.query["limit"] == "500"
    setting.settle()
    second = setting.transport.answer(
        body={"metadata": {"resourceVersion": "50", "continue": ""}, "items": [pod("b", 3)]}
    )
    assert second.query["continue"] == "next"
    assert setting.keys() == ["d/a", "d/b"]
    # The list's version, never an item's: what happened between item and list would be told a second time.
    assert setting.transport.stream.request.query["resourceVersion"] == "50"


@pytest.mark.parametrize("items", [{}, {"items": None}, {"items": []}])
def test_a_list_without_items_is_an_empty_one(setting: Setting, items: dict[str, Any]) -> None:
    setting.transport.stream.end(400)
    setting.settle()
    setting.transport.answer(body={"metadata": {"resourceVersion": "5"}, **items})
    setting.settle()
    assert setting.table.synced
    assert setting.keys() == []


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"metadata":{}}', b'{"items":3,"metadata":{"resourceVersion":"5"}}', b"{"]
)
def test_a_list_that_is_none_is_asked_for_again(setting: Setting, logs: LogCapture, body: bytes) -> None:
    setting.transport.stream.end(400)
    setting.settle()
    setting.transport.answer(body=body)
    setting.settle()
    assert not setting.table.synced
    assert "watch failed, trying again" in warnings(logs)
    setting.world.run_for(5.0)
    assert len(setting.transport.sent) == 1


@pytest.mark.parametrize(
    "status, body, error",
    [
        (403, b'{"kind":"Status","message":"pods is forbidden"}', "watch answered 403: pods is forbidden"),
        (500, b"<html>", "watch answered 500"),
        (502, b"[]", "watch answered 502"),
        (503, b"", "watch answered 503"),
    ],
)
def test_people_are_told_what_the_server_said(
    setting: Setting, logs: LogCapture, status: int, body: bytes, error: str
) -> None:
    setting.transport.stream.end(status, body=body)
    setting.settle()
    assert [e["error"] for e in logs.entries if e["event"] == "watch failed, trying again"] == [error]


def test_a_silent_watch_is_cut_and_renewed_from_the_last_version(setting: Setting, logs: LogCapture) -> None:
    setting.sync(pod("a", 7))
    setting.world.run_for(80.0)
    setting.transport.stream.say(bookmark(140))
    setting.world.run_for(85.0)
    assert len(setting.transport.streams) == 1
    setting.world.run_for(20.0)
    assert len(setting.transport.streams) == 2
    assert setting.transport.streams[0].cancelled
    assert setting.transport.stream.request.query["resourceVersion"] == "140"
    assert "watch cut after silence" in warnings(logs)
    assert setting.keys() == ["d/a"]


def test_a_half_open_connection_that_never_said_a_word_is_cut_as_well(setting: Setting) -> None:
    setting.world.run_for(100.0)
    assert len(setting.transport.streams) == 2
    assert not setting.table.synced


def test_what_a_cut_watch_still_delivers_is_ignored(setting: Setting) -> None:
    setting.sync()
    old = setting.transport.stream
    setting.world.run_for(100.0)
    old.say(("ADDED", pod("ghost", 101)))
    assert setting.keys() == []


def test_a_clean_close_is_followed_by_a_watch_from_where_it_ended(setting: Setting) -> None:
    setting.sync(version=100)
    setting.transport.stream.say(("ADDED", pod("a", 120)))
    setting.settle()
    setting.transport.stream.end(200)
    setting.settle()
    assert len(setting.transport.streams) == 2
    assert setting.transport.stream.request.query["resourceVersion"] == "120"
    assert "sendInitialEvents" not in setting.transport.stream.request.query


def test_a_watch_that_ends_at_once_and_again_is_not_a_busy_loop(setting: Setting) -> None:
    setting.sync()
    for _ in range(5):
        setting.transport.stream.end(200)
        setting.settle()
    opened = len(setting.transport.streams)
    setting.world.run_for(0.5)
    assert len(setting.transport.streams) == opened <= 3


@pytest.mark.parametrize(
    "status",
    [
        {"kind": "Status", "code": 410, "reason": "Expired", "metadata": {}, "message": "too old"},
        {"kind": "Status", "code": 410},
        {"reason": "Gone"},
    ],
)
def test_after_gone_it_lists_anew_and_tells_only_the_differences(setting: Setting, status: dict[str, Any]) -> None:
    setting.sync(pod("same", 1), pod("changed", 2), pod("gone", 3))
    setting.transport.stream.say(("ERROR", status))
    setting.settle()
    assert "resourceVersion" not in setting.transport.stream.request.query  # from the store, not from a cache
    setting.transport.stream.say(
        ("ADDED", pod("same", 1)), ("ADDED", pod("changed", 12)), ("ADDED", pod("new", 13)), initial_end(200)
    )
    assert sorted(setting.events) == [
        ("ADDED", "d/new", "13"),
        ("DELETED", "d/gone", "3"),
        ("MODIFIED", "d/changed", "12"),
    ]


def test_an_object_made_anew_under_its_name_arrives_as_modified_with_both_uids(setting: Setting) -> None:
    setting.sync(pod("a", 1))
    setting.transport.stream.say(("ERROR", {"code": 410}))
    setting.settle()
    setting.transport.stream.say(("ADDED", {**pod("a", 9, uid="uid-other")}), initial_end(200))
    event = setting.told[-1]
    assert isinstance(event, WatchEvent)
    assert (event.type, event.uid, event.previous_uid) == ("MODIFIED", "uid-other", "uid-a")


@pytest.mark.parametrize("status", [429, 500, 0])
def test_a_refused_watch_backs_off_without_listing_again(setting: Setting, status: int) -> None:
    setting.sync()
    setting.transport.stream.end(status, error="" if status else "connection refused")
    setting.settle()
    assert len(setting.transport.streams) == 1
    setting.world.run_for(2.0)
    assert len(setting.transport.streams) == 2
    assert setting.transport.stream.request.query["resourceVersion"] == "100"


def test_retry_after_is_honoured(setting: Setting) -> None:
    setting.sync()
    setting.transport.stream.end(429, retry_after=20.0)
    setting.world.run_for(19.0)
    assert len(setting.transport.streams) == 1
    setting.world.run_for(2.0)
    assert len(setting.transport.streams) == 2


def test_the_backoff_grows_to_half_a_minute_and_a_bit(setting: Setting) -> None:
    setting.sync()
    times = []
    for _ in range(9):
        setting.transport.stream.end(500)
        before = setting.world.clock.monotonic()
        opened = len(setting.transport.streams)
        assert setting.world.run_until(lambda: len(setting.transport.streams) > opened, within=120.0)  # noqa: B023
        times.append(setting.world.clock.monotonic() - before)
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
        b'{"type":"WEIRD","object":{"metadata":{"name":"x","namespace":"d","resourceVersion":"107"}}}',
        b'{"type":"BOOKMARK","object":{"metadata":{}}}',
    ],
)
def test_a_malformed_event_is_named_in_a_warning_and_stalls_nobody(
    setting: Setting, logs: LogCapture, line: bytes
) -> None:
    setting.sync(pod("a", 7))
    good = b'{"type":"ADDED","object":{"metadata":{"name":"good","namespace":"d","uid":"u","resourceVersion":"150"}}}\n'
    setting.transport.stream.raw(line + b"\n" + good)
    assert setting.keys() == ["d/a", "d/good"]
    assert any(entry["event"] == "malformed object skipped" for entry in logs.entries)
    assert setting.table.version == 150


def test_a_replayed_past_does_not_make_the_table_forget(setting: Setting) -> None:
    setting.sync(pod("a", 90))
    setting.transport.stream.say(("MODIFIED", pod("a", 50)), ("DELETED", pod("a", 60)))
    assert setting.keys() == ["d/a"]
    assert setting.events == []


def test_an_object_of_a_megabyte_passes(setting: Setting) -> None:
    setting.sync(pod("big", 7, annotations={"blob": "x" * 1_000_000}))
    assert setting.keys() == ["d/big"]


def test_managed_fields_are_dropped_at_the_door(setting: Setting) -> None:
    setting.sync(pod("a", 7, managedFields=[{"manager": "kubectl"}]))
    entry = setting.table.get("d/a")
    assert entry is not None
    assert b"managedFields" not in entry.raw


def test_a_later_subscriber_is_told_at_once_that_the_table_is_synced(setting: Setting) -> None:
    setting.sync(pod("a", 7))
    before = len(setting.told)
    setting.system.tell("informer:v1/pods", Subscribe("probe"))
    assert setting.told[before:] == [Synced("v1/pods")]


def test_a_new_incarnation_shuts_the_old_one_out_of_the_table(setting: Setting) -> None:
    setting.sync(pod("a", 7))
    old = setting.transport.stream
    setting.system.spawn(setting.spec)
    setting.settle()
    old.say(("ADDED", pod("ghost", 120)))
    setting.settle()
    setting.sync(pod("b", 130), version=140)
    assert setting.keys() == ["d/b"]


OWNED = {"ownerReferences": [{"apiVersion": "v1", "kind": "Set", "name": "s", "uid": "uid-s", "controller": True}]}


@pytest.mark.parametrize("change", [("DELETED", pod("a", 101)), ("MODIFIED", pod("a", 101))], ids=["gone", "released"])
def test_what_it_did_not_live_to_tell_its_successor_tells(setting: Setting, change: tuple[str, dict[str, Any]]) -> None:
    """It fails between the table and the subscribers, and nobody else would ever tell the owner."""
    setting.sync(pod("a", 7, **OWNED), pod("b", 8))

    def fail(_sender: str, to: str, _frame: bytes) -> None:
        if to == "probe":
            raise RuntimeError("it cannot tell")

    setting.system.taps.append(fail)
    setting.transport.stream.say(change)
    assert setting.events == []
    assert not setting.system.is_alive("informer:v1/pods")
    setting.system.taps.remove(fail)
    setting.system.spawn(setting.spec)
    told = [message for message in setting.told if isinstance(message, WatchEvent)]
    assert [(one.type, one.key) for one in told] == [(change[0], "d/a")]
    assert orjson.loads(told[0].previous)["metadata"]["ownerReferences"] == OWNED["ownerReferences"]
    setting.system.spawn(setting.spec)
    assert len(setting.events) == 1, "and once is enough"


def test_what_is_deleted_while_there_is_none_is_told_before_anybody_subscribes_anew(setting: Setting) -> None:
    setting.sync(pod("gone", 7), pod("anew", 8), pod("same", 9))
    setting.world.kill(setting.system, "informer:v1/pods")
    setting.settle()
    setting.system.spawn(setting.spec)
    setting.settle()
    setting.sync(pod("anew", 120, uid="another"), pod("same", 9), version=130)
    assert setting.events == [("DELETED", "d/gone", "7"), ("MODIFIED", "d/anew", "120")]


def test_a_successor_tells_nothing_to_those_who_are_gone(setting: Setting) -> None:
    setting.sync(pod("a", 7))
    setting.world.kill(setting.system, "informer:v1/pods")
    setting.world.kill(setting.system, "probe")
    setting.settle()
    setting.system.spawn(setting.spec)
    setting.settle()
    told: list[str] = []
    setting.system.taps.append(lambda _sender, to, _frame: told.append(to))
    setting.sync(version=130)
    assert "probe" not in told


def test_frames_are_readable_by_anybody(setting: Setting) -> None:
    frames: list[bytes] = []
    setting.system.taps.append(lambda _sender, to, frame: frames.append(frame) if to == "probe" else None)
    setting.sync()
    setting.transport.stream.say(("ADDED", pod("a", 101)))
    setting.settle()
    assert isinstance(decode(frames[-1]), WatchEvents)


# What goes wrong for long, or again and again.


def test_one_that_fails_leaves_no_watch_open_behind_it(setting: Setting) -> None:
    setting.sync(pod("a", 7))
    stream = setting.transport.stream
    setting.table.claim()  # another one writes the table: whoever still tries fails
    stream.say(("ADDED", pod("b", 120)))
    setting.settle()
    assert not setting.system.is_alive("informer:v1/pods")
    assert stream.cancelled
    assert setting.keys() == ["d/a"]


def test_a_server_that_says_gone_again_and_again_is_not_a_busy_loop(setting: Setting) -> None:
    setting.sync(pod("a", 7))
    for _ in range(200):
        if setting.transport.streams[-1].cancelled:
            setting.settle()
            break
        if setting.transport.stream.request.query.get("sendInitialEvents"):
            setting.transport.stream.say(("ADDED", pod("a", 7)), initial_end(100))
        else:
            setting.transport.stream.end(200)
        setting.transport.stream.say(("ERROR", {"code": 410, "reason": "Expired"}))
        setting.settle()
    assert len(setting.transport.streams) < 10
    lists = len(setting.transport.streams)
    setting.world.run_for(5.0)
    assert len(setting.transport.streams) == lists + 1, "and it tries again"


def test_a_server_that_closes_after_a_bookmark_again_and_again_is_not_a_busy_loop(setting: Setting) -> None:
    setting.sync()
    for _ in range(50):
        stream = setting.transport.stream
        stream.say(bookmark(200))
        stream.end(200)
        setting.settle()
    assert len(setting.transport.streams) < 5


def test_a_list_that_is_never_answered_is_asked_for_again(setting: Setting) -> None:
    setting.transport.stream.end(422)  # no streaming lists
    setting.settle()
    assert len(setting.transport.sent) == 1
    setting.world.run_for(300.0)
    assert len(setting.transport.sent) >= 2
    stale, setting.transport.sent[:] = setting.transport.sent[0], setting.transport.sent[-1:]
    setting.transport.answer(200, {"metadata": {"resourceVersion": "50"}, "items": [pod("a", 7)]})
    assert setting.keys() == ["d/a"]
    stale[2](Response(status=200, body=b'{"metadata":{"resourceVersion":"9"},"items":[]}'))
    assert setting.keys() == ["d/a"], "the answer that came too late is ignored"


def test_a_server_that_never_completes_a_streaming_list_is_asked_for_pages(setting: Setting) -> None:
    for _ in range(3):
        if setting.transport.sent:
            break
        setting.transport.stream.say(("ADDED", pod("a", 7)))
        setting.world.run_for(120.0)
    assert setting.transport.sent
    setting.transport.answer(200, {"metadata": {"resourceVersion": "50"}, "items": [pod("a", 7)]})
    assert setting.keys() == ["d/a"]
