"""Events are counted, aggregated, limited, and written in order in the background."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.event_recorder import COMBINED, Correlator, EventRecorder
from kcm.actors.engine.vitals import RecorderVitals
from kcm.protocols.messages.commands import Create, Patch, Submit
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Done, Forbidden, NotFound, Outcome, Settled, Unknown
from kcm.runtime.metrics.families import DISCARDED_EVENTS
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.system.vitals import Vitals
from tests.support.scripted import Probe


def event(
    message: str = "Created pod: a", *, name: str = "web", reason: str = "SuccessfulCreate", **more: str
) -> Record:
    return Record(
        api_version="apps/v1",
        kind="ReplicaSet",
        namespace="d",
        name=name,
        uid=f"uid-{name}",
        resource_version="7",
        type=more.get("type", "Normal"),
        reason=reason,
        message=message,
        field_path=more.get("field_path", ""),
        component="replicaset-controller",
        client="replicaset-controller",
    )


def test_repeated_event_is_counted() -> None:
    correlator = Correlator()
    tellings = [correlator.correlate(event(), now=100.0 * i) for i in range(11)]
    assert [telling.count for telling in tellings if telling] == list(range(1, 12))
    assert len({telling.name for telling in tellings if telling}) == 1
    last = tellings[-1]
    assert last is not None
    assert (last.first, last.last) == (0.0, 1000.0)


def test_source_may_send_25_events_at_once_about_one_object() -> None:
    correlator = Correlator()
    passed = [correlator.correlate(event(), now=float(i)) is not None for i in range(27)]
    assert passed == [True] * 25 + [False] * 2
    assert correlator.correlate(event(), now=400.0) is not None, "one more each five minutes"


def test_rate_limit_is_shared_by_reasons_but_not_by_objects() -> None:
    correlator = Correlator()
    for i in range(25):
        correlator.correlate(event(), now=float(i))
    assert correlator.correlate(event(reason="FailedCreate"), now=26.0) is None
    assert correlator.correlate(event(name="other"), now=26.0) is not None
    assert all(correlator.correlate(event(name=f"o{i}"), now=27.0) for i in range(30))


def test_from_the_tenth_on_events_that_differ_in_text_alone_are_combined() -> None:
    correlator = Correlator()
    tellings = [correlator.correlate(event(f"Created pod: {i}"), now=float(i)) for i in range(11)]
    texts = [telling.message for telling in tellings if telling]
    assert texts[:9] == [f"Created pod: {i}" for i in range(9)]
    assert texts[9:] == [f"{COMBINED}Created pod: 9", f"{COMBINED}Created pod: 10"]
    assert [telling.count for telling in tellings if telling][9:] == [1, 2]


def test_event_written_before_aggregation_keeps_its_own_count() -> None:
    correlator = Correlator()
    for i in range(12):
        correlator.correlate(event(f"Created pod: {i}"), now=float(i))
    telling = correlator.correlate(event("Created pod: 0"), now=12.0)
    assert telling is not None
    assert (telling.message, telling.count) == ("Created pod: 0", 2)


def test_events_ten_minutes_apart_are_not_combined() -> None:
    correlator = Correlator()
    for i in range(12):
        telling = correlator.correlate(event(f"Created pod: {i}"), now=i * 601.0)
        assert telling is not None
        assert not telling.message.startswith(COMBINED)


def test_values_that_are_as_new_are_evicted_from_the_caches() -> None:
    correlator = Correlator()
    for number in range(30):  # needs hours until its bucket is full again
        correlator.correlate(event(str(number), name="busy"), now=0.0)
    for number in range(3000):  # one event about each object, every second
        assert correlator.correlate(event(name=f"web-{number}"), now=float(number)) is not None
        assert len(correlator._similar) <= 2 * 601 + 128, "similar events are combined for ten minutes"
        assert len(correlator._spam) <= 2 * 301 + 128, "the bucket of a source is full again after five minutes"
    assert correlator.correlate(event(name="busy"), now=3000.0) is not None, "ten tokens after 50 minutes"
    assert len(correlator._written) == 3011, "a repeated event is counted, also much later"


def test_eviction_keeps_the_limit_of_a_source_that_has_used_it_up() -> None:
    correlator = Correlator()
    for number in range(25):
        correlator.correlate(event(), now=float(number))
    for second in range(25, 325, 10):
        assert correlator.correlate(event(name=f"other-{second}"), now=float(second)) is not None
    assert correlator.correlate(event(), now=400.0) is not None, "one more each five minutes"
    assert correlator.correlate(event(), now=401.0) is None


def test_another_field_path_is_another_event() -> None:
    correlator = Correlator()
    first = correlator.correlate(event(field_path="spec.a"), now=0.0)
    second = correlator.correlate(event(field_path="spec.b"), now=0.0)
    assert first is not None
    assert second is not None
    assert (first.count, second.count) == (1, 1)
    assert first.name != second.name


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [("web", True), ("a" * 236, True), ("a" * 238, False), ("system:controller:job", False), ("Web", False)],
)
def test_event_about_an_object_with_an_invalid_name_is_named_by_a_uuid(name: str, is_kept: bool) -> None:
    write = Correlator().correlate(event(name=name), now=1.8e9)
    assert write is not None
    assert write.name.startswith(f"{name}.") is is_kept
    assert is_kept or (len(write.name), write.name.count("-")) == (36, 4)


class RecorderRig:
    """Event recorder under test; the test plays its dispatcher."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self.world = World(log=log)
        self.system = self.world.system()
        self.submits: list[Any] = []
        self.vitals, self.metrics = Vitals(), Metrics()
        self.system.spawn(ActorSpec(name="dispatcher", build=partial(Probe, kept=self.submits)))
        build = partial(EventRecorder, vitals=self.vitals, metrics=self.metrics, seed=1)
        self.system.spawn(ActorSpec(name="event-recorder", build=build))

    def record(self, *events: Record) -> None:
        for record in events:
            self.system.tell("event-recorder", record)
        self.world.run_for(0)

    def settle(self, outcome: Outcome) -> None:
        last = self.submits[-1]
        assert isinstance(last, Submit)
        self.system.tell("event-recorder", Settled(last.ticket, 0, outcome))
        self.world.run_for(0)

    @property
    def commands(self) -> list[Any]:
        return [submit.commands[0] for submit in self.submits]


