"""A client's rate limit applies to all of its senders, and its use is a metric."""

from __future__ import annotations

from msgspec.structs import replace

from kcm.actors.controllers.nodes import ttl
from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.resources import NODES
from tests.support.objects import node

BURST, QPS = 10, 5.0


def sent(cluster: SimulatedCluster) -> list[float]:
    return [at for at, client, request in cluster.transport.requests if client == "ttl-controller"]


def test_restarted_dispatcher_keeps_the_state_of_rate_limits(cluster: SimulatedCluster) -> None:
    options = Options()
    limits = replace(options.client_limits, qps=QPS, burst=BURST)
    manager = cluster.manager(controllers=[ttl.SPEC], options=replace(options, client_limits=limits))
    for number in range(60):
        cluster.create(NODES, node(f"n{number}"))
    for _ in range(3):
        before = len(sent(cluster))
        assert cluster.run_until(lambda before=before: len(sent(cluster)) >= before + 12)
        cluster.world.kill(manager.actors, "dispatcher")
    cluster.run_for(60.0)
    times = sent(cluster)
    assert len(times) >= 60
    for first, last in zip(times, times[BURST + 5 :], strict=False):
        assert last - first >= 5 / QPS - 0.01, "never more than the burst and what has come in since"
