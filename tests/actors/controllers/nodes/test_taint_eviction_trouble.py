"""Tests of taint evictions while the controller, the API server or a watch fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from structlog.testing import LogCapture

from kcm.actors.controllers.nodes.taint_eviction import EVICTION_DURATION, EVICTIONS
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.resources import PODS
from kcm.runtime.client.api import Request, Response
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.actors.controllers.nodes.eviction_scene import CANCELLED, MARKED, NAME, Scene
from tests.support.objects import node, pod, taint, toleration


@pytest.fixture
def scene(cluster: SimulatedCluster) -> Scene:
    return Scene(cluster)


def test_restarted_controller_restarts_the_toleration_times(scene: Scene) -> None:
    scene.create(pod("p1", tolerations=[toleration(seconds=100)], node="n1"))
    scene.taint(taint())
    scene.run_for(60.0)
    scene.cluster.world.kill(scene.manager.actors, NAME)
    scene.run_for(10.0)
    restarted = scene.manager.actors.incarnation(NAME)
    scene.run_for(200.0)
    assert restarted == 2
    assert scene.evictions() == {"p1": pytest.approx(160, abs=3.0)}


@pytest.mark.parametrize("moment", [0.0, 0.011, 0.025, 0.035, 0.045, 0.06])
def test_pod_is_evicted_once_despite_a_crash(make_cluster: Callable[..., SimulatedCluster], moment: float) -> None:
    cluster = make_cluster(latency=0.01)
    scene = Scene(cluster)
    scene.create(pod("p1", tolerations=[toleration(seconds=5)], node="n1"), pod("p2", node="n1"))
    scene.taint(taint())
    scene.run_for(moment)
    cluster.world.kill(scene.manager.actors, NAME)
    scene.run_for(60.0)
    for name in ("p1", "p2"):
        found = cluster.get(PODS, f"default/{name}")
        assert found is not None
        assert found["metadata"]["deletionTimestamp"]
    deletions = [what for what in scene.sent() if what.startswith("DELETE")]
    assert sorted(deletions) == ["DELETE pods/p1", "DELETE pods/p2"]


def test_node_is_read_live_before_a_pod_is_evicted(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    late = Fault(kind=FaultKind.WATCH_LAGGING, start=5.0, until=40.0, resource="nodes", seconds=30.0)
    scene = Scene(make_cluster(faults=[late]))
    scene.create(
        pod("p1", tolerations=[toleration(seconds=10)], node="n1"),
        pod("p2", tolerations=[toleration(seconds=10)], node="n1"),
    )
    scene.taint(taint())
    scene.run_for(3.0)
    scene.taint()  # the watch delivers it after the eviction time of the pods
    scene.run_for(100.0)
    assert scene.evictions() == {}
    assert scene.events() == [CANCELLED]


@pytest.mark.parametrize("path", ["GET", "PATCH"])
def test_taint_removed_during_the_live_read_keeps_the_pod(scene: Scene, path: str) -> None:
    """Regression test, found by seed 55 of the simulation campaign with the setting `nodes`."""
    scene.create(pod("p1", tolerations=[toleration(seconds=5)], node="n1"))
    scene.taint(taint())

    class Untaint:
        def sent(self, process: str, client: str, request: Request) -> None:
            pass

        def carried_out(self, process: str, client: str, request: Request, response: Response) -> None:
            if request.method == path and "/pods/p1" in request.path:
                scene.taint()

    scene.cluster.network.witnesses.append(Untaint())
    scene.run_for(60.0)
    assert scene.evictions() == {}
    assert scene.events() == [MARKED, CANCELLED]


def live_reads(scene: Scene) -> int:
    """Return how often the controller has fetched the node from the API server."""
    reads = [
        (request.method, request.path)
        for _, who, request in scene.cluster.transport.requests
        if who == "node-controller"
    ]
    return reads.count(("GET", "/api/v1/nodes/n1"))


def test_one_live_read_serves_all_pods_of_a_node(scene: Scene) -> None:
    scene.create(*(pod(f"p{number}", tolerations=[toleration(seconds=10)], node="n1") for number in range(30)))
    scene.taint(taint())
    scene.run_for(60.0)
    assert len(scene.evictions()) == 30
    assert live_reads(scene) == 1


def test_failed_live_read_is_not_retried_for_each_pod(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    """Regression test: every pod was retried separately, with about 300 reads of the node within 30 s."""
    broken = Fault(kind=FaultKind.COMMAND_ANSWERED, start=12.0, until=43.0, status=500, resource="nodes", object="n1")
    scene = Scene(make_cluster(faults=[broken]))
    scene.create(*(pod(f"p{number}", tolerations=[toleration(seconds=10)], node="n1") for number in range(30)))
    scene.taint(taint())
    scene.run_for(60.0)
    evictions = scene.evictions()
    assert len(evictions) == 30
    assert min(evictions.values()) > 39.0
    assert 25 <= live_reads(scene) <= 35


def test_failed_eviction_is_retried_and_its_event_recorded_once(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    broken = Fault(kind=FaultKind.COMMAND_ANSWERED, start=3.0, until=60.0, status=500, object="default/p1")
    scene = Scene(make_cluster(faults=[broken]))
    scene.create(pod("p1", node="n1"), pod("p2", node="n1"), on=node(taints=[taint()]))
    scene.run_for(300.0)
    assert list(scene.evictions()) == ["p2", "p1"]
    assert scene.evictions()["p1"] > 56.0
    assert scene.events() == [MARKED]


def test_wall_clock_jump_does_not_change_eviction_times(scene: Scene) -> None:
    scene.create(pod("p1", tolerations=[toleration(seconds=10)], node="n1"))
    scene.taint(taint())
    scene.run_for(5.0)
    scene.cluster.clock.skew = 3600.0
    scene.run_for(60.0)
    assert scene.evictions() == {"p1": pytest.approx(10, abs=0.05)}


def test_evictions_are_counted_and_timed(scene: Scene, logs: LogCapture) -> None:
    scene.create(
        pod("p1", tolerations=[toleration(seconds=10)], node="n1"), pod("p2", node="n1"), on=node(taints=[taint()])
    )
    scene.run_for(20.0)
    metrics = scene.manager.metrics
    assert metrics.counter(EVICTIONS).value == 2
    duration = metrics.histogram(EVICTION_DURATION)
    assert sum(duration.counts) == 2
    assert 0 < duration.sum < 0.1, "seconds since the end of the toleration time"
    assert [entry["key"] for entry in logs.entries if entry["event"] == "pod evicted"] == ["default/p2", "default/p1"]
