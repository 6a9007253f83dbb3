"""Faults with a fixed time are written to a cluster through a plain transport."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structlog.testing import LogCapture

from kcm.actors.faults.live import LiveFaults
from kcm.actors.hollow.behaviour import SILENT
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.cloud import ListRoutes
from kcm.protocols.messages.outcomes import Done, Outcome, ServerFailure
from kcm.protocols.objects import annotations_of, name_of
from kcm.protocols.resources import LEASES, NODES
from kcm.runtime.cloud.calls import prepare_cloud_call
from kcm.runtime.cloud.fake import FakeCloud
from kcm.runtime.faults.plan_file import FaultPlan
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.simulation.calls import SimulatedCalls

LEASE = {"metadata": {"name": "manager", "namespace": "kube-system"}, "spec": {"holderIdentity": "we"}}


def begin(cluster: SimulatedCluster, log: Any, faults: str) -> LiveFaults:
    plan = FaultPlan(seed=1, faults=parse_faults(faults))
    lease = ("kube-system", "manager")
    live = LiveFaults(plan, transport=cluster.transport, clock=cluster.clock, lease=lease, log=log)
    live.begin()
    return live


def silent(cluster: SimulatedCluster) -> list[str]:
    return sorted(name_of(node) for node in cluster.list(NODES) if annotations_of(node).get(SILENT) == "true")


def seen(cluster: SimulatedCluster, times: list[float], look: Callable[[], Any]) -> list[Any]:
    found = []
    start = cluster.clock.monotonic()
    for when in times:
        cluster.run_for(start + when - cluster.clock.monotonic())
        found.append(look())
    return found


def test_silent_zone_recovers(cluster: SimulatedCluster, log: Any) -> None:
    cluster.hollow_nodes(nodes=4, zones=2)
    cluster.run_for(5)
    begin(cluster, log, "zone-silent 10..20 object=zone-a")
    assert seen(cluster, [9, 11, 19, 21], lambda: silent(cluster)) == [
        [],
        ["hollow-node-0", "hollow-node-2"],
        ["hollow-node-0", "hollow-node-2"],
        [],
    ]


def test_nodes_that_come_while_their_zone_is_silent_fall_silent_too(cluster: SimulatedCluster, log: Any) -> None:
    begin(cluster, log, "zone-silent 1.. object=zone-a")
    cluster.run_for(3)
    cluster.hollow_nodes(nodes=2, zones=2)
    cluster.run_for(5)
    assert silent(cluster) == ["hollow-node-0"]


def test_a_node_flaps(cluster: SimulatedCluster, log: Any) -> None:
    cluster.hollow_nodes(nodes=2, zones=1)
    cluster.run_for(5)
    begin(cluster, log, "node-flapping 0..30 object=hollow-node-1 seconds=10")
    nodes = ["hollow-node-1"]
    assert seen(cluster, [5, 15, 25, 35, 45], lambda: silent(cluster)) == [nodes, [], nodes, [], []]


def test_nodes_silent_at_the_end_of_the_run_resume(cluster: SimulatedCluster, log: Any) -> None:
    cluster.hollow_nodes(nodes=2, zones=1)
    cluster.run_for(5)
    live = begin(cluster, log, "node-silent object=hollow-node-1; node-silent 10.. object=hollow-node-0")
    cluster.run_for(5)
    assert silent(cluster) == ["hollow-node-1"]
    live.stop()
    cluster.run_for(20)
    assert silent(cluster) == []


def test_a_lease_is_stolen(cluster: SimulatedCluster, log: Any, logs: LogCapture) -> None:
    cluster.create(LEASES, LEASE)
    live = begin(cluster, log, "lease-stolen 3.. seconds=15")
    holders = seen(
        cluster, [2, 4], lambda: (cluster.get(LEASES, "kube-system/manager") or {})["spec"].get("holderIdentity")
    )
    assert holders == ["we", "somebody-else"]
    live.stop()
    assert logs.entries[-1]["struck"] == {"lease-stolen": 1}


def test_failure_to_list_nodes_is_logged(cluster: SimulatedCluster, log: Any, logs: LogCapture) -> None:
    cluster.network.server_is_down = True
    begin(cluster, log, "zone-silent")
    cluster.run_for(1)
    assert [entry["event"] for entry in logs.entries if entry["log_level"] == "error"] == ["nodes are not listed"]


def test_calls_into_a_cloud_meet_faults_too(cluster: SimulatedCluster, log: Any) -> None:
    live = begin(cluster, log, "call-answered status=500 most=1 resource=routes")
    calls, cloud = live.way_out(SimulatedCalls(clock=cluster.clock)), FakeCloud()
    outcomes: list[Outcome] = []
    for _ in range(2):
        calls.send(prepare_cloud_call(cloud, ListRoutes("c")), outcomes.append)
        cluster.run_for(1)
    assert outcomes == [ServerFailure("injected: the cloud returned 500"), Done(b"[]")]