@pytest.fixture
def rig(log: FilteringBoundLogger) -> RecorderRig:
    return RecorderRig(log)


def test_event_is_written_as_upstream(rig: RecorderRig) -> None:
    rig.record(event())
    create = rig.commands[0]
    assert isinstance(create, Create)
    body = orjson.loads(create.body)
    assert (create.resource, create.namespace) == ("v1/events", "d")
    assert body["metadata"]["name"].startswith("web.")
    int(body["metadata"]["name"].removeprefix("web."), 16)
    assert body["involvedObject"] == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "namespace": "d",
        "name": "web",
        "uid": "uid-web",
        "resourceVersion": "7",
    }
    assert (body["reason"], body["message"], body["type"], body["count"]) == (
        "SuccessfulCreate",
        "Created pod: a",
        "Normal",
        1,
    )
    assert body["source"] == {"component": "replicaset-controller"}
    assert body["firstTimestamp"] == body["lastTimestamp"] == "2026-01-01T00:00:00Z"


def test_event_storm_is_counted_and_its_object_is_logged_once(rig: RecorderRig, logs: LogCapture) -> None:
    rig.record(*(event(name="web") for _ in range(30)), *(event(name="other") for _ in range(25)))
    assert rig.metrics.counter(DISCARDED_EVENTS, "replicaset-controller", "rate_limit").value == 5.0
    storms = [entry for entry in logs.entries if entry["event"].startswith("event storm: ")]
    assert [(entry["component"], entry["kind"], entry["object"]) for entry in storms] == [
        ("replicaset-controller", "ReplicaSet", "d/web")
    ]


def test_aggregated_event_has_no_reporting_component_as_upstream(rig: RecorderRig) -> None:
    for i in range(10):
        rig.record(event(f"Created pod: {i}"))
        rig.settle(Done(b"{}"))
    bodies = [orjson.loads(command.body) for command in rig.commands]
    assert [body["reportingComponent"] for body in bodies] == ["replicaset-controller"] * 9 + [""]
    assert {body["source"]["component"] for body in bodies} == {"replicaset-controller"}


def test_events_are_written_one_at_a_time(rig: RecorderRig) -> None:
    rig.record(event("one"), event("two"))
    assert len(rig.commands) == 1
    rig.settle(Done(b"{}"))
    assert len(rig.commands) == 2


