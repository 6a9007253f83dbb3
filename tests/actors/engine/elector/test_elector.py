"""Leader election: one manager works, the other one is on standby; no manager writes without the lease."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.system import ControllerSystem
from kcm.actors.engine.elector import Candidacy, Election, Elector
from kcm.actors.engine.elector.lease import CLIENT, renewed
from kcm.actors.engine.vitals import ElectorVitals
from kcm.actors.reconciliation.actor_names import ELECTOR
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.commands import Create, Get, Submit, Update
from kcm.protocols.messages.lifecycle import Drain, Drained, LeaseHeld, LeaseLost
from kcm.protocols.messages.outcomes import Conflict, Done, Forbidden, NotFound, Outcome, Settled
from kcm.protocols.objects import Object, decode_object, encode_object
from kcm.protocols.resources import EVENTS, LEASES, PODS, REPLICASETS
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.metrics.families import LEADER_ELECTION_MASTER_STATUS, LEADER_ELECTION_SLOWPATH
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.system.vitals import Vitals
from tests.support.objects import replica_set
from tests.support.scripted import Probe

LEASE = "kube-system/kube-controller-manager"


def election(name: str, *, stand_by: bool = False) -> Election:
    return Election(identity=name, namespace="kube-system", name="kube-controller-manager", stand_by=stand_by)


def lease(cluster: SimulatedCluster) -> Object:
    found = cluster.get(LEASES, LEASE)
    assert found is not None
    spec: Object = found["spec"]
    return spec


def leads(cluster: SimulatedCluster, manager: ControllerSystem) -> bool:
    leading: bool = cluster.describe(manager, "controller-manager")["leading"]
    return leading


def crash(cluster: SimulatedCluster, manager: ControllerSystem) -> None:
    """End the whole process at once."""
    manager.halt()


@pytest.mark.parametrize(
    "timings",
    [
        {"lease_duration": 10.0, "renew_deadline": 10.0},
        {"renew_deadline": 2.0, "retry_period": 2.0},
        {"retry_period": 0.0},
        {"identity": ""},
        {"namespace": ""},
        {"name": ""},
    ],
)
def test_names_and_timings_that_cannot_work_are_refused(timings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Election(**{"identity": "a", "namespace": "d", "name": "lease", **timings})


def test_an_election_is_about_a_lease_that_is_named_and_never_another_programs_by_default() -> None:
    with pytest.raises(TypeError, match="argument 'namespace'"):
        Election(identity="a")  # type: ignore[call-arg]
    assert Election(identity="a", namespace="shop", name="shop-operator").component == "shop-operator"


def test_first_candidate_acquires_the_lease_and_announces_it(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    assert leads(cluster, manager)
    spec = lease(cluster)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("one", 15, 0)
    assert [e["message"] for e in cluster.list(EVENTS) if e["reason"] == "LeaderElection"] == ["one became leader"]


def test_lease_is_renewed_every_two_seconds_with_unchanged_acquire_time(cluster: SimulatedCluster) -> None:
    cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    before = lease(cluster)
    cluster.run_for(60.0)
    after = lease(cluster)
    assert after["acquireTime"] == before["acquireTime"]
    assert after["renewTime"] > before["renewTime"]
    puts = [r for _, client, r in cluster.transport.requests if client == "leader-election" and r.method == "PUT"]
    assert 28 <= len(puts) <= 32


def test_standby_has_synced_tables_and_writes_nothing(cluster: SimulatedCluster) -> None:
    cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    second = cluster.manager(election=election("two"))
    cluster.create(REPLICASETS, replica_set(replicas=3))
    cluster.run_for(60.0)
    assert not leads(cluster, second)
    assert second.synced
    assert len(second.tables[PODS.id]) == 3
    assert len(cluster.list(PODS, "default")) == 3


def test_lease_of_an_ended_process_is_acquired_at_once(cluster: SimulatedCluster) -> None:
    first = cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    crash(cluster, first)
    second = cluster.manager(
        election=Election(
            identity="two", namespace="kube-system", name="kube-controller-manager", ended=frozenset({"zero", "one"})
        )
    )
    cluster.run_for(1.0)
    assert leads(cluster, second)
    assert lease(cluster)["leaseTransitions"] == 1


def test_the_lease_of_anybody_else_is_waited_for(cluster: SimulatedCluster) -> None:
    cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    second = cluster.manager(
        election=Election(
            identity="two", namespace="kube-system", name="kube-controller-manager", ended=frozenset({"zero"})
        )
    )
    cluster.run_for(60.0)
    assert not leads(cluster, second)
    vitals = second.vitals.of(ELECTOR, ElectorVitals)
    assert vitals is not None
    assert vitals.holder == "one"
    assert 10.0 < vitals.free_at - cluster.world.clock.monotonic() <= 15.0


def test_standby_takes_over_once_the_lease_of_a_dead_leader_expires(cluster: SimulatedCluster) -> None:
    first = cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    second = cluster.manager(election=election("two"))
    cluster.run_for(5.0)
    crash(cluster, first)
    cluster.create(REPLICASETS, replica_set(replicas=3))
    cluster.run_for(12.0)
    assert not leads(cluster, second), "the lease is still the other's"
    lists_before = len(cluster.transport.requests)
    assert cluster.run_until(lambda: len(cluster.list(PODS, "default")) == 3, within=10.0)
    assert lease(cluster)["leaseTransitions"] == 1
    later = cluster.transport.requests[lists_before:]
    assert not any(r.method == "GET" and r.path.endswith(("pods", "replicasets")) for _, _, r in later), "no relist"


def test_drained_leader_releases_the_lease_and_the_next_acquires_it_at_once(cluster: SimulatedCluster) -> None:
    first = cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    second = cluster.manager(election=election("two"))
    cluster.run_for(5.0)
    assert cluster.stop(first)
    assert first.end == "drained"
    assert lease(cluster)["holderIdentity"] in ("", "two")
    cluster.run_for(5.0)
    assert leads(cluster, second)


def test_a_leader_that_cannot_renew_stops_before_the_lease_can_be_anothers(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    found = cluster.get(LEASES, LEASE)
    assert found is not None
    at = cluster.clock.monotonic()
    cluster.merge(LEASES, LEASE, {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}})
    assert cluster.run_until(lambda: manager.end is not None, within=60.0)
    assert manager.end is not None
    assert "leaderelection lost" in manager.end
    assert cluster.clock.monotonic() - at <= 12.0
    cluster.create(REPLICASETS, replica_set(replicas=3))
    cluster.run_for(30.0)
    assert cluster.list(PODS, "default") == [], "a deposed leader writes nothing"


def test_lease_without_holder_is_acquired_at_once(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    crash(cluster, manager)
    cluster.merge(LEASES, LEASE, {"spec": {"holderIdentity": ""}})
    second = cluster.manager(election=election("two"))
    cluster.run_for(1.0)
    assert leads(cluster, second)


def test_log_contains_the_attempt_and_the_holder(cluster: SimulatedCluster, logs: LogCapture) -> None:
    first = cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    crash(cluster, first)
    cluster.merge(LEASES, LEASE, {"spec": {"holderIdentity": ""}})
    cluster.manager(election=election("two"))
    cluster.run_for(1.0)
    logged = [(line["event"], line.get("identity")) for line in logs.entries if line.get("lock") == LEASE]
    attempt = ("Attempting to acquire leader lease...", None)
    assert [line for line in logged if line == attempt or line[0] == "new leader elected"] == [
        attempt,
        ("new leader elected", "one"),
        attempt,
        ("new leader elected", "two"),
    ]


def test_lease_expiry_is_measured_by_the_local_clock(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    crash(cluster, manager)
    cluster.merge(LEASES, LEASE, {"spec": {"renewTime": "2001-01-01T00:00:00.000000Z"}})
    second = cluster.manager(election=election("two"))
    cluster.run_for(14.0)
    assert not leads(cluster, second)
    cluster.run_for(6.0)
    assert leads(cluster, second)


# The elector alone: rare cases in a cluster.


class Alone:
    """Elector under test; the test plays the dispatcher, the manager and the server."""

    def __init__(self, log: FilteringBoundLogger, candidacy: Candidacy | None = None) -> None:
        self.world = World(log=log)
        self.system = self.world.system()
        self.kept: dict[str, list[Any]] = {name: [] for name in ("dispatcher", "controller-manager", "event-recorder")}
        for name, kept in self.kept.items():
            self.system.spawn(ActorSpec(name=name, build=partial(Probe, kept=kept)))
        self.vitals = Vitals()
        metrics = Metrics()
        arguments = {
            "election": replace(election("one"), candidacy=candidacy),
            "audience": ("dispatcher", "controller-manager"),
            "vitals": self.vitals,
            "status": metrics.gauge(LEADER_ELECTION_MASTER_STATUS, "lease"),
            "slow": metrics.counter(LEADER_ELECTION_SLOWPATH, "lease"),
            "seed": 1,
        }
        self.system.spawn(ActorSpec(name="elector", build=partial(Elector, **arguments)))
        self.world.run_for(0)

    @property
    def asked(self) -> list[Submit]:
        return [message for message in self.kept["dispatcher"] if isinstance(message, Submit)]

    def received(self, name: str, kind: type[Any]) -> list[Any]:
        return [message for message in self.kept[name] if isinstance(message, kind)]

    def answer(self, outcome: Outcome) -> None:
        self.system.tell("elector", Settled(self.asked[-1].ticket, 0, outcome))
        self.world.run_for(0)

    def grant(self) -> None:
        """Let the latest request succeed: the server returns the object that was sent."""
        command = self.asked[-1].commands[0]
        if isinstance(command, Get):
            self.answer(NotFound("not there"))
            command = self.asked[-1].commands[0]
        assert isinstance(command, (Create, Update))
        self.answer(Done(command.body))

    def tell(self, message: Any) -> None:
        self.system.tell("elector", message)
        self.world.run_for(0)


def test_lost_lease_is_not_acquired_again(log: FilteringBoundLogger) -> None:
    alone = Alone(log)
    alone.grant()
    alone.world.run_for(2.0)  # a renewal is in flight, without a response
    assert alone.world.clock.monotonic() == 2.0
    pending = alone.asked[-1]
    alone.world.run_for(20.0)
    assert alone.received("controller-manager", LeaseLost)
    held = len(alone.received("dispatcher", LeaseHeld))
    alone.system.tell("elector", Settled(pending.ticket, 0, Done(pending.commands[0].body)))  # type: ignore[union-attr]
    alone.world.run_for(60.0)
    assert len(alone.received("dispatcher", LeaseHeld)) == held


def test_loss_of_the_lease_is_announced_repeatedly(log: FilteringBoundLogger) -> None:
    alone = Alone(log)
    alone.grant()
    alone.world.run_for(12.0)
    received = len(alone.received("controller-manager", LeaseLost))
    alone.world.run_for(10.0)  # a manager that failed meanwhile has a new incarnation
    assert len(alone.received("controller-manager", LeaseLost)) > received > 0


def test_a_try_that_is_never_answered_is_given_up(log: FilteringBoundLogger) -> None:
    alone = Alone(log)
    first = len(alone.asked)
    alone.world.run_for(20.0)
    assert len(alone.asked) > first
    alone.grant()
    assert alone.received("controller-manager", LeaseHeld)


REFUSED = Forbidden('leases.coordination.k8s.io "kube-controller-manager" is forbidden: User "jane" cannot …')
ANOTHERS = {
    "metadata": {"name": "kube-controller-manager", "resourceVersion": "1"},
    "spec": {"holderIdentity": "two", "leaseDurationSeconds": 15, "renewTime": "2001-01-01T00:00:00.000000Z"},
}


@pytest.mark.parametrize(
    ("answers", "event", "verb"),
    [
        ([REFUSED], "Error retrieving lease lock", "get"),
        ([NotFound(), REFUSED], "Error initially creating lease lock", "create"),
        ([Done(encode_object({**ANOTHERS, "spec": {}})), REFUSED], "Failed to update lease", "update"),
    ],
)
def test_each_failed_try_is_logged_and_reported_with_verb_and_resource(
    log: FilteringBoundLogger, logs: LogCapture, answers: list[Outcome], event: str, verb: str
) -> None:
    alone = Alone(log)
    for _ in range(3):
        for outcome in answers:
            alone.answer(outcome)
        alone.world.run_for(5.0)
    errors = [line for line in logs.entries if line["log_level"] == "error"]
    assert [(line["event"], line["lock"], line["error"]) for line in errors] == [(event, LEASE, REFUSED.message)] * 3
    vitals = alone.vitals.of(ELECTOR, ElectorVitals)
    assert vitals is not None
    assert vitals.failure == f"cannot {verb} leases.coordination.k8s.io {LEASE}: {REFUSED.message}"
    assert vitals.failing_since == 0.0


def test_failure_is_cleared_if_another_process_holds_the_lease(log: FilteringBoundLogger) -> None:
    alone = Alone(log)
    alone.answer(REFUSED)
    alone.world.run_for(5.0)
    alone.answer(Done(encode_object(ANOTHERS)))
    vitals = alone.vitals.of(ELECTOR, ElectorVitals)
    assert vitals is not None
    assert (vitals.failure, vitals.holder, vitals.leading) == ("", "two", False)


def test_failure_ends_when_the_lease_is_acquired(log: FilteringBoundLogger) -> None:
    alone = Alone(log)
    alone.answer(REFUSED)
    alone.world.run_for(5.0)
    alone.grant()
    vitals = alone.vitals.of(ELECTOR, ElectorVitals)
    assert vitals is not None
    assert (vitals.failure, vitals.leading) == ("", True)


def test_renewal_that_fails_is_logged_and_read_again(log: FilteringBoundLogger, logs: LogCapture) -> None:
    alone = Alone(log)
    alone.grant()
    alone.world.run_for(2.0)
    alone.answer(Conflict("the object has been modified"))
    assert isinstance(alone.asked[-1].commands[0], Get)
    (line,) = [line for line in logs.entries if line["event"].startswith("Failed to update lease")]
    assert line["event"] == "Failed to update lease optimistically, falling back to slow path"
    assert line["error"] == "the object has been modified"


def test_try_without_a_response_counts_as_failed(log: FilteringBoundLogger) -> None:
    alone = Alone(log)
    alone.world.run_for(20.0)
    vitals = alone.vitals.of(ELECTOR, ElectorVitals)
    assert vitals is not None
    assert vitals.failure == f"cannot get leases.coordination.k8s.io {LEASE}: no response"


def test_malformed_lease_fails_the_attempt(log: FilteringBoundLogger) -> None:
    alone = Alone(log)
    for body in (b"<html>a proxy</html>", b"[]", b'{"spec": 7}', b'{"spec": {"leaseTransitions": "many"}}'):
        alone.answer(Done(body))
        assert alone.system.is_alive("elector"), body
        alone.world.run_for(5.0)
    alone.grant()
    assert alone.received("controller-manager", LeaseHeld)


def test_transitions_that_are_null_count_as_none(log: FilteringBoundLogger) -> None:
    assert renewed({"leaseTransitions": None, "holderIdentity": ""}, election("one"), now=0.0)["leaseTransitions"] == 1


def test_dispatcher_stops_writing_before_the_lease_is_released(log: FilteringBoundLogger) -> None:
    alone = Alone(log)
    alone.grant()
    alone.tell(Drain())
    kinds = [type(message) for message in alone.kept["dispatcher"]]
    assert kinds[-2:] == [LeaseLost, Submit]
    assert alone.received("controller-manager", LeaseLost) == [], "it is not lost, but given back"
    assert alone.received("controller-manager", Drained) == []
    alone.tell(Drain())
    assert alone.received("controller-manager", Drained) == [], "asked twice it still waits for the answer"
    alone.grant()
    assert len(alone.received("controller-manager", Drained)) == 1


def test_lease_is_released_after_the_renewal_in_flight(log: FilteringBoundLogger) -> None:
    alone = Alone(log)
    alone.grant()
    alone.world.run_for(2.0)
    asked = len(alone.asked)
    alone.tell(Drain())
    assert len(alone.asked) == asked
    alone.grant()  # the renewal, which changed the resourceVersion that the release needs
    released = alone.asked[-1].commands[0]
    assert isinstance(released, Update)
    assert decode_object(released.body)["spec"]["holderIdentity"] == ""
    alone.grant()
    assert len(alone.received("controller-manager", Drained)) == 1


@pytest.mark.parametrize("seconds", [12.0, 3600.0])
def test_leader_continues_after_a_suspension_if_no_other_acquired_the_lease(
    cluster: SimulatedCluster, seconds: float
) -> None:
    manager = cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    cluster.create(REPLICASETS, replica_set(replicas=40))
    cluster.run_for(0.2)
    began = cluster.clock.monotonic()
    cluster.world.pause(cluster.processes["manager"].process, seconds)
    cluster.run_for(seconds + 5.0)
    sent = [(client, request) for when, client, request in cluster.transport.requests if when > began]
    writes = [client for client, request in sent if request.method != "GET"]
    assert writes[0] == CLIENT, "the lease is renewed before anything else is written"
    assert (manager.end, leads(cluster, manager)) == (None, True)
    assert lease(cluster)["leaseTransitions"] == 0
    assert len(cluster.list(PODS, "default")) == 40


def test_a_machine_that_was_suspended_gives_up_if_another_took_the_lease(cluster: SimulatedCluster) -> None:
    first = cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    cluster.manager(election=election("two"))
    cluster.run_for(3.0)
    cluster.world.pause(cluster.processes["manager"].process, 60.0)
    cluster.run_for(60.0 + 0.5)
    assert first.end == "leaderelection lost: the lease is held by two"
    assert lease(cluster)["holderIdentity"] == "two"


def test_standby_takes_over_within_two_seconds_of_a_release(cluster: SimulatedCluster) -> None:
    first = cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    second = cluster.manager(election=election("two"))
    cluster.run_for(5.3)
    assert cluster.stop(first)
    assert cluster.run_until(lambda: leads(cluster, second), within=2.0)


def test_standby_takes_over_within_two_seconds_of_the_expiry(cluster: SimulatedCluster) -> None:
    first = cluster.manager(election=election("one"))
    cluster.run_for(3.0)
    second = cluster.manager(election=election("two"))
    cluster.run_for(5.3)
    crash(cluster, first)
    assert cluster.run_until(lambda: leads(cluster, second), within=15.0 + 2.0)


# After a loss, with --leader-elect-on-loss=standby.


def test_deposed_leader_stands_by_and_leads_again(cluster: SimulatedCluster, logs: LogCapture) -> None:
    first = cluster.manager(election=election("one", stand_by=True))
    cluster.run_for(3.0)
    second = cluster.manager(election=election("two"))
    cluster.run_for(3.0)
    cluster.world.pause(cluster.processes["manager"].process, 60.0)
    cluster.run_for(62.0)
    assert lease(cluster)["holderIdentity"] == "two"
    assert (first.end, leads(cluster, first)) == (None, False)
    children = cluster.describe(first, "controller-manager")["children"]
    assert not [name for name in children if name.startswith("controller:")]
    assert first.synced
    cluster.create(REPLICASETS, replica_set(replicas=3))
    cluster.run_for(5.0)
    assert len(cluster.list(PODS, "default")) == 3
    crash(cluster, second)
    assert cluster.run_until(lambda: leads(cluster, first), within=17.0)
    cluster.merge(REPLICASETS, "default/web", {"spec": {"replicas": 5}})
    assert cluster.run_until(lambda: len(cluster.list(PODS, "default")) == 5, within=10.0)
    lost = [line for line in logs.entries if line["event"] == "leaderelection lost, standing by again"]
    assert [line["error"] for line in lost] == ["the lease is held by two"]


def test_leader_that_could_not_renew_leads_again_in_a_new_term(log: FilteringBoundLogger) -> None:
    cut = Fault(kind=FaultKind.PARTITION, start=10.0, until=40.0, process="manager")
    cluster = SimulatedCluster(log=log, faults=[cut])
    manager = cluster.manager(election=election("one", stand_by=True))
    cluster.run_for(3.0)
    cluster.create(REPLICASETS, replica_set(replicas=2))
    cluster.run_for(3.0)
    before = manager.actors.incarnation("controller:replicaset-controller")
    cluster.run_for(20.0)
    assert (manager.end, leads(cluster, manager)) == (None, False)
    cluster.run_for(25.0)
    assert leads(cluster, manager)
    assert manager.actors.incarnation("controller:replicaset-controller") == before + 1
    cluster.merge(REPLICASETS, "default/web", {"spec": {"replicas": 4}})
    assert cluster.run_until(lambda: len(cluster.list(PODS, "default")) == 4, within=10.0)


# Coordinated leader election: the API server writes the holder into the Lease.

CANDIDACY = Candidacy(binary_version="1.36.2", emulation_version="1.36.0")


def elected(holder: str, **more: Any) -> Done:
    """Return the response to a GET of a Lease that the API server has written."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 5, "strategy": "OldestEmulationVersion", **more}
    return Done(encode_object({"metadata": {"namespace": "kube-system", "name": "lease"}, "spec": spec}))


