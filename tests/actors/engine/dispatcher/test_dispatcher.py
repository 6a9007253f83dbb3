"""The dispatcher: rate limits by client, who may write at all, and that no answer is lost."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from actors.engine.dispatcher import Dispatcher, DispatchLimits
from actors.reconciliation.actor_names import ELECTOR
from protocols.messages.commands import (
    Command,
    Create,
    Delete,
    Get,
    Patch,
    Submit,
)
from protocols.messages.lifecycle import Attach, Attached, LeaseHeld, LeaseLost
from protocols.messages.outcomes import (
    Done,
    Invalid,
    NotFound,
    Outcome,
    Refused,
    Settled,
)
from runtime.simulation.world import World
from runtime.system.actor_system import ActorSpec
from runtime.system.ledger import Ledger
from tests.support.scripted import Probe, ScriptedTransport

POD = b'{"metadata":{"name":"a","resourceVersion":"41"}}'


class Setting:
    """One dispatcher, the server's end, and a sender."""

    def __init__(self, log: FilteringBoundLogger, limits: DispatchLimits) -> None:
        self.world = World(log=log)
        self.transport, self.ledger = ScriptedTransport(), Ledger()
        self.system = self.world.system()
        self.kept: list[Any] = []
        for name in ("me", ELECTOR):
            self.system.spawn(ActorSpec(name=name, build=partial(Probe, kept=self.kept)))
        self.spec = ActorSpec(
            name="dispatcher", build=partial(Dispatcher, transport=self.transport, ledger=self.ledger, limits=limits)
        )
        self.system.spawn(self.spec)
        self.ticket = 0

    def submit(self, *commands: Command, sender: str = "me", incarnation: int = 1, client: str = "c") -> None:
        self.ticket += 1
        self.system.tell("dispatcher", Submit(sender, incarnation, client, self.ticket, commands))
        self.world.run_for(0)

    def outcomes(self) -> list[Outcome]:
        self.world.run_for(0)
        return [message.outcome for message in self.kept if isinstance(message, Settled)]


def setting_of(log: FilteringBoundLogger, **limits: Any) -> Setting:
    return Setting(log, DispatchLimits(**{"needs_lease": False, **limits}))


def test_each_command_of_a_batch_is_answered_by_its_index(log: FilteringBoundLogger) -> None:
    setting = setting_of(log)
    setting.submit(Get("v1/pods", "d/a"), Get("v1/pods", "d/b"))
    setting.transport.sent.reverse()
    setting.transport.answer(404)
    setting.transport.answer(200, POD)
    setting.world.run_for(0)
    assert [(m.ticket, m.index, type(m.outcome)) for m in setting.kept] == [(1, 1, NotFound), (1, 0, Done)]


@pytest.mark.parametrize(
    "command, why",
    [
        (Delete("v1/pods", "d/"), "the key 'd/' names no object of v1/pods"),
        (Get("v1/pods", ""), "the key '' names no object of v1/pods"),
        (Patch("pods", "d/a", b"{}"), "not a resource id: 'pods'; expected '[group/]version/plural'"),
        (Get("v1/pods", None), "'NoneType' object has no attribute 'rpartition'"),  # type: ignore[arg-type]
    ],
)
def test_what_says_not_what_it_is_about_is_not_sent_and_harms_nobody_else(
    log: FilteringBoundLogger, command: Command, why: str
) -> None:
    setting = setting_of(log)
    setting.submit(command, Get("v1/pods", "d/a"))
    assert setting.outcomes() == [Invalid(f"not sent: {why}")]
    assert [request.path for request, _, _ in setting.transport.sent] == ["/api/v1/namespaces/d/pods/a"]
    assert setting.system.incarnation("dispatcher") == 1


def test_each_client_has_a_rate_limit_of_its_own(log: FilteringBoundLogger) -> None:
    setting = setting_of(log, qps=20.0, burst=30)
    setting.submit(*[Get("v1/pods", f"d/{i}") for i in range(100)], client="busy")
    assert len(setting.transport.sent) == 30
    setting.submit(Get("v1/pods", "d/x"), client="other")
    assert len(setting.transport.sent) == 31
    setting.world.run_for(1.0)
    assert len(setting.transport.sent) == 51
    setting.world.run_for(2.5)
    assert len(setting.transport.sent) == 101


def test_a_negative_rate_is_no_limit(log: FilteringBoundLogger) -> None:
    setting = setting_of(log, qps=-1.0, burst=1)
    setting.submit(*[Get("v1/pods", f"d/{i}") for i in range(100)])
    assert len(setting.transport.sent) == 100


def test_an_old_incarnation_is_refused(log: FilteringBoundLogger) -> None:
    setting = setting_of(log)
    setting.system.tell("dispatcher", Attach("me", 2))
    setting.submit(Get("v1/pods", "d/a"), incarnation=1)
    setting.submit(Get("v1/pods", "d/a"), incarnation=2)
    assert [type(outcome) for outcome in setting.outcomes()] == [Refused]
    assert len(setting.transport.sent) == 1


def test_a_new_incarnation_waits_for_what_the_old_one_has_under_way_and_hears_how_far_it_came(
    log: FilteringBoundLogger,
) -> None:
    setting = setting_of(log)
    setting.submit(Create("v1/pods", "d", b"{}"), Create("v1/pods", "d", b"{}"))
    setting.transport.answer(201, POD)
    setting.system.tell("dispatcher", Attach("me", 2))
    setting.world.run_for(0)
    assert not any(isinstance(message, Attached) for message in setting.kept)
    setting.transport.answer(500)
    setting.world.run_for(0)
    assert setting.kept[-1] == Attached(2, {"v1/pods": 41}, [])


