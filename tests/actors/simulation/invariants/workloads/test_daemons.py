"""Detection of a second pod of a DaemonSet on a node."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.controllers.workloads.daemonset.pods import bound_to
from kcm.actors.simulation.invariants.observer import Committed, Handled, OutcomeReceived, ProcessStarted, Submitted
from kcm.actors.simulation.invariants.workloads.daemons import CLIENT, SENDER, OneDaemonPodPerNode
from kcm.protocols.messages.commands import Create, Submit
from kcm.protocols.messages.outcomes import Unknown
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import PODS
from kcm.runtime.apiserver.storage.store import ADDED, MODIFIED, StoreChange
from kcm.runtime.client.api import Request, Response
from kcm.runtime.simulation.clock import VirtualClock
from tests.support.objects import owned_by, pod

NOTHING: Any = None


def daemon_pod(name: str, node: str = "n1") -> Object:
    made = pod(name, version=8, owner=owned_by("uid-of-agent", kind="DaemonSet", name="agent"))
    return {**made, "spec": {**made["spec"], "affinity": bound_to(None, node)}}


class Shown:
    """Table of pods with the attributes that invariants use."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    @property
    def version(self) -> int:
        return self._scene.shown


class Scene:
    """Processes that create pods of a DaemonSet. texts: violations. shown: version of the tables of pods."""

    def __init__(self) -> None:
        self.shown = self._version = 8
        self._system: Any = SimpleNamespace(tables={PODS.id: Shown(self)})
        self.clock = VirtualClock()
        cluster: Any = SimpleNamespace(clock=self.clock, injector=SimpleNamespace(faults=()))
        self.invariant = OneDaemonPodPerNode(cluster)
        self.texts: list[str] = []
        self.start("manager")

    def start(self, process: str) -> None:
        self.invariant.observe(ProcessStarted(process, NOTHING), self.texts.append)

    def ask(self, name: str, process: str = "manager", *, goes_on: bool = False) -> None:
        """Submit the creation of a pod. goes_on: the sync will submit another command."""
        command = Create(PODS.id, "default", encode_object(daemon_pod(name)))
        submit = Submit(SENDER, 1, CLIENT, 1, (command,), "daemonset", "default/agent")
        self.invariant.observe(Submitted(process, self._system, submit), self.texts.append)
        if not goes_on:
            outcome = OutcomeReceived(process, NOTHING, SENDER, command, Unknown("lost"))
            self.invariant.observe(outcome, self.texts.append)
            self.clock.advance_to(self.clock.monotonic() + 1.0)

    def come(self, name: str, process: str = "manager", node: str = "n1", *, seen: bool = True) -> None:
        self._version += 1
        if seen:
            self.shown = self._version
        changes = [
            StoreChange(ADDED, "pods", f"default/{name}", self._version, encode_object(daemon_pod(name, node)), b"")
        ]
        self.invariant.observe(Committed(changes), self.texts.append)
        request, response = Request(method="POST", path="/pods"), Response(status=201, body=b"")
        self.invariant.observe(Handled(process, CLIENT, request, response, changes), self.texts.append)

    def change(self, name: str) -> None:
        raw = encode_object(daemon_pod(name))
        self.shown = self._version = self._version + 1
        change = StoreChange(MODIFIED, "pods", f"default/{name}", self._version, raw, raw)
        self.invariant.observe(Committed([change]), self.texts.append)


def test_a_second_pod_on_a_node_is_found() -> None:
    scene = Scene()
    for name, node in (("one", "n1"), ("elsewhere", "n2"), ("two", "n1")):
        scene.ask(name)
        scene.come(name, node=node)
    assert scene.texts == ["default/two is created on n1, which already has ['default/one']"]


@pytest.mark.parametrize("next_one", ["manager", "manager-2"])
@pytest.mark.parametrize("comes", ["unasked", "late"])
@pytest.mark.parametrize("changed", [False, True])
def test_creation_in_flight_at_the_end_of_its_process_counts_once_it_is_committed(
    next_one: str, comes: str, *, changed: bool
) -> None:
    """False alarm, seed 53000075: the pod was committed after the next process had created another one."""
    scene = Scene()
    scene.ask("one")
    scene.start(next_one)
    if comes == "late":
        scene.ask("two", next_one)
    scene.come("one")
    if changed:
        scene.change("one")
    if comes == "unasked":
        scene.ask("two", next_one)
    scene.come("two", next_one)
    assert (scene.texts == []) is (comes == "late"), scene.texts


def test_process_must_consider_its_own_creations() -> None:
    scene = Scene()
    scene.ask("one")
    scene.ask("two")
    scene.come("one")
    scene.come("two")
    assert len(scene.texts) == 1


@pytest.mark.parametrize("goes_on", [False, True])
def test_sync_reads_the_pods_once(*, goes_on: bool) -> None:
    """False alarm, seed 53000075: a sync creates pods in batches of increasing size, each of which may take seconds."""
    scene = Scene()
    scene.ask("one")
    scene.start("manager")
    scene.ask("elsewhere", goes_on=goes_on)
    scene.come("one")
    scene.ask("two")
    scene.come("two")
    assert (scene.texts == []) is goes_on, scene.texts


def test_a_pod_that_is_asked_for_again_finds_what_came_in_between() -> None:
    scene = Scene()
    scene.ask("one")
    scene.start("manager")
    scene.ask("two")
    scene.come("one")
    scene.ask("two")
    scene.come("two")
    assert len(scene.texts) == 1


@pytest.mark.parametrize("behind", [False, True])
def test_new_process_may_list_from_a_server_that_is_behind(*, behind: bool) -> None:
    """False alarm, seed 91002368 of swarm: the previous process had created the pod and seen it."""
    scene = Scene()
    scene.ask("one")
    scene.come("one", seen=not behind)
    scene.start("manager")
    scene.ask("two")
    scene.come("two")
    assert (scene.texts == []) is behind, scene.texts


def test_late_table_does_not_excuse_the_process_that_created_the_pod() -> None:
    scene = Scene()
    scene.ask("one")
    scene.come("one", seen=False)
    scene.ask("two")
    scene.come("two")
    assert len(scene.texts) == 1
