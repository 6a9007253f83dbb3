"""Start of calls on virtual time: queueing, hung calls, and expired permits."""

from __future__ import annotations

import pytest

from kcm.protocols.messages.cloud import (
    CloudCall,
    CreateRoute,
    EnsureLoadBalancer,
    GetLoadBalancer,
    InstanceExists,
    ListRoutes,
)
from kcm.protocols.messages.outcomes import Done, Outcome, Refused, Unknown
from kcm.protocols.routes import Route, encode_route
from kcm.runtime.calls.pool import NOT_HELD, CallPool, PoolLimits
from kcm.runtime.calls.prepared_calls import HungCall
from kcm.runtime.cloud.calls import prepare_cloud_call
from kcm.runtime.cloud.fake import FakeCloud
from kcm.runtime.scheduling.permits import ALWAYS, Permit, Tenure
from kcm.runtime.simulation.clock import VirtualClock

EXISTS = InstanceExists(b'{"metadata":{"name":"n1"}}')
DONE = Done(b"true")
CLOUD = FakeCloud()


class Workers:
    """Call pool with workers that make a call when the test requests it.

    outcomes: (time, number of the call, outcome).
    """

    def __init__(self, **limits: float) -> None:
        self.clock = VirtualClock()
        self.started = 0
        bounds = PoolLimits(**limits)  # type: ignore[arg-type]
        self.pool = CallPool(clock=self.clock, limits=bounds, start=self._start, line_up=lambda _number: None)
        self.outcomes: list[tuple[float, Outcome]] = []

    def add(self, call: CloudCall = EXISTS, *, permit: Permit = ALWAYS) -> int:
        def take(outcome: Outcome) -> None:
            self.outcomes.append((self.clock.monotonic(), outcome))

        return self.pool.add(prepare_cloud_call(CLOUD, call), take, permit)

    def begun(self, call: CloudCall = EXISTS) -> int:
        number = self.add(call)
        prepared = self.pool.begin(number)
        assert prepared is not None
        assert prepared.command == call
        return number

    def wait(self, seconds: float) -> None:
        until = self.clock.monotonic() + seconds
        while (alarm := self.clock.next_alarm()) is not None and alarm <= until:
            self.clock.advance_to(alarm)
            self.clock.run_due()
        self.clock.advance_to(until)

    def _start(self) -> None:
        self.started += 1


def test_workers_are_started_as_they_are_needed() -> None:
    workers = Workers(workers=2)
    first = workers.begun()
    assert workers.started == 1
    assert workers.pool.finish(first, DONE)
    workers.begun()
    assert workers.started == 1, "the first is free"
    workers.add()
    workers.add()
    assert workers.started == 2, "no more than two"


def test_call_waits_for_a_worker_until_its_deadline() -> None:
    workers = Workers(workers=1, wait=30.0)
    workers.begun()
    late = workers.add()
    workers.wait(29.9)
    assert workers.outcomes == []
    workers.wait(0.2)
    assert workers.outcomes == [(30.0, Refused("no worker was free for 30 s"))]
    assert workers.pool.begin(late) is None, "what was refused is not made later"


def test_call_with_expired_permit_does_not_begin() -> None:
    workers, tenure = Workers(), Tenure()
    tenure.extend(10.0)
    kept = workers.add(permit=Permit(tenure=tenure))
    renewed = workers.add(permit=Permit(tenure=tenure))
    workers.wait(9.9)
    assert workers.pool.begin(kept) is not None
    tenure.extend(15.0)
    workers.wait(0.2)
    assert workers.pool.begin(renewed) is not None, "the lease was renewed meanwhile"
    late = workers.add(permit=Permit(tenure=tenure))
    workers.wait(10.0)
    assert workers.pool.begin(late) is None
    assert workers.outcomes == [(pytest.approx(20.1), Refused(NOT_HELD))]


def test_no_call_begins_after_the_lease_is_lost_or_released() -> None:
    workers, tenure = Workers(), Tenure()
    tenure.extend(10.0)
    number = workers.add(permit=Permit(tenure=tenure))
    tenure.end()
    assert workers.pool.begin(number) is None
    assert workers.outcomes == [(0.0, Refused(NOT_HELD))]
    assert workers.clock.next_alarm() is None


def test_a_call_that_does_not_return_hangs_and_another_worker_takes_its_place() -> None:
    workers = Workers(workers=2, wait=1000.0)
    hung = [workers.begun(ListRoutes("c")), workers.begun()]
    waiting = workers.add()
    workers.wait(119.9)
    assert (workers.started, workers.pool.hung()) == (2, [])
    workers.wait(0.2)
    late = [Unknown(f"{what} did not return within 120 s") for what in ("ListRoutes", "InstanceExists n1")]
    assert workers.outcomes == [(120.0, outcome) for outcome in late]
    assert workers.started == 3, "one call waits"
    assert workers.pool.hung() == [HungCall("ListRoutes", 0.0), HungCall("InstanceExists n1", 0.0)]
    assert workers.pool.begin(waiting) is not None
    assert workers.pool.finish(waiting, DONE)
    assert workers.pool.finish(hung[0], DONE), "one of two may hang on"
    assert len(workers.outcomes) == 3, "the late outcome goes nowhere"
    assert [call.what for call in workers.pool.hung()] == ["InstanceExists n1"]


SERVICE = b'{"metadata":{"name":"s","namespace":"default"}}'


def test_load_balancer_is_not_changed_while_a_hung_call_may_still_create_it() -> None:
    workers = Workers()
    hangs = workers.begun(EnsureLoadBalancer("kcm", SERVICE, b"[]"))
    workers.wait(120.0)
    look = workers.add(GetLoadBalancer("kcm", SERVICE))
    assert workers.pool.begin(look) is None
    assert workers.outcomes[-1] == (120.0, Refused("EnsureLoadBalancer default/s has not returned yet"))
    workers.begun(GetLoadBalancer("kcm", SERVICE.replace(b'"s"', b'"t"')))
    workers.pool.finish(hangs, DONE)
    workers.begun(GetLoadBalancer("kcm", SERVICE))


def test_worker_of_a_hung_call_ends_when_there_are_enough_others() -> None:
    workers = Workers(workers=1)
    hung = workers.begun()
    workers.wait(120.0)
    workers.begun()
    assert workers.started == 2
    assert not workers.pool.finish(hung, DONE)
    workers.add()
    assert workers.started == 2, "one worker is left, and at work"


def test_workers_of_hung_calls_are_limited() -> None:
    workers = Workers(workers=2, most=3, wait=30.0)
    for _ in range(3):
        workers.begun()
        workers.wait(120.0)
    assert (workers.started, len(workers.pool.hung())) == (3, 3)
    workers.outcomes.clear()
    route = encode_route(Route(destination="10.0.0.0/24", node="n7"))
    workers.add(CreateRoute("c", "hint", route))
    assert workers.started == 3
    workers.wait(30.0)
    assert [outcome for _, outcome in workers.outcomes] == [
        Refused("no worker was free for 30 s, in which 3 calls hang")
    ]


@pytest.mark.parametrize("seconds", [0.0, 60.0, 500.0])
def test_a_settled_call_has_no_alarm(seconds: float) -> None:
    workers = Workers()
    number = workers.begun()
    workers.wait(seconds)
    workers.pool.finish(number, DONE)
    assert workers.clock.next_alarm() is None
    assert len(workers.outcomes) == 1