def test_a_new_incarnation_hears_of_what_the_old_one_has_only_looked_at(log: FilteringBoundLogger) -> None:
    """It may have gone by it, and no table need show it yet."""
    setting = setting_of(log)
    setting.submit(Get("v1/pods", "d/a"))
    setting.transport.answer(200, POD)
    setting.system.tell("dispatcher", Attach("me", 2))
    setting.world.run_for(0)
    assert setting.kept[-1] == Attached(2, {"v1/pods": 41}, [])


def test_a_new_incarnation_hears_of_what_the_old_one_has_deleted(log: FilteringBoundLogger) -> None:
    """While the table still shows it, another would be deleted instead."""
    setting = setting_of(log)
    setting.submit(Delete("v1/pods", "d/a"))
    setting.transport.answer(200, POD)
    setting.system.tell("dispatcher", Attach("me", 2))
    setting.world.run_for(0)
    assert setting.kept[-1] == Attached(2, {"v1/pods": 41}, [])


def test_what_was_sent_before_the_dispatcher_failed_is_answered_all_the_same(log: FilteringBoundLogger) -> None:
    setting = setting_of(log, qps=1.0, burst=1)
    setting.submit(Get("v1/pods", "d/sent"), Get("v1/pods", "d/waits"))
    setting.system.spawn(setting.spec)
    setting.system.tell("dispatcher", Attach("me", 1))
    setting.world.run_for(0)
    assert setting.kept[-1] == Attached(1, {}, [[1, 0]]), "the second was never sent, and the sender is told so"
    setting.transport.answer(200, POD)
    assert [type(outcome) for outcome in setting.outcomes()] == [Done]


def test_nothing_is_written_without_the_lease_but_by_the_elector(log: FilteringBoundLogger) -> None:
    setting = Setting(log, DispatchLimits(needs_lease=True))
    setting.submit(Get("v1/pods", "d/a"))
    assert [type(outcome) for outcome in setting.outcomes()] == [Refused]
    setting.submit(Get("v1/pods", "d/a"), sender=ELECTOR)
    assert len(setting.transport.sent) == 1
    setting.system.tell("dispatcher", LeaseHeld(setting.world.clock.monotonic() + 10.0))
    setting.submit(Get("v1/pods", "d/a"))
    assert len(setting.transport.sent) == 2
    setting.world.run_for(10.0)
    setting.submit(Get("v1/pods", "d/a"))
    assert len(setting.transport.sent) == 2, "an elector that hangs lets the lease run out"


def test_no_request_may_outlive_the_lease(log: FilteringBoundLogger) -> None:
    setting = Setting(log, DispatchLimits(needs_lease=True, timeout=30.0))
    setting.system.tell("dispatcher", LeaseHeld(setting.world.clock.monotonic() + 10.0))
    setting.world.run_for(4.0)
    setting.submit(Get("v1/pods", "d/a"))
    assert setting.transport.sent[0][0].timeout == pytest.approx(6.0)


def test_a_lost_lease_refuses_what_waits(log: FilteringBoundLogger) -> None:
    setting = Setting(log, DispatchLimits(needs_lease=True, qps=0.001, burst=1))
    setting.system.tell("dispatcher", LeaseHeld(1000.0))
    setting.submit(Get("v1/pods", "d/a"), Get("v1/pods", "d/b"))
    setting.system.tell("dispatcher", LeaseLost("test"))
    assert [type(outcome) for outcome in setting.outcomes()] == [Refused]


# Who is gone, and who comes to.


def test_what_a_switched_off_sender_asked_is_not_carried_out_any_more(log: FilteringBoundLogger) -> None:
    setting = setting_of(log, qps=1.0, burst=1)
    setting.submit(*[Delete("v1/pods", f"d/{i}") for i in range(5)])
    setting.system.fence("me")
    setting.world.run_for(30.0)
    assert len(setting.transport.sent) == 1, "the one that was on its way"


def test_what_waits_for_its_rate_limit_is_not_called_lost(log: FilteringBoundLogger) -> None:
    setting = setting_of(log, qps=1.0, burst=1)
    setting.system.spawn(setting.spec)
    setting.submit(Get("v1/pods", "d/sent"), Get("v1/pods", "d/waits"))  # before the sender knows of the new one
    setting.system.tell("dispatcher", Attach("me", 1))
    setting.world.run_for(0)
    attached = setting.kept[-1]
    assert isinstance(attached, Attached)
    assert sorted(attached.under_way) == [[1, 0], [1, 1]]


def test_a_dispatcher_that_was_hung_sends_nothing_more_when_it_comes_to(log: FilteringBoundLogger) -> None:
    setting = setting_of(log)
    send = setting.transport.send

    def hangs(*arguments: Any, **more: Any) -> None:
        send(*arguments, **more)
        setting.system.fence("dispatcher")  # meanwhile it is replaced

    setting.transport.send = hangs  # type: ignore[method-assign]
    setting.submit(Delete("v1/pods", "d/a"), Delete("v1/pods", "d/b"))
    assert len(setting.transport.sent) == 1
    assert setting.ledger.under_way() == 1


def test_the_electors_requests_end_in_time_for_another_try(log: FilteringBoundLogger) -> None:
    setting = Setting(log, DispatchLimits(needs_lease=True, timeout=30.0, lease_timeout=5.0))
    setting.submit(Get("v1/pods", "d/a"), sender=ELECTOR)
    assert setting.transport.sent[0][0].timeout == 5.0
