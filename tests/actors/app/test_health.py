"""Health checks: each returns its problem in one line, or None."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.health import (
    calls_check,
    child_trouble,
    controller_check,
    controller_trouble,
    infrastructure_check,
    leader_check,
)
from kcm.actors.engine.elector import Election
from kcm.actors.engine.vitals import (
    ChildVitals,
    ControllerVitals,
    ElectorVitals,
    HeldKey,
    InWork,
    KeyProgress,
    ManagerVitals,
    RecorderVitals,
    RefusedEvents,
    SourceLoad,
    SyncHistory,
)
from kcm.actors.options.general import HealthThresholds
from kcm.actors.reconciliation.actor_names import ELECTOR, MANAGER, RECORDER
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.resources import PODS
from kcm.runtime.calls.prepared_calls import HungCall
from kcm.runtime.metrics.families import HUNG_CALLS, WORKQUEUE_DEPTH
from kcm.runtime.serving.health import HealthFailure, HealthNotice
from kcm.runtime.simulation.calls import SimulatedCalls
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Table

CHILD = ChildVitals(alive=True, incarnation=1, failures=0, last_error="", gave_up=False, started_at=0.0)


class FakeWork(NamedTuple):
    """Progress of a controller as a health check sees it."""

    moved: float = 0.0
    reconciled: int = 3
    failed: int = 0


SAID = ControllerVitals(
    ready=True, paused=False, waiting_for_tables=(), work=FakeWork(), at=0.0, discovered=(), arriving={}
)


def manager_says(children: dict[str, ChildVitals], *, at: float = 0.0) -> ManagerVitals:
    return ManagerVitals(leading=True, leader="me", draining=False, children=children, at=at)


@pytest.mark.parametrize(
    ("child", "trouble"),
    [
        ({}, None),
        ({"alive": False, "failures": 1, "last_error": "KeyError: spec"}, "is down, to be restarted: KeyError: spec"),
        ({"alive": False, "started_at": None}, None),  # not started yet
        ({"alive": False, "started_at": None, "failures": 1, "last_error": "no"}, "is down, to be restarted: no"),
        ({"failures": 2, "last_error": "no"}, None),
        ({"failures": 3, "last_error": "no"}, "is crash-looping (3 failures): no"),
        ({"alive": False, "gave_up": True, "last_error": "no"}, "failed too often and is left stopped: no"),
    ],
)
def test_child_check_reports_the_state_of_the_child(child: dict[str, Any], trouble: str | None) -> None:
    assert child_trouble(replace(CHILD, **child)) == trouble


@pytest.mark.parametrize(
    ("vitals", "now", "trouble"),
    [
        ({}, 1000.0, None),
        ({"ready": False, "waiting_for_tables": ("v1/pods",)}, 59.0, None),
        ({"ready": False, "waiting_for_tables": ("v1/pods",)}, 61.0, "still waits for v1/pods"),
        ({"ready": False}, 61.0, "still waits for its own earlier writes"),
        ({"at": 1000.0}, 1000.0, None),
        (
            {"held": (HeldKey(queue="pods", key="d/a", since=960.0, hangs=True),)},
            1000.0,
            "stuck: pods d/a has held up a thread for 40 s",
        ),
        (
            {"held": (HeldKey(queue="pods", key="d/a", since=960.0, hangs=False),)},
            1000.0,
            "stuck: pods d/a held up a thread 40 s ago and is held back",
        ),
    ],
)
def test_controller_check_reports_the_vitals(vitals: dict[str, Any], now: float, trouble: str | None) -> None:
    assert controller_trouble(SAID._replace(**vitals), now=now, since=0.0, thresholds=HealthThresholds()) == trouble


class FakeSource:
    """Work queue `pods` as a health check sees it: with ten pods of which one waits."""

    name, is_pass = "pods", False

    def __init__(
        self,
        *,
        waiting_since: float | None = None,
        known: int | None = 10,
        pending: int = 1,
        longest: InWork | None = None,
    ) -> None:
        self.history = SyncHistory()
        self.waiting_since, self.known, self.left, self.longest = waiting_since, known, pending, longest

    def state_of(self, key: str) -> KeyProgress | None:
        return None

    def oldest_waiting(self) -> InWork | None:
        return None if self.waiting_since is None else InWork("pods", "d/a", self.waiting_since)

    def pending(self) -> int:
        return self.left

    def counted(self) -> SourceLoad:
        return SourceLoad(self.left, 0, 0 if self.longest is None else 1, self.longest)

    def known_keys(self) -> int | None:
        return self.known

    def fail(self, *keys: str, times: int = 5, at: float = 0.0) -> FakeSource:
        for _ in range(times):
            for key in keys:
                self.history.fail(key, "Forbidden: no", at)
        return self


def trouble_of(source: FakeSource, *, now: float, **vitals: Any) -> str | None:
    state = SAID._replace(sources=(source,), **vitals)
    return controller_trouble(state, now=now, since=0.0, thresholds=HealthThresholds())


MOVING = FakeWork(moved=590.0)


@pytest.mark.parametrize(
    ("vitals", "longest", "now", "trouble"),
    [
        ({"work": MOVING}, None, 599.0, None),
        (
            {"work": MOVING},
            None,
            600.0,
            "starved: pods d/a has waited in its queue for 600 s, with 5 keys ready",
        ),
        ({"work": MOVING, "may_begin_since": 100.0}, None, 600.0, None),
        ({"work": MOVING, "paused": True}, None, 600.0, None),
        (
            {},
            InWork(queue="pods", key="d/b", since=1.0),
            600.0,
            (
                "starved: pods d/a has waited in its queue for 600 s, with 5 keys ready; nothing happened for 600 s; "
                "in work: pods d/b"
            ),
        ),
    ],
)
def test_key_that_waits_too_long_means_starved(
    vitals: dict[str, Any], longest: InWork | None, now: float, trouble: str | None
) -> None:
    found = trouble_of(FakeSource(waiting_since=0.0, pending=5, longest=longest), now=now, **vitals)
    assert found == trouble
    assert isinstance(found, HealthNotice) == (trouble is not None and "work" in vitals)


@pytest.mark.parametrize(
    ("source", "now", "is_failing"),
    [
        (FakeSource().fail("a", "b", "c", "d", "e", times=2), 300.0, True),
        (FakeSource().fail("a", "b", "c", "d", "e", times=2), 299.0, False),  # too short
        (FakeSource().fail("a", "b", "c", "d", "e", times=1), 300.0, False),  # too few
        (FakeSource().fail("a", times=20), 300.0, False),  # one of ten objects
        (FakeSource(known=1).fail("a", times=20), 300.0, True),
        (FakeSource(known=None).fail("a", times=20), 300.0, True),
        (FakeSource(known=0, pending=0).fail("a", times=20), 300.0, False),  # its object was deleted
        (FakeSource(known=1, pending=0).fail("a", times=20), 300.0, True),  # given up
    ],
)
def test_queue_whose_syncs_all_fail_means_failing(source: FakeSource, now: float, is_failing: bool) -> None:
    found = trouble_of(source, now=now)
    assert (found is not None) == is_failing
    if found is not None:
        assert found.startswith(
            f"failing: {source.history.failures} syncs of pods in a row failed, for 300 s; no success"
        )
        assert found.endswith("Forbidden: no")
        assert isinstance(found, HealthNotice), "a restart does not repair a controller"


def test_success_ends_the_failures_in_a_row() -> None:
    source = FakeSource(known=1).fail("a", times=20)
    assert trouble_of(source, now=300.0) is not None
    source.history.succeed(300.0)
    assert trouble_of(source, now=300.0) is None
    source.fail("a", times=20, at=310.0)
    assert "; the last success was 310 s ago; last error: a: Forbidden: no" in str(trouble_of(source, now=610.0))


class HealthRig:
    """State that the check of one controller of pods reads."""

    def __init__(self, *, is_away: bool = False) -> None:
        """Create a healthy state. is_away: the cluster of the table, one of several, does not respond."""
        self.clock, self.vitals = VirtualClock(), Vitals()
        self.table = Table(PODS)
        self.check = controller_check(
            "one",
            client="client",
            vitals=self.vitals,
            tables={PODS.id: self.table},
            clock=self.clock,
            thresholds=HealthThresholds(),
            silence_limit=90.0,
            is_away=lambda _table: is_away,
        )

    def child(self, **facts: Any) -> None:
        child = replace(CHILD, **facts)
        self.vitals.say(MANAGER, manager_says({"controller:one": child}, at=self.clock.monotonic()))


def test_disabled_controller_is_healthy() -> None:
    rig = HealthRig()
    rig.vitals.say(MANAGER, manager_says({}))
    assert rig.check() is None


def test_controller_not_started_yet_is_healthy_with_any_tables() -> None:
    rig = HealthRig()
    rig.child(alive=False, started_at=None)
    assert rig.check() is None


def test_new_leader_has_time_to_start_after_a_long_standby() -> None:
    rig = HealthRig()
    rig.clock.advance_to(10_000.0)
    rig.table.claim().replace([], 5)
    rig.child(started_at=10_000.0)
    rig.vitals.say("controller:one", SAID._replace(ready=False, at=10_000.0))
    assert rig.check() is None
    rig.clock.advance_to(10_061.0)
    assert rig.check() == "still waits for its own earlier writes"


def test_unsynced_or_silent_table_is_named() -> None:
    rig = HealthRig()
    rig.child(started_at=0.0)
    rig.vitals.say("controller:one", SAID)
    assert rig.check() == "the table of pods is not synced"
    rig.clock.advance_to(61.0)
    writer = rig.table.claim()
    writer.replace([], 5)
    writer.touch(61.0)
    assert rig.check() is None
    rig.clock.advance_to(61.0 + 181.0)
    trouble = rig.check()
    assert trouble == "deaf: the table of pods has not heard from the server for 181 s"
    assert not isinstance(trouble, HealthNotice), "a restart connects to the server again"
    writer.touch(61.0 + 181.0)
    assert rig.check() is None


def test_table_of_a_cluster_that_is_away_fails_no_liveness_probe_but_a_stuck_actor_does() -> None:
    rig = HealthRig(is_away=True)
    rig.child(started_at=0.0)
    rig.vitals.say("controller:one", SAID._replace(ready=False, waiting_for_tables=("v1/pods",)))
    rig.clock.advance_to(61.0)
    trouble = rig.check()
    assert trouble == "still waits for v1/pods; the table of pods is not synced"
    assert isinstance(trouble, HealthNotice)
    rig.child(started_at=0.0, busy_since=0.0)
    trouble = rig.check()
    assert str(trouble).startswith("stuck: ")
    assert not isinstance(trouble, HealthNotice)


def test_actor_that_handles_one_message_for_too_long_is_stuck() -> None:
    rig = HealthRig()
    rig.table.claim().replace([], 5)
    rig.vitals.say("controller:one", SAID)
    rig.child(busy_since=0.0)
    rig.clock.advance_to(29.0)
    assert rig.check() is None
    rig.clock.advance_to(30.0)
    assert rig.check() == "stuck: its actor has been handling the same message for 30 s"
    rig.child()
    assert rig.check() is None


def test_controller_whose_events_are_refused_is_failing_for_a_while() -> None:
    rig = HealthRig()
    rig.table.claim().replace([], 5)
    rig.vitals.say("controller:one", SAID)
    rig.child()
    refused = RefusedEvents(verb="create", times=2, since=0.0, last=5.0, message="events is forbidden")
    rig.vitals.say(RECORDER, RecorderVitals({"client": refused}))
    rig.clock.advance_to(10.0)
    assert rig.check() is None
    rig.vitals.say(RECORDER, RecorderVitals({"client": refused._replace(times=3), "other": refused}))
    trouble = rig.check()
    assert trouble == "failing: cannot create events, refused 3 times in 10 s: events is forbidden"
    assert isinstance(trouble, HealthNotice)
    rig.clock.advance_to(606.0)
    assert rig.check() is None, "events are not retried"


def test_several_conditions_are_shown_together() -> None:
    rig = HealthRig()
    writer = rig.table.claim()
    writer.replace([], 5)
    writer.touch(0.0)
    rig.child()
    rig.clock.advance_to(300.0)
    source = FakeSource(known=1).fail("a", times=20)
    rig.vitals.say("controller:one", SAID._replace(sources=(source,)))
    trouble = rig.check()
    assert isinstance(trouble, HealthFailure)
    assert not isinstance(trouble, HealthNotice)
    assert trouble.shown == "failing, deaf"


def test_the_lease_is_in_trouble_only_while_we_believe_to_lead() -> None:
    clock, vitals = VirtualClock(), Vitals()
    check = leader_check(vitals=vitals, election=Election(identity="a", namespace="d", name="lease"), clock=clock)
    assert check() is None
    vitals.say(ELECTOR, ElectorVitals(leading=True, renewed_at=0.0))
    clock.advance_to(35.0)
    assert check() is None
    clock.advance_to(36.0)
    assert check() == "failed election to renew leadership on lease lease"
    vitals.say(ELECTOR, ElectorVitals(leading=False, renewed_at=0.0))
    assert check() is None


def test_unreadable_lease_is_reported_after_the_lease_duration() -> None:
    clock, vitals = VirtualClock(), Vitals()
    check = leader_check(vitals=vitals, election=Election(identity="a", namespace="d", name="lease"), clock=clock)
    failure = 'cannot get leases.coordination.k8s.io d/lease: User "jane" cannot get resource "leases"'
    vitals.say(ELECTOR, ElectorVitals(leading=False, renewed_at=0.0, failure=failure, failing_since=0.0))
    clock.advance_to(14.0)
    assert check() is None
    clock.advance_to(15.0)
    result = check()
    assert result == failure
    assert isinstance(result, HealthNotice), "no restart changes what may be read"
    assert result.shown == "cannot get leases.coordination.k8s.io d/lease"


def test_silent_manager_and_stopped_infrastructure_are_reported() -> None:
    clock, vitals = VirtualClock(), Vitals()
    check = infrastructure_check(vitals=vitals, clock=clock)
    assert check() is None, "it has not begun"
    down = replace(CHILD, alive=False, failures=1, last_error="no")
    vitals.say(MANAGER, manager_says({"dispatcher": down, "controller:one": down}))
    assert check() == "dispatcher is down, to be restarted: no"
    vitals.say(MANAGER, manager_says({"dispatcher": CHILD, "controller:one": down}))
    assert check() is None, "a controller has a check of its own"
    clock.advance_to(61.0)
    assert check() == "controller-manager hangs: it has said nothing for 61 s"


def test_healthy_cluster_is_healthy_from_the_first_second(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log)
    manager = cluster.manager()
    cluster.run_for(1.0)
    for _ in range(12):
        cluster.run_for(10.0)
        assert {name: check() for name, check in manager.checks().items() if check() is not None} == {}


def test_controller_has_a_check_and_metrics_of_its_queue_from_its_start_until_it_is_disabled(
    log: FilteringBoundLogger,
) -> None:
    """Upstream has neither for a controller behind a feature gate."""
    cluster = SimulatedCluster(log=log)
    manager = cluster.manager()
    name, gated = "replicaset-controller", "podgroup-protection-controller"

    def queues() -> set[str]:
        series = {family.name: labels for family, labels in manager.metrics.collect()}
        return {labels[0] for labels, _ in series.get(WORKQUEUE_DEPTH.name, ())}

    assert not manager.has_check(name)
    assert manager.has_check("infrastructure")
    assert queues() == set()
    cluster.run_for(30.0)
    assert (manager.has_check(name), manager.has_check(gated)) == (True, False)
    assert "replicaset" in queues()
    assert not {queue for queue in queues() if "podgroup" in queue}
    manager.disable(name)
    manager.enable(gated)
    cluster.run_for(30.0)
    assert (manager.has_check(name), manager.has_check(gated)) == (False, True)
    assert "podgroupprotection" in queues()


def test_calls_that_hang_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    calls = SimulatedCalls(clock=clock)
    check = calls_check(calls, clock=clock)
    assert check() is None
    clock.advance_to(200.0)
    hung = [HungCall("ListRoutes", 10.0), *(HungCall(f"InstanceExists n{n}", 80.0) for n in range(4))]
    monkeypatch.setattr(calls, "hung", lambda: hung)
    assert check() == (
        "calls hang: ListRoutes for 190 s, InstanceExists n0 for 120 s, InstanceExists n1 for 120 s and 2 more"
    )


def test_system_checks_its_calls_and_counts_hung_ones(log: FilteringBoundLogger) -> None:
    system = SimulatedCluster(log=log).manager()
    assert system.checks()["calls"]() is None
    assert system.metrics.gauge(HUNG_CALLS).value == 0
