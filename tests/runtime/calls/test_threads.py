"""Calls on real threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence

import pytest

from kcm.protocols.messages.cloud import CloudCall, CreateRoute, InstanceExists, ListRoutes
from kcm.protocols.messages.outcomes import Done, Outcome, Refused, Unknown
from kcm.protocols.routes import Route, encode_route
from kcm.runtime.calls.pool import NOT_HELD, PoolLimits
from kcm.runtime.calls.threads import ThreadedCalls
from kcm.runtime.cloud.calls import prepare_cloud_call
from kcm.runtime.cloud.fake import FakeCloud, FakeRoutes
from kcm.runtime.scheduling.permits import ALWAYS, Permit, Tenure
from kcm.runtime.simulation.clock import VirtualClock

TIMEOUT = 10.0  # seconds
EXISTS = InstanceExists(b'{"metadata":{"name":"n1","uid":"u1"}}')
CREATE = CreateRoute("c", "hint", encode_route(Route(destination="10.0.0.0/24", node="n1")))


class StuckRoutes(FakeRoutes):
    """Routes whose list blocks until `released` is set.

    entered: released by each call that blocks.
    """

    def __init__(self) -> None:
        super().__init__()
        self.released, self.entered = threading.Event(), threading.Semaphore(0)

    def list(self, cluster: str) -> Sequence[Route]:
        self.entered.release()
        assert self.released.wait(30.0)
        return super().list(cluster)


class Rig:
    """A cloud whose lists of routes hang, on a clock that the test advances."""

    def __init__(self, **limits: float) -> None:
        self.clock, self.cloud = VirtualClock(), FakeCloud()
        self.stuck = self.cloud.routes = StuckRoutes()
        self.calls = ThreadedCalls(clock=self.clock, limits=PoolLimits(**limits))  # type: ignore[arg-type]
        self.outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def send(self, call: CloudCall, *, permit: Permit = ALWAYS) -> None:
        self.calls.send(prepare_cloud_call(self.cloud, call), self.outcomes.put, permit=permit)

    def hang(self, calls: int = 1) -> None:
        for _ in range(calls):
            self.send(ListRoutes("c"))
            assert self.stuck.entered.acquire(timeout=TIMEOUT)

    def advance(self, seconds: float) -> None:
        self.clock.advance_to(self.clock.monotonic() + seconds)
        while self.clock.run_due():
            pass

    def outcome(self) -> Outcome:
        return self.outcomes.get(timeout=TIMEOUT)


@pytest.fixture
def rigs() -> Iterator[list[Rig]]:
    made: list[Rig] = []
    yield made
    for rig in made:
        rig.stuck.released.set()


def test_hung_call_does_not_delay_others(rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(workers=2))
    rig.hang()
    rig.send(EXISTS)
    assert rig.outcome() == Done(b"true")
    rig.stuck.released.set()
    assert rig.outcome() == Done(b"[]")


def test_sixteen_hung_calls_are_replaced_by_other_threads(rigs: list[Rig]) -> None:
    rigs.append(rig := Rig())
    rig.hang(16)
    rig.advance(119.0)
    rig.send(EXISTS)
    assert rig.outcomes.empty()
    rig.advance(1.0)
    outcomes = [rig.outcome() for _ in range(17)]
    assert outcomes.count(Unknown("ListRoutes did not return within 120 s")) == 16
    assert outcomes.count(Done(b"true")) == 1
    assert [call.what for call in rig.calls.hung()] == ["ListRoutes"] * 16


def test_call_that_gets_a_thread_too_late_is_not_made(rigs: list[Rig]) -> None:
    """Its lease expired or was released while the call waited."""
    rigs.append(rig := Rig(workers=1))
    tenure = Tenure()
    tenure.extend(10.0)
    rig.hang()
    rig.send(CREATE, permit=Permit(tenure=tenure))
    rig.advance(10.0)
    rig.stuck.released.set()
    assert [rig.outcome(), rig.outcome()] == [Done(b"[]"), Refused(NOT_HELD)]
    tenure.extend(100.0)
    rig.send(CREATE, permit=Permit(tenure=tenure))
    assert rig.outcome() == Done(b"null")
    assert len(rig.cloud.routes.list("c")) == 1


def test_refused_call_is_never_made(rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(workers=1, wait=30.0))
    rig.hang()
    rig.send(CREATE)
    rig.advance(30.0)
    assert rig.outcome() == Refused("no worker was free for 30 s")
    rig.stuck.released.set()
    assert rig.outcome() == Done(b"[]")
    rig.send(EXISTS)
    assert rig.outcome() == Done(b"true")
    assert not rig.cloud.routes.list("c")
    assert rig.clock.next_alarm() is None
