"""Cloud calls in the dispatcher: permission, rate limits, and incarnations."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.dispatcher import Dispatcher, DispatchLimits
from kcm.actors.engine.dispatcher.requests import request_for
from kcm.protocols.messages.cloud import InstanceExists, ListRoutes
from kcm.protocols.messages.commands import Command, Get, Submit
from kcm.protocols.messages.lifecycle import Attach, Attached, LeaseHeld, LeaseLost
from kcm.protocols.messages.outcomes import Done, Outcome, Refused, Settled
from kcm.runtime.calls.pool import NOT_HELD
from kcm.runtime.cloud.fake import FakeCloud
from kcm.runtime.simulation.calls import SimulatedCalls
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.system.ledger import Ledger
from tests.support.scripted import Probe, ScriptedTransport

EXISTS = InstanceExists(b'{"metadata":{"name":"n1"}}')


class DispatcherRig:
    """Dispatcher with a cloud whose calls take ten seconds, and a sender."""

    def __init__(self, log: FilteringBoundLogger, *, cloud: bool = True, **limits: Any) -> None:
        self.world = World(log=log)
        self.transport = ScriptedTransport()
        self.calls = SimulatedCalls(clock=self.world.clock, latency=10.0)
        self.system = self.world.system()
        self.kept: list[Any] = []
        self.system.spawn(ActorSpec(name="me", build=partial(Probe, kept=self.kept)))
        self.spec = ActorSpec(
            name="dispatcher",
            build=partial(
                Dispatcher,
                transport=self.transport,
                ledger=Ledger(),
                limits=DispatchLimits(**{"needs_lease": False, **limits}),
                calls=self.calls,
                cloud=FakeCloud() if cloud else None,
            ),
        )
        self.system.spawn(self.spec)

    def submit(self, *commands: Command, incarnation: int = 1) -> None:
        self.system.tell("dispatcher", Submit("me", incarnation, "c", incarnation, commands))
        self.world.run_for(0)

    def outcomes(self) -> dict[int, Outcome]:
        return {message.index: message.outcome for message in self.kept if isinstance(message, Settled)}


def test_calls_are_sent_to_the_cloud_and_commands_to_the_server(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log)
    rig.submit(EXISTS, Get("v1/nodes", "n1"), ListRoutes("c"))
    assert [call for _, call in rig.calls.made] == [EXISTS, ListRoutes("c")]
    rig.transport.answer(200, b"{}")
    rig.world.run_for(0)
    assert rig.outcomes() == {1: Done(b"{}")}, "the server's answer waits for no cloud"
    rig.world.run_for(10.0)
    assert rig.outcomes() == {0: Done(b"true"), 1: Done(b"{}"), 2: Done(b"[]")}


def test_calls_do_not_count_towards_the_rate_limit(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log, qps=0.001, burst=1)
    rig.submit(EXISTS, EXISTS, Get("v1/nodes", "n1"))
    assert len(rig.calls.made) == 2
    assert len(rig.transport.sent) == 1


def test_calls_are_refused_without_the_lease(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log, needs_lease=True)
    rig.submit(EXISTS)
    assert rig.outcomes() == {0: Refused("the lease is not held")}
    rig.system.tell("dispatcher", LeaseHeld(100.0))
    rig.submit(EXISTS)
    assert len(rig.calls.made) == 1


def test_queued_call_does_not_begin_after_the_lease_is_lost(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log, needs_lease=True)
    rig.system.tell("dispatcher", LeaseHeld(100.0))
    rig.submit(*[EXISTS] * 17)
    assert len(rig.calls.made) == 16
    rig.system.tell("dispatcher", LeaseLost("it is given back"))
    rig.world.run_for(20.0)
    assert len(rig.calls.made) == 16
    assert rig.outcomes()[16] == Refused(NOT_HELD)


def test_without_a_cloud_a_call_is_refused(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log, cloud=False)
    rig.submit(EXISTS)
    assert rig.outcomes() == {0: Refused("there is no cloud provider")}


def test_old_incarnation_cannot_call_and_new_one_waits_for_its_calls(
    log: FilteringBoundLogger,
) -> None:
    rig = DispatcherRig(log)
    rig.submit(EXISTS)
    rig.system.tell("dispatcher", Attach("me", 2))
    rig.submit(EXISTS)
    assert len(rig.calls.made) == 1
    assert not any(isinstance(message, Attached) for message in rig.kept)
    rig.world.run_for(10.0)
    assert Attached(2, {}, []) in rig.kept


def test_call_started_before_a_dispatcher_failure_is_answered(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log)
    rig.submit(EXISTS)
    rig.system.spawn(rig.spec)
    rig.world.run_for(10.0)
    assert rig.outcomes() == {0: Done(b"true")}


def test_request_for_a_call_raises_type_error() -> None:
    with pytest.raises(TypeError, match="InstanceExists"):
        request_for(EXISTS)