def test_candidate_waits_until_the_lease_names_it(log: FilteringBoundLogger, logs: LogCapture) -> None:
    alone = Alone(log, CANDIDACY)
    for _ in range(3):
        alone.answer(NotFound("not there"))
        alone.world.run_for(1.0)
    assert {type(submit.commands[0]) for submit in alone.asked} == {Get}, "it neither creates nor updates the Lease"
    assert [line["event"] for line in logs.entries].count("Lease lock not found") == 1
    vitals = alone.vitals.of("elector", ElectorVitals)
    assert vitals is not None
    assert "only the API server creates it" in vitals.failure
    alone.answer(elected("two"))
    alone.world.run_for(1.0)
    assert isinstance(alone.asked[-1].commands[0], Get)
    alone.answer(elected("one"))
    update = alone.asked[-1].commands[0]
    assert isinstance(update, Update)
    spec = decode_object(update.body)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("one", 15)
    assert spec["strategy"] == "OldestEmulationVersion"
    assert alone.received("controller-manager", LeaseHeld) == []
    alone.grant()
    assert len(alone.received("controller-manager", LeaseHeld)) == 1


def test_free_lease_is_left_to_the_api_server(log: FilteringBoundLogger) -> None:
    alone = Alone(log, CANDIDACY)
    alone.answer(elected(""))
    alone.world.run_for(20.0)
    assert {type(submit.commands[0]) for submit in alone.asked} == {Get}