def test_repeated_event_updates_its_queued_write(rig: RecorderRig) -> None:
    rig.record(event("first"), event("again"), event("other"), event("again"), event("again"))
    rig.settle(Done(b"{}"))
    again = rig.commands[-1]
    rig.record(event("again"), event("again"))
    for _ in range(3):
        rig.settle(Done(b"{}"))
    assert isinstance(again, Create), "nobody was told of it before"
    written = [orjson.loads(command.body) for command in rig.commands]
    assert [(obj["message"], obj["count"]) for obj in written] == [
        ("first", 1),
        ("again", 3),
        ("other", 1),
        ("again", 5),
    ]
    assert isinstance(rig.commands[-1], Patch)
    assert rig.commands[-1].key == f"d/{written[1]['metadata']['name']}"


def test_burst_of_similar_events_is_aggregated(rig: RecorderRig) -> None:
    rig.record(*(event(f"Created pod: {i}") for i in range(300)))
    while len(rig.commands) < 10:
        rig.settle(Done(b"{}"))
    rig.settle(Done(b"{}"))
    assert len(rig.commands) == 10, "nine, and the one that stands for all others"
    assert orjson.loads(rig.commands[-1].body)["count"] == 16, "25 are said of one object"


def test_repeated_event_is_patched_or_created_again_if_deleted(rig: RecorderRig) -> None:
    rig.record(event())
    rig.settle(Done(b"{}"))
    rig.record(event())
    patch = rig.commands[-1]
    assert isinstance(patch, Patch)
    assert orjson.loads(patch.body)["count"] == 2
    rig.settle(NotFound())
    assert isinstance(rig.commands[-1], Create)


def test_event_without_response_is_retried_twelve_times_every_ten_seconds(rig: RecorderRig) -> None:
    rig.record(event())
    for _ in range(20):
        if len(rig.submits) > 0:
            rig.settle(Unknown("cut"))
        rig.world.run_for(10.0)
    assert len(rig.commands) == 12


def test_a_refusal_by_the_server_is_final(rig: RecorderRig) -> None:
    rig.record(event("one"), event("two"))
    rig.settle(Forbidden("namespace is terminating"))
    assert orjson.loads(rig.commands[-1].body)["message"] == "two"


def test_refused_events_are_published_by_client_until_one_is_written(rig: RecorderRig) -> None:
    def refused() -> dict[str, tuple[str, int, str]]:
        recorder = rig.vitals.of("event-recorder", RecorderVitals)
        found = recorder.refused if recorder is not None else {}
        return {client: (refusal.verb, refusal.times, refusal.message) for client, refusal in found.items()}

    rig.record(event("one"), event("two"), event("three"))
    rig.settle(Forbidden("no", b"NamespaceTerminating"))
    assert refused() == {}
    rig.settle(Forbidden("events is forbidden"))
    rig.settle(Forbidden("events is forbidden"))
    assert refused() == {"replicaset-controller": ("create", 2, "events is forbidden")}
    rig.record(event("four"))
    rig.settle(Done(b"{}"))
    assert refused() == {}


def test_events_of_cluster_scoped_objects_go_to_default(rig: RecorderRig) -> None:
    node = Record("v1", "Node", "", "n1", "u", "1", "Normal", "NodeNotReady", "silent", client="c", component="c")
    rig.record(node)
    assert rig.commands[0].namespace == "default"


def message_of(submit: Submit) -> str:
    (command,) = submit.commands
    assert isinstance(command, Create)
    message: str = orjson.loads(command.body)["message"]
    return message


def test_writes_lost_with_a_dispatcher_are_sent_to_the_next_without_restarted(
    log: FilteringBoundLogger,
) -> None:
    world = World(log=log)
    system = world.system()
    kept: list[Any] = []
    dispatcher = ActorSpec(name="dispatcher", build=partial(Probe, kept=kept))
    system.spawn(dispatcher)
    build = partial(EventRecorder, vitals=Vitals(), metrics=Metrics(), seed=1)
    system.spawn(ActorSpec(name="event-recorder", build=build))
    system.tell("event-recorder", event("first"))
    world.run_for(0)
    system.spawn(dispatcher)  # the manager fails before it sends Restarted to the other actors
    system.tell("event-recorder", event("second"))
    world.run_for(120.0)
    names = [message_of(submit) for submit in kept if isinstance(submit, Submit)]
    assert names == ["first", "first"]
    system.tell("event-recorder", Settled(kept[-1].ticket, 0, Done(b"{}")))
    world.run_for(0)
    assert message_of(kept[-1]) == "second"
