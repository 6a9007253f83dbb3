"""Controllers read their own writes: nothing is done twice, however late the watches are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.system import ControllerSystem
from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.resources import PODS, REPLICASETS
from kcm.runtime.client.api import Request, Response, Stream, Transport
from kcm.runtime.simulation.clock import VirtualClock
from tests.support.objects import replica_set


class LateWatches:
    """Transport whose watches are `seconds` late, in order."""

    def __init__(self, inner: Transport, clock: VirtualClock) -> None:
        self._inner, self._clock = inner, clock
        self.seconds = 0.0

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        self._inner.send(request, client=client, on_response=on_response)

    def watch(
        self,
        request: Request,
        *,
        client: str,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> Stream:
        return self._inner.watch(
            request,
            client=client,
            on_lines=lambda lines: self._clock.call_after(self.seconds, lambda: on_lines(lines)),
            on_end=lambda response: self._clock.call_after(self.seconds, lambda: on_end(response)),
        )


def late_manager(cluster: SimulatedCluster, log: FilteringBoundLogger, seconds: float) -> ControllerSystem:
    """Start a manager whose watches lag once its tables are synced. Watches that lag from the start would be cut."""
    transport = LateWatches(cluster.transport, cluster.clock)
    options = Options()
    manager = ControllerSystem(
        transport=transport,
        log=log,
        options=replace(options, generic=replace(options.generic, watch_silence_limit=10 * seconds)),
        clock=cluster.clock,
        spawner=cluster.world,
        seed=3,
    ).start()
    cluster.run_for(3.0)
    transport.seconds = seconds
    return manager


def made(cluster: SimulatedCluster) -> int:
    return sum(
        1
        for _, client, request in cluster.transport.requests
        if client == "replicaset-controller" and request.method == "POST" and request.path.endswith("/pods")
    )


def deleted(cluster: SimulatedCluster) -> int:
    return sum(
        1
        for _, client, request in cluster.transport.requests
        if client == "replicaset-controller" and request.method == "DELETE"
    )


@pytest.mark.parametrize("seconds", [10.0, 360.0])  # 6 min: past upstream's expectation time-out, #129795
def test_a_replica_set_never_makes_a_pod_too_many(
    cluster: SimulatedCluster, log: FilteringBoundLogger, seconds: float
) -> None:
    late_manager(cluster, log, seconds)
    cluster.hollow_nodes()
    cluster.create(REPLICASETS, replica_set(replicas=5))
    cluster.run_for(3 * seconds + 300.0)
    assert len(cluster.list(PODS, "default")) == 5
    assert (made(cluster), deleted(cluster)) == (5, 0)

    cluster.merge(REPLICASETS, "default/web", {"spec": {"replicas": 8}})
    cluster.run_for(3 * seconds + 300.0)
    assert (made(cluster), deleted(cluster)) == (8, 0)

    cluster.merge(REPLICASETS, "default/web", {"spec": {"replicas": 3}})
    cluster.run_for(3 * seconds + 300.0)
    assert len(cluster.list(PODS, "default")) == 3
    assert (made(cluster), deleted(cluster)) == (8, 5)


@pytest.mark.parametrize("seconds", [10.0, 360.0])
def test_nor_when_the_controller_dies_while_the_watches_are_late(
    cluster: SimulatedCluster, log: FilteringBoundLogger, seconds: float
) -> None:
    manager = late_manager(cluster, log, seconds)
    cluster.create(REPLICASETS, replica_set(replicas=5))
    assert cluster.run_until(lambda: made(cluster) >= 3, within=4 * seconds + 60.0)
    cluster.world.kill(manager.actors, "controller:replicaset-controller")
    cluster.run_for(4 * seconds + 600.0)
    assert len(cluster.list(PODS, "default")) == 5
    assert deleted(cluster) == 0


def test_a_pod_that_the_kubelet_rejects_at_once_makes_no_hot_loop(cluster: SimulatedCluster) -> None:
    """Each rejected pod is Failed at once, and replaced with backoff. Source: kubernetes/kubernetes#72593."""
    cluster.hollow_nodes()
    cluster.manager()
    cluster.run_for(3.0)
    wanted = replica_set(replicas=1)
    wanted["spec"]["template"]["metadata"]["annotations"] = {"hollow.kcm.dev/reject": "true"}
    cluster.create(REPLICASETS, wanted)
    cluster.run_for(600.0)
    in_ten_minutes = made(cluster)
    assert 4 <= in_ten_minutes <= 20
    cluster.run_for(600.0)
    assert made(cluster) - in_ten_minutes <= 4
