"""What every way to a cloud does: on threads, and on virtual time, with and without a plan of faults around it."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence

import pytest

from protocols.messages.cloud import CreateRoute, InstanceExists, ListRoutes
from protocols.messages.outcomes import Done, Invalid, Outcome, Refused, ServerFailure
from protocols.routes import Route, encode_route
from runtime.cloud.calls import CloudCalls
from runtime.cloud.fake import FakeCloud, FakeRoutes
from runtime.cloud.pool import NOT_HELD
from runtime.cloud.threads import ThreadedCalls
from runtime.faults.cloud import FaultyCalls
from runtime.scheduling.clock import SystemClock
from runtime.scheduling.permits import ALWAYS, Permit, Tenure
from runtime.simulation.clock import VirtualClock
from runtime.simulation.cloud import SimulatedCalls

PATIENCE = 10.0  # seconds
EXISTS = InstanceExists(b'{"metadata":{"name":"n1","uid":"u1"}}')
CREATE = CreateRoute("c", "hint", encode_route(Route(destination="10.0.0.0/24", node="n1")))


class Threads:
    def __init__(self) -> None:
        self.cloud, self.clock = FakeCloud(), SystemClock()
        self.calls: CloudCalls = ThreadedCalls(self.cloud, clock=self.clock)
        self.arrived: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def take(self, outcome: Outcome) -> None:
        self.arrived.put(outcome)

    def outcomes(self, count: int) -> list[Outcome]:
        return [self.arrived.get(timeout=PATIENCE) for _ in range(count)]

    def close(self) -> None:
        self.clock.close()


class Simulated:
    def __init__(self) -> None:
        self.cloud, self.clock = FakeCloud(), VirtualClock()
        self.calls: CloudCalls = SimulatedCalls(self.cloud, clock=self.clock)
        self.arrived: list[Outcome] = []

    def take(self, outcome: Outcome) -> None:
        self.arrived.append(outcome)

    def outcomes(self, count: int) -> list[Outcome]:
        until = self.clock.monotonic() + PATIENCE
        while len(self.arrived) < count and (alarm := self.clock.next_alarm()) is not None and alarm <= until:
            self.clock.advance_to(alarm)
            self.clock.sound_due()
        taken, self.arrived = self.arrived[:count], self.arrived[count:]
        return taken

    def close(self) -> None:
        return None


def no_fault(*_: object, **__: object) -> None:
    return None


def faulty(make: Callable[[], Threads | Simulated]) -> Callable[[], Threads | Simulated]:
    def wrapped() -> Threads | Simulated:
        side = make()
        side.calls = FaultyCalls(side.calls, no_fault, clock=side.clock)
        return side

    return wrapped


SIDES = {
    "threads": Threads,
    "simulated": Simulated,
    "threads under a fault plan": faulty(Threads),
    "simulated under a fault plan": faulty(Simulated),
}


@pytest.fixture(params=SIDES.values(), ids=SIDES.keys())
def side(request: pytest.FixtureRequest) -> Iterator[Threads | Simulated]:
    made: Threads | Simulated = request.param()
    yield made
    made.close()


def test_a_call_returns_at_once_and_has_one_outcome(side: Threads | Simulated) -> None:
    side.calls.send(EXISTS, side.take)
    side.calls.send(ListRoutes("c"), side.take)
    assert sorted(side.outcomes(2), key=repr) == [Done(b"[]"), Done(b"true")]
    side.calls.send(CREATE, side.take)
    assert side.outcomes(1) == [Done(b"null")]
    assert len(side.cloud.routes.list("c")) == 1


def test_what_the_provider_raises_is_an_outcome(side: Threads | Simulated) -> None:
    class Broken(FakeRoutes):
        def list(self, cluster: str) -> Sequence[Route]:
            raise RuntimeError("rain")

    side.cloud.routes = Broken()
    side.calls.send(ListRoutes("c"), side.take)
    assert side.outcomes(1) == [ServerFailure("rain")]
    side.cloud.routes = None  # type: ignore[assignment]
    side.calls.send(ListRoutes("c"), side.take)
    assert [type(outcome) for outcome in side.outcomes(1)] == [Invalid]


@pytest.mark.parametrize("way", ["the time is over", "the tenure is over", "the tenure ended"])
def test_without_its_permit_a_call_does_not_begin(side: Threads | Simulated, way: str) -> None:
    now, tenure = side.clock.monotonic(), Tenure()
    tenure.extend(now if way == "the tenure is over" else now + 100.0)
    if way == "the tenure ended":
        tenure.end()
    permit = Permit(now) if way == "the time is over" else Permit(tenure=tenure)
    side.calls.send(CREATE, side.take, permit=permit)
    assert side.outcomes(1) == [Refused(NOT_HELD)]
    assert not side.cloud.routes.list("c")
    tenure.extend(now + 100.0)
    side.calls.send(CREATE, side.take, permit=Permit(tenure=tenure))
    assert side.outcomes(1) == [Done(b"null")]


def test_more_calls_than_there_are_threads_are_made_one_after_the_other(side: Threads | Simulated) -> None:
    for _ in range(40):
        side.calls.send(EXISTS, side.take, permit=ALWAYS)
    assert side.outcomes(40) == [Done(b"true")] * 40
    assert side.calls.hung() == []
