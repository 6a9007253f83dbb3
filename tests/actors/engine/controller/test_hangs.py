"""Reconcilers that block their thread: other keys are reconciled, their commands are dropped, and they are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.system import ControllerSystem
from kcm.actors.engine.controller.held_back import HOLD, LOOK_AGAIN, HeldBack
from kcm.actors.engine.vitals import HeldKey, InWork
from kcm.actors.reconciliation import Reconciliation, Watch, itself, must, patch
from kcm.actors.reconciliation.specs import ControllerSpec, Pass, Queue
from kcm.actors.simulation.cluster import SimulatedCluster
from kcm.protocols.objects import Key
from kcm.protocols.resources import PODS, REPLICASETS
from kcm.runtime.faults.vocabulary import parse_faults
from tests.support.objects import replica_set

STUCK = "default/stuck"
NAME = "replicaset-controller"
FAULT = f"reconciler-blocked 0.. actor=controller:{NAME} object={STUCK} "
Make = Callable[..., tuple[SimulatedCluster, ControllerSystem]]


@pytest.fixture
def make(log: FilteringBoundLogger) -> Iterator[Make]:
    clusters: list[SimulatedCluster] = []

    def start(faults: str) -> tuple[SimulatedCluster, ControllerSystem]:
        cluster = SimulatedCluster(log=log, faults=parse_faults(faults))
        clusters.append(cluster)
        manager = cluster.manager()
        cluster.run_for(3.0)
        return cluster, manager

    yield start
    for cluster in clusters:
        cluster.world.close()


def pods_of(cluster: SimulatedCluster, name: str) -> int:
    return sum(pod["metadata"]["name"].startswith(f"{name}-") for pod in cluster.list(PODS))


def hung_threads(manager: ControllerSystem, name: str = NAME) -> float:
    for family, series in manager.metrics.collect():
        if family.name == "kcm_hung_threads":
            values = {labels[0]: sample.value for labels, sample in series}
            return values[f"controller:{name}"]
    raise AssertionError("no such metric")


def test_hung_key_blocks_others_until_its_controller_is_replaced(make: Make, logs: LogCapture) -> None:
    cluster, manager = make(FAULT + "most=1")
    check = manager.checks()[NAME]
    assert (check(), hung_threads(manager)) == (None, 0.0)
    cluster.create(REPLICASETS, replica_set("stuck"))
    cluster.run_for(1.0)
    cluster.create(REPLICASETS, replica_set("web"))
    cluster.run_for(20.0)
    assert (pods_of(cluster, "stuck"), pods_of(cluster, "web")) == (0, 0)
    assert cluster.run_until(lambda: pods_of(cluster, "web") == 1, within=30.0)
    assert manager.actors.incarnation(f"controller:{NAME}") == 2
    assert hung_threads(manager) == 1.0
    why = check()
    assert why is not None
    assert why.startswith(f"stuck: replicaset {STUCK} has held up a thread for ")

    cluster.run_for(900.0)
    cluster.create(REPLICASETS, replica_set("late"))
    cluster.run_for(5.0)
    assert (pods_of(cluster, "stuck"), pods_of(cluster, "late")) == (0, 1)
    assert manager.actors.incarnation(f"controller:{NAME}") == 2, "it is not tried again while its thread hangs"
    (logged,) = [entry for entry in logs.entries if entry["event"] == "actor hangs"]
    assert (logged["child"], logged["doing"]) == (f"controller:{NAME}", f"replicaset {STUCK}")
    (restarted,) = [entry for entry in logs.entries if entry["event"] == "actor is restarted"]
    assert restarted["error"].endswith(f", at replicaset {STUCK}")


def test_reconciler_that_blocks_for_less_than_the_limit_is_not_replaced(make: Make, logs: LogCapture) -> None:
    cluster, manager = make(FAULT + "most=1 seconds=20")
    cluster.create(REPLICASETS, replica_set("stuck"))
    cluster.run_for(19.0)
    assert pods_of(cluster, "stuck") == 0
    cluster.run_for(3.0)
    assert pods_of(cluster, "stuck") == 1
    assert manager.actors.incarnation(f"controller:{NAME}") == 1
    assert manager.checks()[NAME]() is None


def test_thread_that_returns_late_does_nothing_and_its_key_is_retried(make: Make) -> None:
    cluster, manager = make(FAULT + "most=1 seconds=45")
    cluster.create(REPLICASETS, replica_set("stuck"))
    cluster.run_for(55.0)
    assert pods_of(cluster, "stuck") == 0, "what its thread sent has gone nowhere"
    assert hung_threads(manager) == 0.0
    why = manager.checks()[NAME]()
    assert why is not None
    assert why.startswith(f"stuck: replicaset {STUCK} held up a thread ")
    assert cluster.run_until(lambda: pods_of(cluster, "stuck") == 1, within=60.0)
    cluster.run_for(5.0)
    assert manager.checks()[NAME]() is None


def test_repeatedly_hung_key_is_retried_with_backoff(make: Make, logs: LogCapture) -> None:
    cluster, manager = make(FAULT + "seconds=45")
    cluster.create(REPLICASETS, replica_set("stuck"))
    cluster.create(REPLICASETS, replica_set("web"))
    cluster.run_for(3600.0)
    hangs = [entry for entry in logs.entries if entry["event"] == "actor hangs"]
    assert 5 <= len(hangs) <= 7, "60, 120, 240, … seconds apart, each with a hang"
    assert manager.checks()[NAME]() is not None
    assert (pods_of(cluster, "stuck"), pods_of(cluster, "web")) == (0, 1)
    assert manager.actors.is_alive(f"controller:{NAME}")


def test_number_of_hung_threads_is_limited(make: Make, logs: LogCapture) -> None:
    # The server that all reconciliations wait for is away for ten minutes.
    cluster, manager = make(f"reconciler-blocked 0..600 actor=controller:{NAME} seconds=600")
    for number in range(20):
        cluster.create(REPLICASETS, replica_set(f"web{number}"))
    cluster.run_for(500.0)
    assert hung_threads(manager) == 4.0
    assert not manager.actors.is_alive(f"controller:{NAME}")
    why = manager.checks()[NAME]()
    assert why is not None
    assert why.startswith("is down, to be restarted: 4 of its threads hang; hung: it did not get on for ")
    assert manager.checks()["deployment-controller"]() is None
    assert manager.checks()["infrastructure"]() is None
    assert manager.end is None
    waits = [e for e in logs.entries if e["event"] == "actor is not restarted before a thread of it is back"]
    assert len(waits) == 1
    assert cluster.run_until(lambda: len(cluster.list(PODS)) == 20, within=900.0), "they are all caught up with"
    cluster.run_for(620.0)
    assert (manager.checks()[NAME](), hung_threads(manager)) == (None, 0.0)


class Waiting:
    """Reconciler that patches a ReplicaSet, waits, and patches it again. Its pass waits as well."""

    def __init__(self, wait: Callable[[float], None]) -> None:
        self.wait = wait

    def reconcile(self, key: Key) -> Reconciliation:
        yield from must(patch(REPLICASETS, key, {"metadata": {"annotations": {"step": "one"}}}))
        self.wait(45.0)
        yield from must(patch(REPLICASETS, key, {"metadata": {"annotations": {"step": "two"}}}))

    def sweep(self) -> Reconciliation:
        self.wait(45.0)
        yield from ()


def test_messages_of_a_fenced_thread_are_dropped(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log)
    cluster.world.handlers_may_wait = True
    spec = ControllerSpec(
        name="waiting-controller",
        queues=(Queue(watches=(Watch(REPLICASETS, to=itself),)),),
        build=lambda _context: Waiting(cluster.world.wait),
    )
    cluster.manager(controllers=[spec])
    cluster.create(REPLICASETS, replica_set("stuck"))
    cluster.run_for(55.0)
    found = cluster.get(REPLICASETS, STUCK)
    assert found is not None
    assert found["metadata"]["annotations"] == {"step": "one"}
    cluster.world.close()


def test_hung_pass_is_held_back_and_keys_continue(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log)
    cluster.world.handlers_may_wait = True
    seen: list[Key] = []

    class Sweeping(Waiting):
        def reconcile(self, key: Key) -> Reconciliation:
            seen.append(key)
            yield from ()

    spec = ControllerSpec(
        name="sweeping-controller",
        queues=(Queue(watches=(Watch(REPLICASETS, to=itself),)),),
        passes=(Pass("sweep", every=lambda _options: 1.0, run=Sweeping.sweep),),
        build=lambda _context: Sweeping(cluster.world.wait),
    )
    manager = cluster.manager(controllers=[spec])
    cluster.create(REPLICASETS, replica_set("web"))
    cluster.run_for(42.0)
    assert seen[-1:] == ["default/web"]
    why = manager.checks()["sweeping-controller"]()
    assert why is not None
    assert why.startswith("stuck: sweep has held up a thread for ")
    cluster.world.close()


class Thread:
    def __init__(self, at_work: InWork | None) -> None:
        self.at_work = at_work


def test_thread_that_returns_in_time_holds_no_key_back() -> None:
    held = HeldBack(hung_after=30.0)
    held.learn([Thread(InWork(queue="q", key="k", since=10.0)), Thread(None)], 24.0)
    held.came_back(InWork(queue="q", key="k", since=10.0), 24.0)
    assert not held.hangs
    assert held.wait("q", "k", 24.0) == 0.0


def test_key_is_held_back_while_its_thread_hangs_with_increasing_delay() -> None:
    held = HeldBack(hung_after=30.0)
    thread = Thread(InWork(queue="q", key="k", since=0.0))
    held.learn([thread], 30.0)
    held.learn([thread], 31.0)
    assert held.hangs
    assert (held.wait("q", "k", 30.0), held.wait("q", "other", 30.0), held.wait("other", "k", 30.0)) == (60.0, 0, 0)
    assert held.wait("q", "k", 1000.0) == LOOK_AGAIN
    assert list(held) == [HeldKey(queue="q", key="k", since=0.0, hangs=True)]
    held.came_back(InWork(queue="q", key="k", since=0.0), 1000.0)
    thread.at_work = None
    assert held.wait("q", "k", 1000.0) == 0.0
    assert list(held) == [HeldKey(queue="q", key="k", since=0.0, hangs=False)]
    held.came_back(InWork(queue="q", key="k", since=1000.0), 1045.0)
    assert held.wait("q", "k", 1045.0) == HOLD.delay(1)
    held.succeeded("q", "k")
    assert not held.hangs
