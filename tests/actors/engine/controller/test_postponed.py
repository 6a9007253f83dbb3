"""A watch whose `to` reads a discovered table waits until that table exists."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kcm.actors.engine.controller import keys as keys_module
from kcm.actors.engine.controller.keys import Keys
from kcm.actors.reconciliation import Change, Watch
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, encode_object
from kcm.protocols.resources import PODS, REPLICASETS
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.tables import Tables


class Scene:
    """Keys of a watch of pods whose `to` reads the discovered table of ReplicaSets."""

    def __init__(self) -> None:
        self.pods, self.replica_sets = Table(PODS), Table(REPLICASETS)
        for table in (self.pods, self.replica_sets):
            table.claim().replace([], 1)
        self.tables = Tables({PODS.id: self.pods}, discovers=True)
        self.tables.add(self.replica_sets)
        self.queue: WorkQueue[Key] = WorkQueue(now=0.0)
        self.raised: list[Exception] = []
        self.keys = Keys(
            routes=[(Watch(PODS, to=reading_replica_sets), self.queue)],
            tables=self.tables,
            clock=VirtualClock(),
            log=quiet_log(),
            raised=lambda _where, _key, err: self.raised.append(err),
        )
        self.keys.add_routes([(Watch(REPLICASETS, to=reading_replica_sets), self.queue)])

    def change(self, name: str, type: EventType = EventType.ADDED, resource_id: str = PODS.id) -> None:
        raw = encode_object({"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "2"}})
        self.keys.add_concerned(resource_id, Change(type=type, key=f"default/{name}", raw=raw, controller=None), 1)

    def arrive(self) -> None:
        self.tables.arrived(REPLICASETS.id)
        self.keys.add_all_of(REPLICASETS.id)

    def taken(self) -> list[Key]:
        taken = []
        while (key := self.queue.take(0.0)) is not None:
            taken.append(key)
        return taken


def reading_replica_sets(change: Change, tables: Tables) -> Iterable[Key]:
    tables[REPLICASETS].entry(change.key)
    return (change.key,)


def test_change_is_enqueued_once_the_table_read_by_its_watch_exists() -> None:
    scene = Scene()
    scene.change("a")
    scene.change("b", EventType.DELETED)
    assert scene.taken() == []
    scene.arrive()
    assert scene.taken() == ["default/a", "default/b"]
    assert scene.raised == [], "no object is malformed"


def test_deletion_is_postponed_until_the_table_exists_and_other_changes_are_listed() -> None:
    scene = Scene()
    scene.change("a", resource_id=REPLICASETS.id)
    scene.change("b", EventType.DELETED, resource_id=REPLICASETS.id)
    scene.arrive()
    assert scene.taken() == ["default/b"]


def test_postponed_changes_are_bounded_and_the_oldest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "MOST_POSTPONED", 2)
    scene = Scene()
    for name in "abc":
        scene.change(name)
    scene.arrive()
    assert scene.taken() == ["default/b", "default/c"]
