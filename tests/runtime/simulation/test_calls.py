"""Calls on virtual time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kcm.protocols.messages.cloud import InstanceExists
from kcm.protocols.messages.outcomes import Done, Outcome, Refused, Unknown
from kcm.runtime.cloud.calls import prepare_cloud_call
from kcm.runtime.cloud.fake import FakeCloud
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.simulation.calls import SimulatedCalls
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.world import World

EXISTS = InstanceExists(b'{"metadata":{"name":"n1","uid":"u1"}}')
CALL = prepare_cloud_call(FakeCloud(), EXISTS)


def run_until(clock: VirtualClock, when: float) -> None:
    while (alarm := clock.next_alarm()) is not None and alarm <= when:
        clock.advance_to(alarm)
        while clock.run_due():
            pass
    clock.advance_to(when)


def test_call_takes_its_latency_and_is_traced() -> None:
    clock, outcomes = VirtualClock(), list[Outcome]()
    calls = SimulatedCalls(clock=clock, latency=2.0)
    calls.send(CALL, outcomes.append)
    run_until(clock, 1.9)
    assert outcomes == []
    run_until(clock, 2.0)
    assert outcomes == [Done(b"true")]
    assert calls.made == [(0.0, EXISTS)]


def test_the_faults_of_a_plan_strike_the_calls_of_their_process() -> None:
    clock = VirtualClock()
    calls = SimulatedCalls(clock=clock)
    calls.injector = Injector(parse_faults("call-lost process=manager"), seed=1, clock=clock)
    lost, done = list[Outcome](), list[Outcome]()
    calls.of_process("manager").send(CALL, lost.append)
    calls.of_process("manager-2").send(CALL, done.append)
    run_until(clock, 600.0)
    assert done == [Done(b"true")]
    assert [type(outcome) for outcome in lost] == [Unknown]


def test_hung_call_keeps_its_thread_and_is_reported() -> None:
    clock = VirtualClock()
    calls = SimulatedCalls(clock=clock)
    calls.injector = Injector(parse_faults("call-hung seconds=0 most=16"), seed=1, clock=clock)
    outcomes, way = list[Outcome](), calls.of_process("manager")
    for _ in range(17):
        way.send(CALL, outcomes.append)
    run_until(clock, 29.0)
    assert (len(calls.made), outcomes) == (16, [])
    run_until(clock, 130.0)
    way.send(CALL, outcomes.append)
    run_until(clock, 131.0)
    assert [type(outcome) for outcome in outcomes] == [Refused, *[Unknown] * 16, Done]
    assert [call.what for call in way.hung()] == ["InstanceExists n1"] * 16


@pytest.mark.parametrize("gone", [False, True])
def test_hung_call_is_not_made_after_its_process_ended(*, gone: bool) -> None:
    """In an earlier version, the call changed a load balancer minutes later that the next manager had set up."""
    world, made = World(log=quiet_log()), list[str]()

    def run() -> Outcome:
        made.append("it")
        return Done(b"true")

    calls = SimulatedCalls(clock=world.clock)
    calls.injector = Injector(parse_faults("call-hung seconds=100"), seed=1, clock=world.clock)
    process = world.process("manager")
    calls.of_process("manager", process).send(replace(CALL, run=run), lambda _outcome: None)
    world.run_for(10.0)
    if gone:
        process.crash()
    world.run_for(200.0)
    assert made == ([] if gone else ["it"])
