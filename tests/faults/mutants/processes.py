"""Mutants of leadership, of incarnations, and of deletions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

import kcm.actors.controllers.workloads.replicaset.reconciler as replicaset
from kcm.actors.engine.dispatcher import Dispatcher
from kcm.actors.reconciliation import delete
from kcm.actors.simulation.campaign.domain_settings import NODES_SETTING
from kcm.actors.simulation.campaign.setting import Setting
from kcm.protocols.objects import make_key, name_of, namespace_of
from kcm.protocols.resources import PODS
from kcm.runtime.calls.pool import CallPool
from kcm.runtime.scheduling.permits import ALWAYS, Permit
from kcm.runtime.simulation.clock import ProcessClock
from kcm.runtime.simulation.processes import SimulatedProcess
from kcm.runtime.simulation.transport import _Exchange
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import Actor
from tests.faults.mutants.mutant import Mutant
from tests.faults.mutants.plans import busy_cloud, hangs, http_held, stale_pods, takeovers
from tests.faults.mutants.scenarios import killed_and_scaled, many_pods


@contextmanager
def lease_is_not_looked_at() -> Iterator[None]:
    """A manager that has been the leader once continues to write."""
    refusal = Dispatcher._refusal

    def any_time(self: Dispatcher, job: Any, now: float) -> str | None:
        return None if self._tenure.until > 0.0 or not self._limits.needs_lease else refusal(self, job, now)

    def for_good(self: Dispatcher, _job: Any, now: float) -> Permit:
        return Permit(now + self._limits.timeout)

    with patch.object(Dispatcher, "_refusal", any_time), patch.object(Dispatcher, "_permit", for_good):
        yield


@contextmanager
def time_begins_in_the_thread_of_http() -> Iterator[None]:
    """The lease is checked when a request is handed over, but its time limit begins in the HTTP thread."""
    depart = _Exchange.depart

    def fresh(self: _Exchange) -> None:
        self._permit = Permit(self._clock.monotonic() + max(0.5, self._permit.until - self.handed_over))
        depart(self)

    class Noting(_Exchange):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.handed_over = self._clock.monotonic()

    with patch("kcm.runtime.simulation.transport._Exchange", Noting), patch.object(Noting, "depart", fresh):
        yield


@contextmanager
def cloud_calls_begin_any_time() -> Iterator[None]:
    """The lease is checked when a call is handed over, but not when the call begins."""
    add = CallPool.add

    def always(self: CallPool, call: Any, on_outcome: Any, _permit: Permit) -> int:
        return add(self, call, on_outcome, ALWAYS)

    with patch.object(CallPool, "add", always):
        yield


@contextmanager
def suspended_time_does_not_count() -> Iterator[None]:
    """The process's clock stops while the machine is suspended, as CLOCK_MONOTONIC does."""
    pause, lost = World.pause, dict[ProcessClock, float]()

    def suspend(self: World, process: SimulatedProcess, seconds: float) -> None:
        pause(self, process, seconds)

        def resume() -> None:
            lost[process.clock] = lost.get(process.clock, 0.0) + seconds

        self.clock.call_once(self.clock.elapsed + seconds, resume)

    def standing(self: ProcessClock) -> float:
        return self._base.elapsed - lost.get(self, 0.0)

    def ring(self: ProcessClock, who: Any, when: float, what: Any) -> None:
        call_at(
            self, who, when + lost.get(self, 0.0) + 1e-6, what
        )  # the pause must have ended by then, despite rounding

    call_at = ProcessClock.call_at
    with (
        patch.object(World, "pause", suspend),
        patch.object(ProcessClock, "monotonic", standing),
        patch.object(ProcessClock, "call_at", ring),
    ):
        yield


@contextmanager
def replaced_actors_work_on() -> Iterator[None]:
    """An actor that was replaced while it hung handles its pending messages when it resumes."""
    handle = Actor._handle  # type: ignore[attr-defined]
    with patch.object(Actor, "on_receive", lambda self, frame: handle(self, frame)):
        yield


