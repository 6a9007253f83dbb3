"""Changes go to the subscribers that they concern, a burst in one frame, and none is forgotten on the way."""

from __future__ import annotations

from typing import Any

import pytest

from actors.engine.informer import delivery as module
from actors.engine.informer.contents import Difference
from actors.engine.informer.delivery import Delivery
from protocols.codec import decode
from protocols.messages.watching import EVERYTHING, EventType, Interest, Synced, WatchEvents
from protocols.objects import Object, encode_object
from protocols.pods import pod_facts
from protocols.resources import PODS
from runtime.tables.table import Table

OWNED_BY_JOB, NODE_CHANGED = Interest(owner_kinds=("Job",)), Interest(changed=("node",))


def pod(name: str, version: int, *, owner: str = "", node: str = "", size: int = 0) -> Object:
    reference = {"apiVersion": "v1", "kind": owner, "name": "o", "uid": "uid-o", "controller": True}
    meta: Object = {"namespace": "d", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    if owner:
        meta["ownerReferences"] = [reference]
    return {"metadata": meta, "spec": {"nodeName": node, "filler": "x" * size}}


class Bench:
    """A table of pods, and what its subscribers are sent."""

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
        return [tuple(one.key for one in message.events) for message in self.mail(name)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_burst_is_one_frame_and_only_for_whom_it_concerns(bench: Bench) -> None:
    bench.delivery.subscribe("all", [EVERYTHING])
    bench.delivery.subscribe("jobs", [OWNED_BY_JOB])
    bench.delivery.subscribe("reader", [])
    bench.show(*(pod(f"p{i}", i, owner="Job" if i == 7 else "ReplicaSet") for i in range(1, 101)))
    assert bench.sent == []
    bench.delivery.flush()
    assert [name for name, _ in bench.sent] == ["all", "jobs"]
    assert bench.keys("all") == [tuple(f"d/p{i}" for i in range(1, 101))]
    assert bench.keys("jobs") == [("d/p7",)]
    bench.delivery.flush()
    assert len(bench.sent) == 2, "nothing is left"


def test_subscribers_that_are_sent_the_same_get_the_same_bytes(bench: Bench) -> None:
    for name in ("one", "two"):
        bench.delivery.subscribe(name, [EVERYTHING])
    bench.delivery.subscribe("other", [NODE_CHANGED, EVERYTHING])
    bench.show(pod("a", 1))
    bench.delivery.flush()
    frames = dict(bench.sent)
    assert frames["one"] is frames["two"]
    assert frames["one"] != frames["other"]


def test_a_message_says_which_watches_each_event_meets(bench: Bench) -> None:
    bench.delivery.subscribe("two watches", [OWNED_BY_JOB, NODE_CHANGED])
    bench.show(pod("a", 1), pod("a", 2, node="n1"), pod("b", 3, owner="Job"), pod("b", 4, owner="Job"))
    bench.delivery.flush()
    (message,) = bench.mail("two watches")
    assert message.matches == (0b10, 0b10, 0b11, 0b01)


def test_a_frame_holds_so_many_events_and_so_many_bytes_at_most(bench: Bench) -> None:
    bench.delivery.subscribe("all", [EVERYTHING])
    bench.show(*(pod(f"p{i}", i) for i in range(1, module.MOST_EVENTS + 2)))
    assert [len(keys) for keys in bench.keys("all")] == [module.MOST_EVENTS]
    bench.delivery.flush()
    bench.sent.clear()
    bench.show(*(pod(f"big{i}", 1000 + i, size=module.MOST_BYTES // 3) for i in range(4)))
    bench.show(pod("huge", 2000, size=module.MOST_BYTES * 2))
    bench.delivery.flush()
    assert [len(keys) for keys in bench.keys("all")] == [2, 2, 1]
    assert all(len(frame) < module.MOST_BYTES + 1000 for _, frame in bench.sent[:-1])


def test_a_later_subscriber_is_not_sent_what_was_collected_before(bench: Bench) -> None:
    bench.writer.replace([], 1)
    bench.delivery.subscribe("early", [EVERYTHING])
    bench.show(pod("a", 2))
    bench.delivery.subscribe("late", [EVERYTHING])
    assert bench.mail("late") == [Synced(PODS.id)]
    assert [type(message) for message in bench.mail("early")] == [Synced, WatchEvents]
    bench.delivery.flush()
    assert len(bench.sent) == 3


def test_who_subscribes_again_replaces_what_it_was_interested_in(bench: Bench) -> None:
    bench.delivery.subscribe("one", [EVERYTHING])
    bench.delivery.subscribe("one", [OWNED_BY_JOB])
    bench.show(pod("a", 1))
    bench.delivery.unsubscribe("one")
    bench.show(pod("b", 2, owner="Job"))
    bench.delivery.flush()
    assert bench.sent == []


def test_what_was_collected_and_not_sent_a_successor_sends(bench: Bench) -> None:
    bench.delivery.subscribe("jobs", [OWNED_BY_JOB])
    bench.show(pod("gone", 1, owner="Job"), pod("released", 2, owner="Job"), pod("same", 3, owner="Job"))
    bench.delivery.flush()
    bench.remove("d/gone", 4)
    bench.show(pod("released", 5))
    bench.sent.clear()

    successor = Delivery(bench.table, bench.table.claim(), send=bench._send)
    successor.take_over(lambda name: name == "jobs")
    (message,) = bench.mail("jobs")
    assert [(one.type, one.key) for one in message.events] == [("DELETED", "d/gone"), ("MODIFIED", "d/released")]
    Delivery(bench.table, bench.table.claim(), send=bench._send).take_over(lambda _name: True)
    assert len(bench.sent) == 1, "and once is enough"


def test_a_change_is_delivered_once_all_whom_it_concerns_have_it(bench: Bench) -> None:
    bench.delivery.subscribe("first", [EVERYTHING])
    bench.delivery.subscribe("second", [EVERYTHING])
    bench.show(pod("a", 1))
    bench.delivery.flush()
    bench.unreachable.add("second")
    bench.remove("d/a", 2)
    with pytest.raises(RuntimeError):
        bench.delivery.flush()
    bench.unreachable.clear()
    Delivery(bench.table, bench.table.claim(), send=bench._send).take_over(lambda _name: True)
    assert [message.events[0].type for message in bench.mail("second")] == ["ADDED", "DELETED"]


def test_of_an_object_that_changes_twice_the_later_change_stays_owed_when_the_earlier_is_sent(bench: Bench) -> None:
    bench.delivery.subscribe("all", [EVERYTHING])
    bench.show(pod("a", 1))
    bench.delivery.flush()
    bench.show(pod("a", 2, size=module.MOST_BYTES // 2 + 1000))
    bench.show(pod("a", 3, size=module.MOST_BYTES // 2 + 1000))  # goes into the next frame
    assert [message.events[-1].resource_version for message in bench.mail("all")] == ["1", "2"]
    Delivery(bench.table, bench.table.claim(), send=bench._send).take_over(lambda _name: True)
    assert bench.mail("all")[-1].events[-1].resource_version == "3"


def test_subscribers_that_are_gone_are_dropped_by_a_successor(bench: Bench) -> None:
    bench.delivery.subscribe("gone", [EVERYTHING])
    bench.delivery.subscribe("alive", [EVERYTHING])
    successor = Delivery(bench.table, bench.table.claim(), send=bench._send)
    successor.take_over(lambda name: name == "alive")
    successor.synced()
    assert bench.sent == [("alive", bench.sent[0][1])]
