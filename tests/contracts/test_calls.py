"""Contract of `Calls`: on threads and on virtual time, with and without a fault plan."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from kcm.actors.reconciliation import outside
from kcm.protocols.codec import pack
from kcm.protocols.messages.cloud import CreateRoute, InstanceExists, ListRoutes
from kcm.protocols.messages.outcomes import Done, Invalid, Outcome, Raised, Refused, ServerFailure
from kcm.protocols.routes import Route, encode_route
from kcm.runtime.calls.pool import NOT_HELD
from kcm.runtime.calls.prepared_calls import Calls, PreparedCall
from kcm.runtime.calls.threads import ThreadedCalls
from kcm.runtime.cloud.calls import prepare_cloud_call
from kcm.runtime.cloud.fake import FakeCloud, FakeRoutes
from kcm.runtime.faults.calls import FaultyCalls
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.scheduling.permits import ALWAYS, Permit, Tenure
from kcm.runtime.simulation.calls import SimulatedCalls
from kcm.runtime.simulation.clock import VirtualClock

PATIENCE = 10.0  # seconds
EXISTS = InstanceExists(b'{"metadata":{"name":"n1","uid":"u1"}}')
CREATE = CreateRoute("c", "hint", encode_route(Route(destination="10.0.0.0/24", node="n1")))


class Threads:
    def __init__(self) -> None:
        self.cloud, self.clock = FakeCloud(), SystemClock()
        self.calls: Calls = ThreadedCalls(clock=self.clock)
        self.arrived: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def take(self, outcome: Outcome) -> None:
        self.arrived.put(outcome)

    def outcomes(self, count: int) -> list[Outcome]:
        return [self.arrived.get(timeout=PATIENCE) for _ in range(count)]

    def until(self, done: Callable[[], bool]) -> None:
        deadline = self.clock.monotonic() + PATIENCE
        while not done():
            assert self.clock.monotonic() < deadline
            threading.Event().wait(0.005)

    def close(self) -> None:
        self.calls.close()
        self.clock.close()


class Simulated:
    def __init__(self) -> None:
        self.cloud, self.clock = FakeCloud(), VirtualClock()
        self.calls: Calls = SimulatedCalls(clock=self.clock)
        self.arrived: list[Outcome] = []

    def take(self, outcome: Outcome) -> None:
        self.arrived.append(outcome)

    def outcomes(self, count: int) -> list[Outcome]:
        until = self.clock.monotonic() + PATIENCE
        while len(self.arrived) < count and (alarm := self.clock.next_alarm()) is not None and alarm <= until:
            self.clock.advance_to(alarm)
            self.clock.run_due()
        taken, self.arrived = self.arrived[:count], self.arrived[count:]
        return taken

    def until(self, done: Callable[[], bool]) -> None:
        until = self.clock.monotonic() + 1.0
        while not done() and (alarm := self.clock.next_alarm()) is not None and alarm <= until:
            self.clock.advance_to(alarm)
            self.clock.run_due()
        assert done()

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
    side.calls.send(prepare_cloud_call(side.cloud, EXISTS), side.take)
    side.calls.send(prepare_cloud_call(side.cloud, ListRoutes("c")), side.take)
    assert sorted(side.outcomes(2), key=repr) == [Done(b"[]"), Done(b"true")]
    side.calls.send(prepare_cloud_call(side.cloud, CREATE), side.take)
    assert side.outcomes(1) == [Done(b"null")]
    assert len(side.cloud.routes.list("c")) == 1


def test_exception_of_the_provider_is_an_outcome(side: Threads | Simulated) -> None:
    class Broken(FakeRoutes):
        def list(self, cluster: str) -> Sequence[Route]:
            raise RuntimeError("rain")

    side.cloud.routes = Broken()
    side.calls.send(prepare_cloud_call(side.cloud, ListRoutes("c")), side.take)
    assert side.outcomes(1) == [ServerFailure("rain")]
    side.cloud.routes = None  # type: ignore[assignment]
    side.calls.send(prepare_cloud_call(side.cloud, ListRoutes("c")), side.take)
    assert [type(outcome) for outcome in side.outcomes(1)] == [Invalid]


@pytest.mark.parametrize("way", ["the time is over", "the tenure is over", "the tenure ended"])
def test_without_its_permit_a_call_does_not_begin(side: Threads | Simulated, way: str) -> None:
    now, tenure = side.clock.monotonic(), Tenure()
    tenure.extend(now if way == "the tenure is over" else now + 100.0)
    if way == "the tenure ended":
        tenure.end()
    permit = Permit(now) if way == "the time is over" else Permit(tenure=tenure)
    side.calls.send(prepare_cloud_call(side.cloud, CREATE), side.take, permit=permit)
    assert side.outcomes(1) == [Refused(NOT_HELD)]
    assert not side.cloud.routes.list("c")
    tenure.extend(now + 100.0)
    side.calls.send(prepare_cloud_call(side.cloud, CREATE), side.take, permit=Permit(tenure=tenure))
    assert side.outcomes(1) == [Done(b"null")]


def test_more_calls_than_there_are_threads_are_made_one_after_the_other(side: Threads | Simulated) -> None:
    for _ in range(40):
        side.calls.send(prepare_cloud_call(side.cloud, EXISTS), side.take, permit=ALWAYS)
    assert side.outcomes(40) == [Done(b"true")] * 40
    assert side.calls.hung() == []


# Functions of controllers.


def prepared_call(
    function: Callable[..., Any], *args: Any, most: int | None = None, incarnation: int = 1
) -> PreparedCall:
    return outside(function, *args, timeout=PATIENCE).prepare(sender="c", incarnation=incarnation, most=most)


class Ward:
    """Async calls of a given duration. most: maximum number of concurrent calls."""

    def __init__(self) -> None:
        self.under_way = self.most = self.cancelled = 0

    async def stay(self, seconds: float) -> str:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        return "well"


async def refuse() -> None:
    raise PermissionError("no")


def leave() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    "function, args, outcome",
    [
        (len, (["a", "b"],), Done(pack(2))),
        (Ward().stay, (0.0,), Done(pack("well"))),
        (refuse, (), "PermissionError: no"),
        (leave, (), "SystemExit: 3"),
    ],
)
def test_returned_value_or_exception_of_a_function_is_its_outcome(
    side: Threads | Simulated, function: Callable[..., Any], args: tuple[Any, ...], outcome: Outcome | str
) -> None:
    side.calls.send(prepared_call(function, *args), side.take)
    (received,) = side.outcomes(1)
    assert (received.message if isinstance(received, Raised) else received) == outcome
    side.calls.send(prepared_call(len, "abc"), side.take)
    side.calls.send(prepared_call(Ward().stay, 0.0), side.take)
    assert sorted(side.outcomes(2), key=repr) == [Done(pack(3)), Done(pack("well"))], "others go on"


@pytest.mark.parametrize("end", ["its sender was replaced", "the system ends"])
def test_async_functions_are_cancelled_and_what_waits_is_refused(side: Threads | Simulated, end: str) -> None:
    ward = Ward()
    for _ in range(3):
        side.calls.send(prepared_call(ward.stay, 5.0, most=2), side.take)
    side.until(lambda: ward.under_way == 2)
    side.calls.cancel("c", 1)
    side.calls.cancel("another", 9)
    if end == "the system ends":
        side.calls.close()
    else:
        side.calls.cancel("c", 2)
    assert sorted(type(outcome).__name__ for outcome in side.outcomes(3)) == ["Refused", "Unknown", "Unknown"]
    side.until(lambda: ward.cancelled == 2)
    if end == "the system ends":
        side.calls.send(prepared_call(len, "a"), side.take)
        side.calls.send(prepared_call(ward.stay, 0.0), side.take)
        assert [type(outcome) for outcome in side.outcomes(2)] == [Refused, Refused]


def test_a_sender_has_no_more_calls_under_way_than_it_may(side: Threads | Simulated) -> None:
    ward = Ward()
    for _ in range(7):
        side.calls.send(prepared_call(ward.stay, 0.01, most=3), side.take)
    assert side.outcomes(7) == [Done(pack("well"))] * 7
    assert ward.most == 3
