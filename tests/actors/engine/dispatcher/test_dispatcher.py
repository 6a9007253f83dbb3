"""The dispatcher: rate limits by client, permission to write, and delivery of every outcome."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.dispatcher import Dispatcher, DispatchLimits
from kcm.actors.reconciliation.actor_names import ELECTOR
from kcm.protocols.messages.commands import (
    Command,
    Create,
    Delete,
    Get,
    Patch,
    Submit,
    Update,
)
from kcm.protocols.messages.lifecycle import Attach, Attached, LeaseHeld, LeaseLost
from kcm.protocols.messages.outcomes import (
    Done,
    Invalid,
    NotFound,
    Outcome,
    Refused,
    Settled,
)
from kcm.runtime.scheduling.permits import Terms
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.system.ledger import Ledger
from tests.support.scripted import Probe, ScriptedTransport

POD = b'{"metadata":{"name":"a","resourceVersion":"41"}}'


class DispatcherRig:
    """Dispatcher, its server, and a sender."""

    def __init__(self, log: FilteringBoundLogger, limits: DispatchLimits, terms: Terms | None = None) -> None:
        self.world = World(log=log)
        self.transport, self.ledger = ScriptedTransport(), Ledger()
        self.system = self.world.system()
        self.kept: list[Any] = []
        for name in ("me", ELECTOR):
            self.system.spawn(ActorSpec(name=name, build=partial(Probe, kept=self.kept)))
        self.spec = ActorSpec(
            name="dispatcher",
            build=partial(
                Dispatcher,
                transport=self.transport,
                ledger=self.ledger,
                limits=limits,
                terms=terms if terms is not None else Terms(),
            ),
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


def rig_of(log: FilteringBoundLogger, **limits: Any) -> DispatcherRig:
    return DispatcherRig(log, DispatchLimits(**{"needs_lease": False, **limits}))


def test_outcome_of_a_batch_contains_the_index_of_its_command(log: FilteringBoundLogger) -> None:
    rig = rig_of(log)
    rig.submit(Get("v1/pods", "d/a"), Get("v1/pods", "d/b"))
    rig.transport.sent.reverse()
    rig.transport.answer(404)
    rig.transport.answer(200, POD)
    rig.world.run_for(0)
    assert [(m.ticket, m.index, type(m.outcome)) for m in rig.kept] == [(1, 1, NotFound), (1, 0, Done)]


@pytest.mark.parametrize(
    "command, why",
    [
        (Delete("v1/pods", "d/"), "the key 'd/' names no object of v1/pods"),
        (Get("v1/pods", ""), "the key '' names no object of v1/pods"),
        (Patch("pods", "d/a", b"{}"), "not a resource id: 'pods'; expected '[group/]version/plural'"),
    ],
)
def test_command_without_a_name_is_refused_and_others_are_sent(
    log: FilteringBoundLogger, command: Command, why: str
) -> None:
    rig = rig_of(log)
    rig.submit(command, Get("v1/pods", "d/a"))
    assert rig.outcomes() == [Invalid(f"not sent: {why}")]
    assert [request.path for request, _, _ in rig.transport.sent] == ["/api/v1/namespaces/d/pods/a"]
    assert rig.system.incarnation("dispatcher") == 1


def test_each_client_has_its_own_rate_limit(log: FilteringBoundLogger) -> None:
    rig = rig_of(log, qps=20.0, burst=30)
    rig.submit(*[Get("v1/pods", f"d/{i}") for i in range(100)], client="busy")
    assert len(rig.transport.sent) == 30
    rig.submit(Get("v1/pods", "d/x"), client="other")
    assert len(rig.transport.sent) == 31
    rig.world.run_for(1.0)
    assert len(rig.transport.sent) == 51
    rig.world.run_for(2.5)
    assert len(rig.transport.sent) == 101


def test_negative_rate_disables_the_limit(log: FilteringBoundLogger) -> None:
    rig = rig_of(log, qps=-1.0, burst=1)
    rig.submit(*[Get("v1/pods", f"d/{i}") for i in range(100)])
    assert len(rig.transport.sent) == 100


def test_an_old_incarnation_is_refused(log: FilteringBoundLogger) -> None:
    rig = rig_of(log)
    rig.system.tell("dispatcher", Attach("me", 2))
    rig.submit(Get("v1/pods", "d/a"), incarnation=1)
    rig.submit(Get("v1/pods", "d/a"), incarnation=2)
    assert [type(outcome) for outcome in rig.outcomes()] == [Refused]
    assert len(rig.transport.sent) == 1


def test_new_incarnation_is_attached_after_commands_in_flight_with_their_versions(
    log: FilteringBoundLogger,
) -> None:
    rig = rig_of(log)
    rig.submit(Create("v1/pods", "d", b"{}"), Create("v1/pods", "d", b"{}"))
    rig.transport.answer(201, POD)
    rig.system.tell("dispatcher", Attach("me", 2))
    rig.world.run_for(0)
    assert not any(isinstance(message, Attached) for message in rig.kept)
    rig.transport.answer(500)
    rig.world.run_for(0)
    assert rig.kept[-1] == Attached(2, {"v1/pods": 41}, [])


def test_new_incarnation_receives_versions_that_the_old_one_only_read(log: FilteringBoundLogger) -> None:
    # The old incarnation may have decided by this version, and tables may not contain it yet.
    rig = rig_of(log)
    rig.submit(Get("v1/pods", "d/a"))
    rig.transport.answer(200, POD)
    rig.system.tell("dispatcher", Attach("me", 2))
    rig.world.run_for(0)
    assert rig.kept[-1] == Attached(2, {"v1/pods": 41}, [])


def test_new_incarnation_receives_the_version_of_the_last_deletion(log: FilteringBoundLogger) -> None:
    # While the table still contains the deleted pod, the controller would delete another one instead.
    rig = rig_of(log)
    rig.submit(Delete("v1/pods", "d/a"))
    rig.transport.answer(200, POD)
    rig.system.tell("dispatcher", Attach("me", 2))
    rig.world.run_for(0)
    assert rig.kept[-1] == Attached(2, {"v1/pods": 41}, [])


def test_command_sent_before_a_dispatcher_failure_is_answered(log: FilteringBoundLogger) -> None:
    rig = rig_of(log, qps=1.0, burst=1)
    rig.submit(Get("v1/pods", "d/sent"), Get("v1/pods", "d/waits"))
    rig.system.spawn(rig.spec)
    rig.system.tell("dispatcher", Attach("me", 1))
    rig.world.run_for(0)
    assert rig.kept[-1] == Attached(1, {}, [[1, 0]]), "the second was never sent, and the sender is told so"
    rig.transport.answer(200, POD)
    assert [type(outcome) for outcome in rig.outcomes()] == [Done]


def test_only_the_elector_writes_without_the_lease(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log, DispatchLimits(needs_lease=True))
    rig.submit(Get("v1/pods", "d/a"))
    assert [type(outcome) for outcome in rig.outcomes()] == [Refused]
    rig.submit(Get("v1/pods", "d/a"), sender=ELECTOR)
    assert len(rig.transport.sent) == 1
    rig.system.tell("dispatcher", LeaseHeld(rig.world.clock.monotonic() + 10.0))
    rig.submit(Get("v1/pods", "d/a"))
    assert len(rig.transport.sent) == 2
    rig.world.run_for(10.0)
    rig.submit(Get("v1/pods", "d/a"))
    assert len(rig.transport.sent) == 2, "an elector that hangs lets the lease run out"


def test_requests_expire_with_the_lease(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log, DispatchLimits(needs_lease=True, timeout=30.0))
    rig.system.tell("dispatcher", LeaseHeld(rig.world.clock.monotonic() + 10.0))
    rig.world.run_for(4.0)
    rig.submit(Get("v1/pods", "d/a"))
    assert rig.transport.sent[0][0].permit.until == pytest.approx(10.0)


def test_permits_end_when_the_lease_is_lost_or_released(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log, DispatchLimits(needs_lease=True))
    rig.system.tell("dispatcher", LeaseHeld(10.0))
    rig.world.run_for(9.9)
    rig.submit(Get("v1/pods", "d/a"))
    rig.submit(Get("v1/pods", "d/lease"), sender=ELECTOR)
    sent, elector = (request.permit for request, _, _ in rig.transport.sent)
    assert sent.until == 10.0, "however little is left"
    rig.system.tell("dispatcher", LeaseLost("it is given back"))
    rig.world.run_for(0)
    now = rig.world.clock.monotonic()
    assert (sent.is_over(now), elector.is_over(now)) == (True, False)


def test_the_lease_outlives_a_dispatcher_that_fails(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log, DispatchLimits(needs_lease=True), terms=Terms())
    rig.system.tell("dispatcher", LeaseHeld(10.0))
    rig.submit(Get("v1/pods", "d/a"))
    rig.system.spawn(rig.spec)
    rig.submit(Get("v1/pods", "d/b"))
    assert len(rig.transport.sent) == 2
    rig.system.tell("dispatcher", LeaseLost("test"))
    rig.world.run_for(0)
    assert all(request.permit.is_over(0.0) for request, _, _ in rig.transport.sent), "also what the first one sent"


def test_a_lost_lease_refuses_what_waits(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log, DispatchLimits(needs_lease=True, qps=0.001, burst=1))
    rig.system.tell("dispatcher", LeaseHeld(1000.0))
    rig.submit(Get("v1/pods", "d/a"), Get("v1/pods", "d/b"))
    rig.system.tell("dispatcher", LeaseLost("test"))
    assert [type(outcome) for outcome in rig.outcomes()] == [Refused]


def test_permits_of_a_lost_term_stay_invalid_in_the_next_term(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log, DispatchLimits(needs_lease=True))
    rig.system.tell("dispatcher", LeaseHeld(10.0))
    rig.submit(Delete("v1/pods", "d/a"))
    rig.system.tell("dispatcher", LeaseLost("test"))
    rig.system.tell("dispatcher", LeaseHeld(20.0))
    rig.submit(Delete("v1/pods", "d/b"))
    now = rig.world.clock.monotonic()
    assert [request.permit.is_over(now) for request, _, _ in rig.transport.sent] == [True, False]


def test_writes_in_flight_are_reported_when_the_lease_is_lost(log: FilteringBoundLogger, logs: LogCapture) -> None:
    rig = DispatcherRig(log, DispatchLimits(needs_lease=True))
    rig.system.tell("dispatcher", LeaseHeld(10.0))
    rig.submit(Get("v1/pods", "d/read"), Delete("v1/pods", "d/written"))
    rig.submit(Update("v1/pods", "d/lease", POD), sender=ELECTOR)
    rig.system.tell("dispatcher", LeaseLost("test"))
    rig.world.run_for(0)
    reported = [line for line in logs.entries if "outcome of writes is unknown" in line["event"]]
    assert [(line["count"], line["writes"]) for line in reported] == [(1, ["delete pods d/written (me)"])]


# Ended and resumed actors.


def test_commands_of_a_disabled_sender_are_refused(log: FilteringBoundLogger) -> None:
    rig = rig_of(log, qps=1.0, burst=1)
    rig.submit(*[Delete("v1/pods", f"d/{i}") for i in range(5)])
    rig.system.fence("me")
    rig.world.run_for(30.0)
    assert len(rig.transport.sent) == 1, "the one that was on its way"


def test_queued_commands_are_reported_as_in_flight(log: FilteringBoundLogger) -> None:
    rig = rig_of(log, qps=1.0, burst=1)
    rig.system.spawn(rig.spec)
    rig.submit(Get("v1/pods", "d/sent"), Get("v1/pods", "d/waits"))  # before the sender receives Attached
    rig.system.tell("dispatcher", Attach("me", 1))
    rig.world.run_for(0)
    attached = rig.kept[-1]
    assert isinstance(attached, Attached)
    assert sorted(attached.under_way) == [[1, 0], [1, 1]]


def test_hung_dispatcher_that_resumes_sends_nothing(log: FilteringBoundLogger) -> None:
    rig = rig_of(log)
    send = rig.transport.send

    def hangs(*arguments: Any, **more: Any) -> None:
        send(*arguments, **more)
        rig.system.fence("dispatcher")  # the sender is replaced meanwhile

    rig.transport.send = hangs  # type: ignore[method-assign]
    rig.submit(Delete("v1/pods", "d/a"), Delete("v1/pods", "d/b"))
    assert len(rig.transport.sent) == 1
    assert rig.ledger.under_way() == 1


def test_the_electors_requests_end_in_time_for_another_try(log: FilteringBoundLogger) -> None:
    rig = DispatcherRig(log, DispatchLimits(needs_lease=True, timeout=30.0, lease_timeout=5.0))
    rig.submit(Get("v1/pods", "d/a"), sender=ELECTOR)
    assert rig.transport.sent[0][0].permit.until == rig.world.clock.monotonic() + 5.0


@pytest.mark.parametrize("alien", ["99999", "9" * 30, "9" * 4301])
def test_only_the_version_in_the_objects_metadata_counts_as_written(log: FilteringBoundLogger, alien: str) -> None:
    # An annotation of this name in a template once prevented the start of a restarted controller forever.
    rig = rig_of(log)
    rig.submit(Create("v1/pods", "d", b"{}"))
    meta = {"annotations": {"resourceVersion": alien}, "name": "a", "resourceVersion": "41"}
    rig.transport.answer(201, {"spec": {"resourceVersion": alien}, "metadata": meta})
    rig.system.tell("dispatcher", Attach("me", 2))
    rig.world.run_for(0)
    assert rig.kept[-1] == Attached(2, {"v1/pods": 41}, [])