@contextmanager
def replaced_actors_write_on() -> Iterator[None]:
    """In addition, a replaced dispatcher sends its pending commands."""
    drain = Dispatcher._drain

    def drain_on(self: Dispatcher, client: str) -> None:
        if not self.context.fenced:
            drain(self, client)
            return
        queue = self._queues[client]
        while queue:
            self._send(queue.popleft(), self.clock.monotonic())

    with replaced_actors_work_on(), patch.object(Dispatcher, "_drain", drain_on):
        yield


@contextmanager
def deleted_by_name() -> Iterator[None]:
    """Deletions have no uid precondition."""

    def by_name(resource: Any, which: Any, **more: Any) -> Any:
        return delete(resource, which.key if resource is PODS else which, **more)

    with patch("kcm.actors.controllers.shared.pod_control.delete", by_name):
        yield


@contextmanager
def names_come_again() -> Iterator[None]:
    """Pods are numbered as those of a StatefulSet, so that names are reused."""

    def names(owner: Any, wanted: int, *, taken: Any) -> list[str]:
        numbered = (f"{name_of(owner)}-{number}" for number in range(1000))
        free = (name for name in numbered if not taken(make_key(namespace_of(owner), name)))
        return [next(free) for _ in range(wanted)]

    with patch.object(replicaset, "generated_names", names):
        yield


@contextmanager
def deleted_by_name_that_comes_again() -> Iterator[None]:
    """Names are reused, and deletions have no uid precondition."""
    with deleted_by_name(), names_come_again():
        yield


HUNG = Setting(draw=hangs)
STALE = Setting(draw=stale_pods, elections=lambda _seed: 0, actions=killed_and_scaled)

PROCESSES = (
    Mutant(
        name="a deposed leader writes",
        source="kubernetes/kubernetes#23731",
        mutation=lease_is_not_looked_at,
        setting=Setting(draw=takeovers, elections=lambda _seed: 2, actions=many_pods),
    ),
    Mutant(
        name="a write's time begins when HTTP comes to it",
        source="a write with 0.5 s left reached the server 2.9 s later: the thread of HTTP had been held up",
        mutation=time_begins_in_the_thread_of_http,
        setting=Setting(draw=http_held, elections=lambda _seed: 1, actions=many_pods),
    ),
    Mutant(
        name="a cloud call begins after the lease",
        source="a call began 4 s after the lease was lost: all threads had been busy",
        mutation=cloud_calls_begin_any_time,
        setting=replace(NODES_SETTING, draw=busy_cloud, elections=lambda _seed: 1),
    ),
    Mutant(
        name="suspended time does not count",
        source="CLOCK_MONOTONIC stands still while Linux is suspended",
        mutation=suspended_time_does_not_count,
        setting=Setting(draw=takeovers, elections=lambda _seed: 2, actions=many_pods),
    ),
    Mutant(
        name="a replaced actor works on",
        source="kubernetes/kubernetes#44887: an old leader works on, as nothing is fenced",
        mutation=replaced_actors_work_on,
        setting=HUNG,
        held_by="a dispatcher that was replaced sends nothing",
    ),
    Mutant(
        name="a replaced actor works on, and its second line",
        source="kubernetes/kubernetes#44887: an old leader works on, as nothing is fenced",
        mutation=replaced_actors_write_on,
        setting=HUNG,
    ),
    Mutant(
        name="deleted by name",
        source="kubernetes/kubernetes#29522",
        mutation=deleted_by_name,
        setting=STALE,
        held_by="no pod gets the name of another",
    ),
    Mutant(
        name="deleted by name, and its second line",
        source="kubernetes/kubernetes#29522",
        mutation=deleted_by_name_that_comes_again,
        setting=STALE,
    ),
)
