"""Detection of pods beyond the parallelism of a Job, by the information of the process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.simulation.invariants.observer import Committed, OutcomeReceived, ProcessStarted, Submitted
from kcm.actors.simulation.invariants.workloads.jobs import ParallelismIsNotExceeded
from kcm.protocols.messages.commands import Create, Submit
from kcm.protocols.messages.outcomes import Unknown
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import JOBS, PODS
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, MODIFIED, StoreChange
from kcm.runtime.simulation.clock import VirtualClock
from tests.support.objects import owned_by, pod

SENDER = "controller:job-controller"
NOTHING: Any = None


class Scene:
    """Job, and the controller that creates its pods. texts: violations."""

    def __init__(self, parallelism: int) -> None:
        self.clock, self.version, self.revision = VirtualClock(), 0, 0
        cluster: Any = SimpleNamespace(clock=self.clock, injector=SimpleNamespace(faults=()))
        self.invariant = ParallelismIsNotExceeded(cluster, sender=SENDER)
        self.texts: list[str] = []
        self.start("manager")
        self.say(parallelism)

    def start(self, process: str) -> None:
        self.invariant.observe(ProcessStarted(process, NOTHING), self.texts.append)

    def _commit(self, type: str, storage: str, key: str, obj: Object) -> None:
        self.revision += 1
        change = StoreChange(type, storage, key, self.revision, encode_object(obj), b"")
        self.invariant.observe(Committed([change]), self.texts.append)

    def say(self, parallelism: int, *, shown: bool = True) -> None:
        job = {"metadata": {"name": "j", "uid": "1"}, "spec": {"parallelism": parallelism}}
        self._commit(MODIFIED, "jobs.batch", "default/j", job)
        if shown:
            self.version = self.revision

    def ask(self, name: str, process: str = "manager") -> None:
        system: Any = SimpleNamespace(tables={JOBS.id: SimpleNamespace(version=self.version)})
        command = Create(PODS.id, "default", encode_object(self._pod(name)))
        submit = Submit(SENDER, 1, "job-controller", 1, (command,), "job", "default/j")
        self.invariant.observe(Submitted(process, system, submit), self.texts.append)
        outcome = OutcomeReceived(process, NOTHING, SENDER, command, Unknown("lost"))
        self.invariant.observe(outcome, self.texts.append)
        self.clock.advance_to(self.clock.monotonic() + 1.0)

    def come(self, *names: str) -> None:
        for name in names:
            self._commit(ADDED, "pods", f"default/{name}", self._pod(name))

    def go(self, name: str) -> None:
        self._commit(DELETED, "pods", f"default/{name}", self._pod(name))

    def _pod(self, name: str) -> Object:
        return pod(name, version=8, owner=owned_by("1", kind="Job", name="j"))


def test_a_pod_too_many_is_found_and_one_in_the_place_of_another_is_none() -> None:
    scene = Scene(parallelism=2)
    for name in ("a", "b", "c", "d"):
        scene.ask(name)
    scene.come("a", "b")
    scene.go("a")
    scene.come("c")
    assert scene.texts == []
    scene.come("d")
    assert scene.texts == ["a Job has 3 active pods after the creation of default/d, its limit is 2"]


@pytest.mark.parametrize("shown", [False, True])
def test_previous_parallelism_counts_until_the_change_is_in_the_table(*, shown: bool) -> None:
    scene = Scene(parallelism=2)
    scene.say(1, shown=shown)
    for name in ("a", "b"):
        scene.ask(name)
        scene.come(name)
    assert bool(scene.texts) is shown


@pytest.mark.parametrize(("process", "found"), [("manager", True), ("manager-2", False)])
def test_a_pod_that_another_process_asked_for_may_come_late(process: str, *, found: bool) -> None:
    scene = Scene(parallelism=1)
    scene.ask("a")
    scene.start("manager-2")
    scene.ask("b", process)
    scene.come("a", "b")
    assert bool(scene.texts) is found


def test_a_pod_of_another_process_that_was_there_counts() -> None:
    scene = Scene(parallelism=1)
    scene.ask("a")
    scene.start("manager-2")
    scene.come("a")
    scene.ask("b", "manager-2")
    scene.come("b")
    assert len(scene.texts) == 1