def test_term_ends_when_the_api_server_prefers_another_candidate(log: FilteringBoundLogger) -> None:
    alone = Alone(log, CANDIDACY)
    alone.answer(elected("one"))
    alone.grant()
    alone.world.run_for(2.0)
    assert isinstance(alone.asked[-1].commands[0], Get), "each renewal reads the Lease first"
    alone.answer(elected("one", preferredHolder="two"))
    (lost, *_) = alone.received("controller-manager", LeaseLost)
    assert lost.reason == "the API server ends the term in favour of two"
    assert isinstance(alone.asked[-1].commands[0], Get), "the Lease is not renewed"


def test_new_incarnation_does_not_renew_a_lease_at_the_end_of_its_term(log: FilteringBoundLogger) -> None:
    alone = Alone(log, CANDIDACY)
    alone.answer(elected("one", preferredHolder="two"))
    assert [type(submit.commands[0]) for submit in alone.asked] == [Get]


def test_expired_lease_is_not_renewed(log: FilteringBoundLogger) -> None:
    alone = Alone(log, CANDIDACY)
    alone.answer(elected("two"))
    alone.world.run_for(1.0)
    alone.answer(elected("one"))  # observed now for the first time
    assert isinstance(alone.asked[-1].commands[0], Update)
    alone.answer(Conflict("changed"))
    for _ in range(8):
        alone.world.run_for(1.0)
        alone.answer(Forbidden("not now"))
    alone.world.run_for(1.0)
    alone.answer(elected("one"))
    assert isinstance(alone.asked[-1].commands[0], Get)
