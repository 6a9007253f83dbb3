"""Stuck, starved, failing and deaf controllers in a simulated cluster: the check of each, and its recovery."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.system import ControllerSystem
from kcm.actors.options import Options
from kcm.actors.options.general import HealthThresholds
from kcm.actors.reconciliation import Reconciliation, RequeueAfter, Watch, itself, must, patch
from kcm.actors.reconciliation.failures import Retry, RetryQuietly, TerminalError
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.simulation.cluster import SimulatedCluster
from kcm.protocols.objects import Key
from kcm.protocols.resources import REPLICASETS
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.metrics.families import RECONCILE_ERRORS, RECONCILIATIONS
from kcm.runtime.serving.health import HealthNotice
from tests.support.objects import replica_set

NAME = "label-controller"


class Labels:
    """Reconciler that calls a function of the test, then patches its ReplicaSet."""

    def __init__(self, act: Callable[[Key], RequeueAfter | None]) -> None:
        self._act = act

    def reconcile(self, key: Key) -> Reconciliation:
        result = self._act(key)
        yield from must(patch(REPLICASETS, key, {"metadata": {"labels": {"seen": "yes"}}}))
        return result


class Scene:
    """Cluster with one controller, whose reconciliations call `act`."""

    def __init__(
        self, log: FilteringBoundLogger, act: Callable[[Key], RequeueAfter | None], *, faults: str = ""
    ) -> None:
        self.cluster = SimulatedCluster(log=log, faults=parse_faults(faults))
        self._act = act

    def start(self, *names: str, qps: float | None = None, health: HealthThresholds | None = None) -> ControllerSystem:
        for name in names:
            self.cluster.create(REPLICASETS, replica_set(name))
        spec = ControllerSpec(
            name=NAME,
            queues=(Queue(watches=(Watch(REPLICASETS, to=itself),), concurrency=2),),
            build=lambda _context: Labels(self._act),
            qps=qps,
            burst=None if qps is None else 1,
        )
        options = Options() if health is None else replace(Options(), health=health)
        system = self.cluster.manager(controllers=[spec], options=options)
        self.check = system.checks()[NAME]
        self.cluster.run_for(1.0)
        return system

    def fails_within(self, seconds: float) -> str:
        """Return the result of the check once it fails."""
        assert self.cluster.run_until(lambda: self.check() is not None, within=seconds)
        return self.check() or ""

    def recovers_within(self, seconds: float) -> bool:
        return self.cluster.run_until(lambda: self.check() is None, within=seconds)


def passes(_key: Key) -> None:
    return None


def test_idle_controller_is_healthy_for_hours(log: FilteringBoundLogger) -> None:
    scene = Scene(log, passes)
    scene.start()
    for _ in range(12):
        scene.cluster.run_for(1800.0)
        assert scene.check() is None


def test_controller_is_stuck_while_its_actor_handles_one_message_and_recovers(log: FilteringBoundLogger) -> None:
    scene = Scene(
        log, passes, faults=f"reconciler-blocked 0.. actor=controller:{NAME} object=default/a most=1 seconds=28"
    )
    system = scene.start("a", "b", health=HealthThresholds(stuck_after=10.0))
    found = scene.fails_within(20.0)
    assert found.startswith("stuck: its actor has been handling the same message for 1")
    assert scene.recovers_within(30.0)
    assert system.actors.incarnation(f"controller:{NAME}") == 1, "it was not replaced"


def test_hung_controller_is_stuck_until_its_key_succeeds(log: FilteringBoundLogger) -> None:
    scene = Scene(
        log, passes, faults=f"reconciler-blocked 0.. actor=controller:{NAME} object=default/a most=1 seconds=70"
    )
    scene.start("a", "b")
    found = scene.fails_within(60.0)
    assert found.startswith("stuck: ")
    scene.cluster.run_for(5.0)
    assert str(scene.check()).startswith("stuck: label default/a has held up a thread for ")
    assert not isinstance(scene.check(), HealthNotice), "a restart of the process frees the thread"
    assert scene.recovers_within(300.0)


def test_controller_is_starved_while_keys_wait_for_its_rate_limit(log: FilteringBoundLogger) -> None:
    scene = Scene(log, passes)
    scene.start(*(f"s{number}" for number in range(100)), qps=0.1)
    scene.cluster.run_for(590.0)
    assert scene.check() is None
    found = scene.fails_within(30.0)
    assert found.startswith("starved: label default/s")
    assert isinstance(scene.check(), HealthNotice), "after a restart all keys would wait again"
    assert scene.recovers_within(3000.0)


def test_controller_that_waits_for_its_turn_while_paused_is_healthy(log: FilteringBoundLogger) -> None:
    scene = Scene(log, passes)
    system = scene.start("a")
    system.pause(NAME)
    scene.cluster.run_for(1.0)
    scene.cluster.create(REPLICASETS, replica_set("b"))
    scene.cluster.run_for(7200.0)
    assert scene.check() is None
    system.resume(NAME)
    scene.cluster.run_for(1.0)
    assert scene.check() is None


@pytest.mark.parametrize("names", [("a",), ("a", "b", "c", "d", "e", "f", "g")])
def test_controller_that_fails_for_every_key_is_failing_until_one_succeeds(
    names: tuple[str, ...], log: FilteringBoundLogger
) -> None:
    broken = [True]

    def act(key: Key) -> None:
        if broken:
            raise ConnectionError(f"directory is away, cannot store {key}")

    scene = Scene(log, act)
    scene.start(*names)
    scene.cluster.run_for(200.0)
    assert scene.check() is None, "it has not failed for long enough"
    found = scene.fails_within(150.0)
    assert found.startswith("failing: ")
    assert "syncs of label in a row failed, for 30" in found
    assert " s; no success since the start; last error: default/" in found
    assert "ConnectionError: directory is away, cannot store default/" in found
    broken.clear()
    assert scene.recovers_within(600.0)
    scene.cluster.run_for(600.0)
    broken.append(True)
    scene.cluster.run_for(1000.0)
    assert scene.check() is None, "it is idle"


def test_one_broken_object_of_many_is_not_a_failing_controller(log: FilteringBoundLogger) -> None:
    def act(key: Key) -> None:
        if key == "default/bad":
            raise ValueError("cannot be used")

    scene = Scene(log, act)
    scene.start("good", "fine", "bad")
    for _ in range(20):
        scene.cluster.run_for(300.0)
        assert scene.check() is None


def test_controller_whose_failing_object_was_deleted_is_healthy(log: FilteringBoundLogger) -> None:
    def act(key: Key) -> None:
        raise TerminalError("no")

    scene = Scene(log, act)
    scene.start("a")
    for _ in range(20):
        scene.cluster.run_for(40.0)
        labels = {"at": f"t{scene.cluster.clock.now():.0f}"}
        scene.cluster.merge(REPLICASETS, "default/a", {"metadata": {"labels": labels}})
    scene.cluster.run_for(1.0)
    assert str(scene.check()).startswith("failing: "), "a key that was given up counts"
    scene.cluster.delete(REPLICASETS, "default/a")
    scene.cluster.run_for(1.0)
    assert scene.check() is None


def test_controller_is_deaf_while_its_table_is_not_refreshed(log: FilteringBoundLogger) -> None:
    away = "command-answered 60..600 resource=replicasets process=manager status=500"
    scene = Scene(log, passes, faults=away)
    scene.start("a")
    scene.cluster.run_for(60.0)
    scene.cluster.network.break_streams()
    found = scene.fails_within(300.0)
    assert found.startswith("deaf: the table of replicasets.apps has not heard from the server for 24")
    assert not isinstance(scene.check(), HealthNotice)
    assert scene.recovers_within(600.0)


def test_reconciliations_are_counted_by_result_and_errors_by_kind(log: FilteringBoundLogger, logs: LogCapture) -> None:
    results = {"default/later": [RequeueAfter(10_000.0)]}
    errors = {
        "default/retry": Retry(after=10_000.0),
        "default/quiet": RetryQuietly("waits"),
        "default/raises": ValueError("no"),
        "default/ends": TerminalError("no"),
    }

    def act(key: Key) -> RequeueAfter | None:
        if key in errors:
            raise errors.pop(key)
        return results.pop(key, [None])[0]

    away = "command-answered 0.. resource=replicasets object=default/bad process=manager status=403 most=1"
    scene = Scene(log, act, faults=away)
    system = scene.start("bad", "good", "later", "retry", "quiet", "raises", "ends")
    scene.cluster.run_for(60.0)
    counted = {name: system.metrics.counter(RECONCILIATIONS, NAME, name).value for name in ("error", "requeue_after")}
    assert counted == {"error": 3.0, "requeue_after": 2.0}
    assert system.metrics.counter(RECONCILIATIONS, NAME, "requeue").value == 1.0
    assert system.metrics.counter(RECONCILIATIONS, NAME, "success").value >= 4.0
    kinds = {kind: system.metrics.counter(RECONCILE_ERRORS, NAME, kind).value for kind in ("forbidden", "raised")}
    assert kinds == {"forbidden": 1.0, "raised": 2.0}
