"""Permitted evictions: the node had the taints when the eviction was decided."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.controllers.nodes.node_lifecycle.zones import EvictionLimits
from kcm.actors.simulation.invariants.nodes.evictions import EVICTION, EvictionsHaveACause
from kcm.actors.simulation.invariants.observer import Committed, ProcessStarted, Submitted
from kcm.protocols.messages.commands import Command, Delete, Get, Submit
from kcm.protocols.nodes import lease_facts, node_facts
from kcm.protocols.objects import Object, encode_object, uid_of
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import LEASES, NODES, PODS
from kcm.runtime.apiserver.storage.store import ADDED, StoreChange
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.tables.table import Table
from tests.support.objects import node, pod, stored, taint

UNREACHABLE, MAINTENANCE = taint("node.kubernetes.io/unreachable"), taint("example.org/maintenance")
KEY = "default/web"
READ = Get(PODS.id, KEY)


def silent(version: int, *more: Object) -> Object:
    return stored({**node("n1"), "spec": {"taints": [UNREACHABLE, *more]}}, version)


def patient_pod() -> Object:
    """Build a pod that tolerates a silent node for five minutes, and maintenance for 0 s."""
    stays = {"key": UNREACHABLE["key"], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    made = pod("web", version=8)
    return {**made, "spec": {**made["spec"], "nodeName": "n1", "tolerations": [stays]}}


class Scene:
    """Silent node with a pod, and the invariant that checks its eviction. texts: violations."""

    def __init__(self) -> None:
        tables = {
            NODES.id: Table(NODES, derive=node_facts),
            LEASES.id: Table(LEASES, derive=lease_facts),
            PODS.id: Table(PODS, derive=pod_facts),
        }
        writers = {id: table.claim() for id, table in tables.items()}
        self._nodes, self._writer = tables[NODES.id], writers[NODES.id]
        made = patient_pod()
        for id, objects in {NODES.id: [silent(5)], LEASES.id: [], PODS.id: [made]}.items():
            writers[id].replace([tables[id].make_entry(obj, encode_object(obj)) for obj in objects], 8)
        self._system: Any = SimpleNamespace(tables=tables)
        clock = VirtualClock()
        cluster: Any = SimpleNamespace(clock=clock, injector=SimpleNamespace(faults=()))
        self._invariant = EvictionsHaveACause(cluster, EvictionLimits(eviction_rate=0.1, full_disruption_rate=0.1))
        self.texts: list[str] = []
        self._invariant.observe(ProcessStarted("manager", self._system), self.texts.append)
        change = StoreChange(ADDED, "pods", KEY, 8, encode_object(made), b"")
        self._invariant.observe(Committed([change]), self.texts.append)
        clock.advance_to(10.0)
        self._evict = Delete(PODS.id, KEY, uid_of(made))

    def show(self, obj: Object) -> None:
        self._writer.put(self._nodes.make_entry(obj, encode_object(obj)))

    def submit(self, command: Command) -> None:
        submit = Submit(EVICTION, 1, "kcm", 1, (command,), "noexec_taint_pod", KEY)
        self._invariant.observe(Submitted("manager", self._system, submit), self.texts.append)

    def evict(self) -> list[str]:
        self.submit(self._evict)
        return self.texts


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_pod_is_not_evicted_before_its_time(scene: Scene) -> None:
    scene.submit(READ)
    assert scene.evict() == ["default/web is evicted from n1 after 10.0 s, but tolerates its taints for 300 s"]


def test_a_taint_that_went_while_the_pod_was_read_is_a_cause(scene: Scene) -> None:
    """Seed 90000992 of everything: a node was tainted and untainted at once, and its pods were evicted in between."""
    scene.show(silent(6, MAINTENANCE))
    scene.submit(READ)
    scene.show(silent(7))
    assert scene.evict() == []


def test_a_taint_that_went_before_is_none(scene: Scene) -> None:
    scene.show(silent(6, MAINTENANCE))
    scene.show(silent(7))
    scene.submit(READ)
    assert scene.evict() == ["default/web is evicted from n1 after 10.0 s, but tolerates its taints for 300 s"]
