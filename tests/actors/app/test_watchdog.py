"""The watchdog ends a process that cannot work any more, so that its lease is taken over."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.watchdog import Watchdog
from kcm.actors.engine.elector import Election
from kcm.actors.engine.vitals import ChildVitals, ManagerVitals
from kcm.actors.reconciliation.actor_names import DISPATCHER, ELECTOR, MANAGER, RECORDER, informer_name
from kcm.actors.simulation.cluster import SimulatedCluster
from kcm.protocols.resources import LEASES, PODS, REPLICASETS
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.system.vitals import Vitals
from tests.support.objects import replica_set

CHILD = ChildVitals(alive=True, incarnation=1, failures=0, last_error="", gave_up=False, started_at=0.0)


class Transport:
    trouble: str | None = None

    def send(self, *_: Any, **__: Any) -> None:
        raise AssertionError

    watch = send


class Rig:
    """Watchdog with a limit of 60 s, and the actors that it watches."""

    def __init__(self) -> None:
        self.clock, self.vitals, self.transport = VirtualClock(), Vitals(), Transport()
        self.watchdog = Watchdog(vitals=self.vitals, transport=self.transport, clock=self.clock, patience=60.0)  # type: ignore[arg-type]

    def says(self, **children: ChildVitals) -> None:
        self.vitals.say(
            MANAGER,
            ManagerVitals(leading=True, leader="", draining=False, children=children, at=self.clock.monotonic()),
        )

    def look(self, *, after: float = 5.0) -> str | None:
        self.clock.advance_to(self.clock.monotonic() + after)
        return self.watchdog.look()


@pytest.mark.parametrize("begun", [True, False])
def test_manager_without_new_vitals_hangs(begun: bool) -> None:
    rig = Rig()
    if begun:
        rig.says()
    assert [rig.look() for _ in range(12)] == [None] * 12
    rig.look()
    assert rig.look() == f"controller-manager hangs: it has said nothing for {65 if begun else 70} s"


def test_new_vitals_end_the_silence() -> None:
    rig = Rig()
    for _ in range(100):
        rig.says()
        assert rig.look() is None


def test_suspended_time_does_not_count_as_silence() -> None:
    rig = Rig()
    rig.says()
    for _ in range(3):
        assert rig.look() is None
    assert rig.look(after=10_000.0) is None
    assert rig.look() is None


@pytest.mark.parametrize("name", [DISPATCHER, ELECTOR])
def test_essential_actor_that_gave_up_ends_the_process(name: str) -> None:
    rig = Rig()
    rig.says(**{name: replace(CHILD, alive=False, failures=9, last_error="no")})
    assert rig.look() is None
    rig.says(**{name: replace(CHILD, alive=False, failures=9, last_error="no", gave_up=True)})
    assert rig.look() == f"{name} failed too often: no"


@pytest.mark.parametrize("name", [RECORDER, informer_name(PODS.id), "controller:one"])
def test_stopped_inessential_actor_does_not_end_the_process(name: str) -> None:
    rig = Rig()
    rig.says(**{name: replace(CHILD, alive=False, failures=9, last_error="no", gave_up=True)})
    assert rig.look() is None


def test_permanently_broken_transport_ends_the_process() -> None:
    rig = Rig()
    rig.says()
    assert rig.look() is None
    rig.transport.trouble = "it broke"
    assert rig.look() == "it broke"


def test_hung_manager_is_replaced_by_a_standby_and_stops_writing(log: FilteringBoundLogger, logs: LogCapture) -> None:
    cluster = SimulatedCluster(log=log)
    first = cluster.manager(election=Election(identity="one", namespace="kube-system", name="kube-controller-manager"))
    cluster.run_for(5.0)
    second = cluster.manager(election=Election(identity="two", namespace="kube-system", name="kube-controller-manager"))
    cluster.run_for(5.0)
    cluster.world.hang(first.actors, MANAGER)
    cluster.run_for(35.0)
    hung = {name: why for name, check in first.checks().items() if (why := check()) is not None}
    assert list(hung) == ["infrastructure"]
    assert hung["infrastructure"].startswith("controller-manager hangs: it has said nothing for 40 s")
    assert cluster.run_until(lambda: first.end is not None, within=40.0)
    assert str(first.end).startswith("controller-manager hangs: it has said nothing for 6")
    ended_at = cluster.world.clock.monotonic()

    cluster.create(REPLICASETS, replica_set(replicas=3))
    cluster.run_for(5.0)
    assert cluster.list(PODS) == [], "the lease has not run out, and its holder is fenced"
    assert cluster.run_until(lambda: len(cluster.list(PODS)) == 3, within=20.0)
    assert cluster.world.clock.monotonic() - ended_at < 25.0, "the lease ran out"
    lease = cluster.get(LEASES, "kube-system/kube-controller-manager")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == "two"
    assert second.end is None
    (logged,) = [entry for entry in logs.entries if entry["event"] == "controller manager gives up"]
    assert logged["log_level"] == "error"
    first.halt()


def test_hung_manager_that_resumes_restarts_nothing(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log)
    first = cluster.manager(election=Election(identity="one", namespace="kube-system", name="kube-controller-manager"))
    cluster.run_for(5.0)
    cluster.world.hang(first.actors, MANAGER, seconds=90.0)
    cluster.run_for(80.0)
    assert first.end is not None
    cluster.run_for(60.0)
    assert not {MANAGER, ELECTOR, DISPATCHER} & set(first.actors.names())
    with pytest.raises(RuntimeError, match="dispatcher is not started: the system is at its end"):
        first.actors.spawn(first._plan.infrastructure[0])


def test_suspended_process_is_not_ended_by_its_watchdog(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log, faults=parse_faults("process-paused 10..310 process=manager"))
    manager = cluster.manager()
    cluster.run_for(400.0)
    assert manager.end is None


def test_a_dispatcher_that_fails_too_often_ends_the_process(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log, faults=parse_faults("actor-crashed 5.. actor=dispatcher process=manager"))
    manager = cluster.manager()
    cluster.create(REPLICASETS, replica_set(replicas=3))
    assert cluster.run_until(lambda: manager.end is not None, within=300.0)
    assert manager.end == "dispatcher failed too often: InjectedError: crashed"


def test_repeatedly_hung_dispatcher_ends_the_process(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log, faults=parse_faults("actor-hung 5.. actor=dispatcher process=manager"))
    manager = cluster.manager()
    assert cluster.run_until(lambda: manager.end is not None, within=300.0)
    assert str(manager.end).startswith("dispatcher failed too often: 4 of its threads hang; hung: ")


def test_vanished_manager_is_restarted(log: FilteringBoundLogger) -> None:
    faults = parse_faults("actor-vanished 5.. actor=controller-manager process=manager most=1")
    cluster = SimulatedCluster(log=log, faults=faults)
    manager = cluster.manager()
    cluster.run_for(6.0)
    assert not manager.actors.is_alive(MANAGER)
    cluster.run_for(20.0)
    assert manager.actors.is_alive(MANAGER)
    assert manager.end is None
    cluster.create(REPLICASETS, replica_set(replicas=3))
    assert cluster.run_until(lambda: len(cluster.list(PODS)) == 3, within=20.0)
