"""A starting controller enqueues keys for all listed objects, with one evaluation for objects that are alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from kcm.actors.engine.controller.keys import LISTED_AT_ONCE, Keys
from kcm.actors.reconciliation import Change, Interest, Watch, its_controller
from kcm.actors.reconciliation.watches import ItsController
from kcm.protocols.messages.watches import ORPHANS, EventType
from kcm.protocols.objects import Key, Object, encode_object
from kcm.protocols.resources import PODS, REPLICASETS
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.tables.audience import Audience
from kcm.runtime.tables.table import Entry, Table
from kcm.runtime.tables.tables import Tables


class Facts(NamedTuple):
    phase: str


def pod(name: str, *, owner: str = "", kind: str = "ReplicaSet", namespace: str = "default", **more: Any) -> Object:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"}
    meta |= {"ownerReferences": [reference]} if owner else {}
    return {"metadata": meta | more.pop("metadata", {}), "status": {"phase": "Running"} | more}


class Listing:
    """Keys of a watch of listed pods."""

    def __init__(self, *pods: Object, **watch: Any) -> None:
        table = self.table = Table(PODS, derive=lambda obj: Facts(obj["status"]["phase"]), indexes={"app": app})
        self.writer = table.claim()
        self.writer.replace([table.make_entry(pod, encode_object(pod)) for pod in pods], 1)
        owners = Table(REPLICASETS)
        owners.claim().replace([], 1)
        self.queue: WorkQueue[Key] = WorkQueue(now=0.0)
        self.keys = Keys(
            routes=[(Watch(PODS, **watch), self.queue)],
            tables=Tables({PODS.id: table, REPLICASETS.id: owners}),
            clock=VirtualClock(),
            log=quiet_log(),
            raised=lambda *_: None,
        )

    def taken(self) -> list[Key]:
        taken: list[Key] = []
        while (key := self.queue.take(0.0)) is not None:
            taken.append(key)
        return taken


def enqueued(*pods: Object, **watch: Any) -> list[Key]:
    """Return the keys that a watch enqueues for the listed pods, in order."""
    listing = Listing(*pods, **watch)
    listing.keys.add_all()
    assert not listing.keys.is_listing
    return listing.taken()


def app(obj: Object) -> Iterable[str]:
    return (obj["metadata"].get("labels") or {}).values()


def itself(change: Change, _tables: Tables) -> Iterable[Key]:
    return (change.key,)


def test_each_owner_is_enqueued_in_the_order_of_its_first_object() -> None:
    pods = [pod(f"{owner}-{n}", owner=owner) for n in range(3) for owner in ("b", "a")]
    elsewhere = pod("a-0", owner="a", namespace="other")
    of_owners = its_controller(REPLICASETS)

    assert enqueued(*pods, elsewhere, to=of_owners) == ["default/b", "default/a", "other/a"]


def test_each_owner_is_enqueued_once() -> None:
    asked: list[str] = []

    class Tracing(ItsController):
        def __call__(self, change: Change, tables: Tables) -> Iterable[Key]:
            asked.append(change.key)
            return super().__call__(change, tables)

    pods = [pod(f"a-{n}", owner="a") for n in range(5)]

    assert enqueued(*pods, to=Tracing(REPLICASETS)) == ["default/a"]
    assert asked == ["default/a-0"]


def test_watch_of_more_than_owners_is_called_for_every_object() -> None:
    pods = [pod(f"a-{n}", owner="a") for n in range(3)]

    assert enqueued(*pods, to=itself, interest=Interest(owner_kinds=("ReplicaSet",), changed=("phase",))) == [
        "default/a-0",
        "default/a-1",
        "default/a-2",
    ]


def test_matches_are_not_shared_between_objects_with_different_properties() -> None:
    alike = {"owner": "a"}
    labelled = pod("labelled", **alike, metadata={"labels": {"app": "web"}})
    kept = pod("kept", **alike, metadata={"finalizers": ["ours"]})
    failed = pod("failed", **alike, phase="Failed")
    stranger = pod("stranger", owner="a", kind="Job")
    pods = [pod("plain", **alike), labelled, kept, failed, stranger, pod("orphan")]

    for interest, found in {
        Interest(indexed=(("app", "web"),)): "labelled",
        Interest(finalizers=("ours",)): "kept",
        Interest(having=(("phase", ("Failed",)),)): "failed",
        Interest(owner_kinds=("Job",)): "stranger",
        Interest(owner_kinds=(ORPHANS,)): "orphan",
    }.items():
        assert enqueued(*pods, to=itself, interest=interest) == [f"default/{found}"]


def test_only_indexed_objects_are_read_for_watches_of_indexed_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    labelled = [pod(name, metadata={"labels": {"app": value}}) for name, value in (("a", "web"), ("b", "db"))]
    monkeypatch.setattr(Table, "entries", lambda _: pytest.fail("the whole table is read"))

    indexed = Interest(indexed=(("app", "db"), ("app", "web")), changed=("phase",))

    assert enqueued(pod("plain"), *labelled, to=itself, interest=indexed) == ["default/b", "default/a"]


def test_many_objects_are_enqueued_in_parts() -> None:
    listing = Listing(*[pod(f"{n:04}") for n in range(2 * LISTED_AT_ONCE + 1)], to=itself)

    listing.keys.add_all()
    assert listing.keys.is_listing
    assert listing.taken() == [f"default/{n:04}" for n in range(LISTED_AT_ONCE)]
    listing.keys.list_some()
    assert listing.taken() == [f"default/{n:04}" for n in range(LISTED_AT_ONCE, 2 * LISTED_AT_ONCE)]
    listing.keys.list_some()
    assert listing.taken() == [f"default/{2 * LISTED_AT_ONCE:04}"]
    assert not listing.keys.is_listing


def test_objects_of_later_parts_are_enqueued_as_they_are_then() -> None:
    phases: list[str] = []

    def remember(change: Change, _tables: Tables) -> Iterable[Key]:
        phases.append(change.new["status"]["phase"])
        return (change.key,)

    listing = Listing(*[pod(f"{n:04}") for n in range(LISTED_AT_ONCE + 2)], to=remember)
    listing.keys.add_all()
    listing.taken()
    changed = pod(f"{LISTED_AT_ONCE:04}", phase="Failed", metadata={"resourceVersion": "2"})
    listing.writer.put(listing.table.make_entry(changed, encode_object(changed)))
    listing.writer.remove(f"default/{LISTED_AT_ONCE + 1:04}", 3)

    listing.keys.list_some()

    assert listing.taken() == [f"default/{LISTED_AT_ONCE:04}"]
    assert phases[-1] == "Failed"


def test_owner_of_objects_in_several_parts_is_enqueued_once() -> None:
    listing = Listing(*[pod(f"{n:04}", owner="a") for n in range(LISTED_AT_ONCE + 1)], to=its_controller(REPLICASETS))

    listing.keys.add_all()
    assert listing.taken() == ["default/a"]
    listing.keys.list_some()
    assert listing.taken() == []
    assert not listing.keys.is_listing


def test_second_listing_replaces_the_first() -> None:
    listing = Listing(*[pod(f"{n:04}") for n in range(LISTED_AT_ONCE + 1)], to=itself)
    listing.keys.add_all()
    listing.keys.add_all()
    assert len(listing.taken()) == LISTED_AT_ONCE
    listing.keys.list_some()
    assert listing.taken() == [f"default/{LISTED_AT_ONCE:04}"]
    assert not listing.keys.is_listing


def test_objects_with_different_values_of_other_indexes_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Key] = []
    concerned = Audience.concerned

    def counting(audience: Audience, type: EventType, entry: Entry, previous: Entry | None) -> Any:
        judged.append(entry.key)
        return concerned(audience, type, entry, previous)

    monkeypatch.setattr(Audience, "concerned", counting)
    pods = [pod(f"a-{n}", owner=f"a-{n}", metadata={"labels": {"app": str(n)}}) for n in range(5)]

    interest = Interest(owner_kinds=("ReplicaSet",), having=(("phase", ("Running",)),))
    assert len(enqueued(*pods, to=itself, interest=interest)) == 5
    assert judged == ["default/a-0"]
