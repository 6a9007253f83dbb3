"""Delivery of changes to the subscribers that they concern, with one frame per burst."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.engine.informer import delivery as module
from kcm.actors.engine.informer.contents import Difference
from kcm.actors.engine.informer.delivery import Delivery
from kcm.protocols.codec import decode
from kcm.protocols.messages.watches import EVERYTHING, EventType, Interest, Synced, WatchEvents
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import PODS
from kcm.runtime.tables.table import Table
from tests.support.objects import owned_by, pod

OWNED_BY_JOB, NODE_CHANGED = Interest(owner_kinds=("Job",)), Interest(changed=("node",))


def owned_pod(name: str, version: int, *, owner: str = "", node: str = "", size: int = 0) -> Object:
    """Build a pod. owner: kind of its controller. size: additional bytes in its spec."""
    reference = owned_by("uid-o", kind=owner) if owner else None
    return pod(name, version=version, owner=reference, node=node, spec={"filler": "x" * size})


class DeliveryRig:
    """Table of pods, and the messages of its subscribers."""

    def __init__(self) -> None:
        self.table = Table(PODS, derive=pod_facts)
        self.writer = self.table.claim()
        self.sent: list[tuple[str, bytes]] = []
        self.unreachable: set[str] = set()
        self.delivery = Delivery(self.table, self.writer, send=self._send)

    def _send(self, name: str, frame: bytes) -> None:
        if name in self.unreachable:
            raise RuntimeError(f"{name} cannot be sent anything")
        self.sent.append((name, frame))

    def show(self, *pods: Object) -> None:
        for obj in pods:
            entry = self.table.make_entry(obj, encode_object(obj))
            known = self.writer.put(entry)
            self.delivery.add(Difference(EventType.MODIFIED if known else EventType.ADDED, entry, known))

    def remove(self, key: str, version: int) -> None:
        known = self.writer.remove(key, version)
        assert known is not None
        self.delivery.add(Difference(EventType.DELETED, known, known))

    def mail(self, name: str) -> list[Any]:
        return [decode(frame) for to, frame in self.sent if to == name]

    def keys(self, name: str) -> list[tuple[str, ...]]:
        return [tuple(event.key for event in message.events) for message in self.mail(name)]


@pytest.fixture
def rig() -> DeliveryRig:
    return DeliveryRig()


def test_burst_is_one_frame_for_concerned_subscribers_only(rig: DeliveryRig) -> None:
    rig.delivery.subscribe("all", [EVERYTHING])
    rig.delivery.subscribe("jobs", [OWNED_BY_JOB])
    rig.delivery.subscribe("reader", [])
    rig.show(*(owned_pod(f"p{i}", i, owner="Job" if i == 7 else "ReplicaSet") for i in range(1, 101)))
    assert rig.sent == []
    rig.delivery.flush()
    assert [name for name, _ in rig.sent] == ["all", "jobs"]
    assert rig.keys("all") == [tuple(f"default/p{i}" for i in range(1, 101))]
    assert rig.keys("jobs") == [("default/p7",)]
    rig.delivery.flush()
    assert len(rig.sent) == 2, "nothing is left"


def test_subscribers_that_are_sent_the_same_get_the_same_bytes(rig: DeliveryRig) -> None:
    for name in ("one", "two"):
        rig.delivery.subscribe(name, [EVERYTHING])
    rig.delivery.subscribe("other", [NODE_CHANGED, EVERYTHING])
    rig.show(owned_pod("a", 1))
    rig.delivery.flush()
    frames = dict(rig.sent)
    assert frames["one"] is frames["two"]
    assert frames["one"] != frames["other"]


def test_message_contains_the_matching_watches_of_each_event(rig: DeliveryRig) -> None:
    rig.delivery.subscribe("two watches", [OWNED_BY_JOB, NODE_CHANGED])
    rig.show(
        owned_pod("a", 1), owned_pod("a", 2, node="n1"), owned_pod("b", 3, owner="Job"), owned_pod("b", 4, owner="Job")
    )
    rig.delivery.flush()
    (message,) = rig.mail("two watches")
    assert message.matches == (0b10, 0b10, 0b11, 0b01)


def test_frame_is_limited_in_events_and_bytes(rig: DeliveryRig) -> None:
    rig.delivery.subscribe("all", [EVERYTHING])
    rig.show(*(owned_pod(f"p{i}", i) for i in range(1, module.MOST_EVENTS + 2)))
    assert [len(keys) for keys in rig.keys("all")] == [module.MOST_EVENTS]
    rig.delivery.flush()
    rig.sent.clear()
    rig.show(*(owned_pod(f"big{i}", 1000 + i, size=module.MOST_BYTES // 3) for i in range(4)))
    rig.show(owned_pod("huge", 2000, size=module.MOST_BYTES * 2))
    rig.delivery.flush()
    assert [len(keys) for keys in rig.keys("all")] == [2, 2, 1]
    assert all(len(frame) < module.MOST_BYTES + 1000 for _, frame in rig.sent[:-1])


def test_later_subscriber_receives_no_earlier_events(rig: DeliveryRig) -> None:
    rig.writer.replace([], 1)
    rig.delivery.subscribe("early", [EVERYTHING])
    rig.show(owned_pod("a", 2))
    rig.delivery.subscribe("late", [EVERYTHING])
    assert rig.mail("late") == [Synced(PODS.id)]
    assert [type(message) for message in rig.mail("early")] == [Synced, WatchEvents]
    rig.delivery.flush()
    assert len(rig.sent) == 3


def test_new_subscription_replaces_the_interests(rig: DeliveryRig) -> None:
    rig.delivery.subscribe("one", [EVERYTHING])
    rig.delivery.subscribe("one", [OWNED_BY_JOB])
    rig.show(owned_pod("a", 1))
    rig.delivery.unsubscribe("one")
    rig.show(owned_pod("b", 2, owner="Job"))
    rig.delivery.flush()
    assert rig.sent == []


def test_successor_sends_changes_that_were_only_collected(rig: DeliveryRig) -> None:
    rig.delivery.subscribe("jobs", [OWNED_BY_JOB])
    rig.show(
        owned_pod("gone", 1, owner="Job"), owned_pod("released", 2, owner="Job"), owned_pod("same", 3, owner="Job")
    )
    rig.delivery.flush()
    rig.remove("default/gone", 4)
    rig.show(owned_pod("released", 5))
    rig.sent.clear()

    successor = Delivery(rig.table, rig.table.claim(), send=rig._send)
    successor.take_over(lambda name: name == "jobs")
    (message,) = rig.mail("jobs")
    assert [(event.type, event.key) for event in message.events] == [
        ("DELETED", "default/gone"),
        ("MODIFIED", "default/released"),
    ]
    Delivery(rig.table, rig.table.claim(), send=rig._send).take_over(lambda _name: True)
    assert len(rig.sent) == 1, "and once is enough"


def test_change_counts_as_delivered_once_all_concerned_subscribers_have_it(rig: DeliveryRig) -> None:
    rig.delivery.subscribe("first", [EVERYTHING])
    rig.delivery.subscribe("second", [EVERYTHING])
    rig.show(owned_pod("a", 1))
    rig.delivery.flush()
    rig.unreachable.add("second")
    rig.remove("default/a", 2)
    with pytest.raises(RuntimeError):
        rig.delivery.flush()
    rig.unreachable.clear()
    Delivery(rig.table, rig.table.claim(), send=rig._send).take_over(lambda _name: True)
    assert [message.events[0].type for message in rig.mail("second")] == ["ADDED", "DELETED"]


def test_later_change_of_an_object_stays_owed_when_the_earlier_is_sent(rig: DeliveryRig) -> None:
    rig.delivery.subscribe("all", [EVERYTHING])
    rig.show(owned_pod("a", 1))
    rig.delivery.flush()
    rig.show(owned_pod("a", 2, size=module.MOST_BYTES // 2 + 1000))
    rig.show(owned_pod("a", 3, size=module.MOST_BYTES // 2 + 1000))  # sent in the next frame
    assert [message.events[-1].resource_version for message in rig.mail("all")] == ["1", "2"]
    Delivery(rig.table, rig.table.claim(), send=rig._send).take_over(lambda _name: True)
    assert rig.mail("all")[-1].events[-1].resource_version == "3"


def test_successor_drops_stopped_subscribers(rig: DeliveryRig) -> None:
    rig.delivery.subscribe("gone", [EVERYTHING])
    rig.delivery.subscribe("alive", [EVERYTHING])
    successor = Delivery(rig.table, rig.table.claim(), send=rig._send)
    successor.take_over(lambda name: name == "alive")
    successor.synced()
    assert rig.sent == [("alive", rig.sent[0][1])]


def labelled(name: str, version: int, app: str, **more: Any) -> Object:
    return pod(name, version=version, metadata={"labels": {"app": app}}, **more)


@pytest.fixture
def divided() -> DeliveryRig:
    """Return a rig whose table serves watches of all pods, and of pods with app=web."""
    rig = DeliveryRig()
    rig.table.add_indexes({"web": lambda obj: ("",) if obj["metadata"]["labels"]["app"] == "web" else ()})
    return rig


def changes(rig: DeliveryRig, name: str) -> list[tuple[str, str, int]]:
    return [
        (str(event.type), event.key, matches)
        for message in rig.mail(name)
        if isinstance(message, WatchEvents)
        for event, matches in zip(message.events, message.matches, strict=True)
    ]


def test_entering_a_selection_is_added_and_leaving_is_deleted(divided: DeliveryRig) -> None:
    rig = divided
    rig.delivery.subscribe("web", [EVERYTHING], ["web"])
    rig.delivery.subscribe("all", [EVERYTHING])
    rig.delivery.subscribe("both", [EVERYTHING, Interest(types=("DELETED",))], ["", "web"])
    rig.show(labelled("a", 1, "db"), labelled("a", 2, "web"), labelled("a", 3, "web", node="n"), labelled("a", 4, "db"))
    rig.remove("default/a", 5)
    rig.delivery.flush()
    assert changes(rig, "web") == [("ADDED", "default/a", 1), ("MODIFIED", "default/a", 1), ("DELETED", "default/a", 1)]
    every = [("ADDED", "default/a", 1), *[("MODIFIED", "default/a", 1)] * 3]
    assert changes(rig, "all") == [*every, ("DELETED", "default/a", 1)]
    assert changes(rig, "both") == [*every, ("DELETED", "default/a", 2), ("DELETED", "default/a", 1)]
    left = next(event for message in rig.mail("web") for event in message.events if event.type == "DELETED")
    assert b'"web"' in left.object, "as it was when it was last selected"


def test_successor_reports_objects_that_left_a_selection(divided: DeliveryRig) -> None:
    rig = divided
    rig.delivery.subscribe("web", [EVERYTHING], ["web"])
    rig.show(labelled("a", 1, "web"))
    rig.delivery.flush()
    rig.sent.clear()
    changed = labelled("a", 2, "db")
    rig.writer.put(rig.table.make_entry(changed, encode_object(changed)))
    successor = Delivery(rig.table, rig.table.claim(), send=rig._send)
    successor.take_over(lambda _name: True)
    assert changes(rig, "web") == [("DELETED", "default/a", 1)]


def test_watch_that_needs_only_owners_gets_one_event_for_each_owner() -> None:
    rig = DeliveryRig()
    of_owner = Interest(owner_kinds=("Job",), of_owner=True)
    rig.delivery.subscribe("owners", (of_owner,))
    rig.delivery.subscribe("owners and nodes", (of_owner, NODE_CHANGED))
    rig.delivery.subscribe("all", (OWNED_BY_JOB,))
    a, b = owned_pod("a", 1, owner="Job"), owned_pod("b", 2, owner="Job")
    another = pod("c", version=3, owner=owned_by("uid-p", kind="Job"))
    elsewhere = pod("d", version=4, owner=owned_by("uid-o", kind="Job"), metadata={"namespace": "x"})
    rig.show(a, b, another, elsewhere)
    rig.delivery.flush()
    keys = [("default/a", "default/b", "default/c", "x/d")]
    assert (rig.keys("owners"), rig.keys("owners and nodes"), rig.keys("all")) == (
        [(keys[0][0], *keys[0][2:])],
        keys,
        keys,
    )
    rig.sent.clear()
    rig.show(owned_pod("a", 5, owner="Job"), owned_pod("b", 6, owner="Job"), owned_pod("b", 7))  # b is released
    rig.delivery.flush()
    assert rig.keys("owners") == [("default/a", "default/b")]
    assert rig.mail("owners")[0].events[1].previous_controller is not None
