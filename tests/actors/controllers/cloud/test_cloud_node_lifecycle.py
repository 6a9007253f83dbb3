"""Tests of nodes whose instance is deleted or shut down, in a simulated cluster with a fake cloud."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcm.actors.controllers.cloud import node_route
from kcm.actors.controllers.cloud.cloud_node_lifecycle import SHUTDOWN, SPEC
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.cloud import InstanceExists
from kcm.protocols.objects import Object, name_of
from kcm.protocols.resources import EVENTS, NODES
from kcm.runtime.cloud.fake import INSTANCE, FakeCloud, FakeInstances
from kcm.runtime.cloud.provider import InstanceMetadata, Instances, NotSupportedError
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.actors.controllers.nodes.fleet import options_of
from tests.support.objects import node

NOT_THERE = "Deleting node n1 because it does not exist in the cloud provider"
PERIOD = 5.0


class Cloud(FakeCloud):
    """Fake cloud whose queries may fail. queried: nodes whose existence was queried, in order."""

    instances: Instances  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.machines: FakeInstances = self.instances  # type: ignore[assignment]
        self.instances = self
        self.queried: list[str] = []
        self.shut_down_queries = 0
        self.exists_error: Exception | None = None
        self.shut_down_error: Exception | None = None

    def exists(self, node: Object) -> bool:
        self.queried.append(name_of(node))
        if self.exists_error is not None:
            raise self.exists_error
        return self.machines.exists(node)

    def is_shut_down(self, node: Object) -> bool:
        self.shut_down_queries += 1
        if self.shut_down_error is not None:
            raise self.shut_down_error
        return self.machines.is_shut_down(node)

    def metadata(self, node: Object) -> InstanceMetadata:
        return self.machines.metadata(node)


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def cluster(cloud: Cloud, make_cluster: Callable[..., SimulatedCluster]) -> SimulatedCluster:
    """Return a simulated cluster without nodes, whose manager runs only cloud-node-lifecycle-controller."""
    cluster = make_cluster(cloud=cloud)
    options = options_of("--cloud-provider=fake", f"--node-monitor-period={PERIOD:.0f}s")
    cluster.manager(controllers=[SPEC], options=options)
    return cluster


def taints_of(cluster: SimulatedCluster, name: str = "n1") -> list[tuple[str, str]]:
    there = cluster.get(NODES, name)
    assert there is not None
    return [(taint["key"], taint["effect"]) for taint in there["spec"].get("taints") or ()]


def events(cluster: SimulatedCluster) -> list[tuple[str, str, str]]:
    return [(event["type"], event["reason"], event["message"]) for event in cluster.list(EVENTS)]


@pytest.mark.parametrize("ready", ["False", "Unknown", None])
def test_unready_node_without_instance_is_deleted(ready: str | None, cluster: SimulatedCluster, cloud: Cloud) -> None:
    cloud.machines.terminate("n1")
    cluster.create(NODES, node(ready=ready))
    cluster.create(NODES, node(ready=ready, name="n2"))
    cluster.run_for(2.0)
    assert [name_of(each) for each in cluster.list(NODES)] == ["n2"]
    assert events(cluster) == [("Normal", "DeletingNode", NOT_THERE)]


def test_instance_of_ready_node_is_not_queried(cluster: SimulatedCluster, cloud: Cloud) -> None:
    cloud.machines.terminate("n1")
    cluster.create(NODES, node(ready="True"))
    cluster.run_for(60.0)
    assert cluster.get(NODES, "n1") is not None
    assert cloud.queried == []


def test_node_is_kept_and_queried_every_period_while_the_cloud_fails(cluster: SimulatedCluster, cloud: Cloud) -> None:
    cloud.machines.terminate("n1")
    cloud.exists_error = RuntimeError("the cloud is in the rain")
    cluster.create(NODES, node(ready="False"))
    cluster.run_for(3 * PERIOD + 1)
    assert cluster.get(NODES, "n1") is not None
    assert len(cloud.queried) == 4
    cloud.exists_error = None
    cluster.run_for(PERIOD)
    assert cluster.get(NODES, "n1") is None


def test_changes_of_a_node_do_not_cause_more_queries(cluster: SimulatedCluster, cloud: Cloud) -> None:
    cluster.create(NODES, node(ready="False"))
    for count in range(40):
        cluster.merge(NODES, "n1", {"metadata": {"annotations": {"count": str(count)}}})
        cluster.run_for(PERIOD / 10)
    assert 4 <= len(cloud.queried) <= 5


def test_shut_down_node_is_tainted_until_it_is_ready(cluster: SimulatedCluster, cloud: Cloud) -> None:
    cloud.machines.shut_down("n1")
    other = {"key": "mine", "effect": "NoSchedule"}
    cluster.create(NODES, node(ready="False", taints=(other,)))
    cluster.run_for(2.0)
    assert taints_of(cluster) == [("mine", "NoSchedule"), (SHUTDOWN, "NoSchedule")]
    cloud.machines.start("n1")
    cluster.run_for(2 * PERIOD)
    assert len(taints_of(cluster)) == 2, "the node is not ready yet"
    cluster.merge(NODES, "n1", {"status": node(ready="True")["status"]}, subresource="status")
    cluster.run_for(2.0)
    assert taints_of(cluster) == [("mine", "NoSchedule")]
    assert events(cluster) == []


@pytest.mark.parametrize(
    ("error", "queries"), [(RuntimeError("no answer"), 3), (NotSupportedError("unimplemented"), 1)]
)
def test_node_is_not_tainted_if_the_cloud_cannot_report_shutdown(
    error: Exception, queries: int, cluster: SimulatedCluster, cloud: Cloud
) -> None:
    cloud.machines.shut_down("n1")
    cloud.shut_down_error = error
    cluster.create(NODES, node(ready="False"))
    cluster.run_for(2 * PERIOD + 1)
    assert taints_of(cluster) == []
    assert cluster.get(NODES, "n1") is not None
    assert cloud.shut_down_queries == queries, "not queried again if unsupported"


def test_result_for_node_that_is_ready_again_is_ignored(cluster: SimulatedCluster, cloud: Cloud) -> None:
    cluster.calls.latency = 30.0
    cloud.machines.terminate("n1")
    cluster.create(NODES, node(ready="False"))
    cluster.run_for(10.0)
    cluster.merge(NODES, "n1", {"status": node(ready="True")["status"]}, subresource="status")
    cluster.run_for(60.0)
    assert cluster.get(NODES, "n1") is not None
    assert events(cluster) == []


def test_slow_query_of_one_node_does_not_delay_others(cluster: SimulatedCluster, cloud: Cloud) -> None:
    cluster.calls.latency = 40.0
    cluster.create(NODES, node(ready="False"))
    cluster.run_for(2.0)
    cluster.calls.latency = 0.1
    cloud.machines.terminate("n2")
    cluster.create(NODES, node(ready="False", name="n2"))
    cluster.run_for(2.0)
    assert cluster.get(NODES, "n2") is None
    queries = [call for _, call in cluster.calls.made if isinstance(call, InstanceExists)]
    assert len(queries) == 2, "the first is still pending"


def test_annotation_removes_a_machine_from_the_cloud(cluster: SimulatedCluster) -> None:
    cluster.create(NODES, node(ready="False"))
    cluster.run_for(2.0)
    cluster.merge(NODES, "n1", {"metadata": {"annotations": {INSTANCE: "stopped"}}})
    cluster.run_for(2 * PERIOD)
    assert taints_of(cluster) == [(SHUTDOWN, "NoSchedule")]
    cluster.merge(NODES, "n1", {"metadata": {"annotations": {INSTANCE: "gone"}}})
    cluster.run_for(2 * PERIOD)
    assert cluster.get(NODES, "n1") is None


def test_cloud_controllers_are_skipped_without_a_cloud(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    for flags, running in (
        ((), ()),
        (("--cloud-provider=external", "--cluster-cidr=10.0.0.0/8"), ()),
        (("--cloud-provider=fake",), ("cloud-node-lifecycle-controller",)),
        (
            ("--cloud-provider=fake", "--cluster-cidr=10.0.0.0/8"),
            ("cloud-node-lifecycle-controller", "node-route-controller"),
        ),
        (
            ("--cloud-provider=fake", "--cluster-cidr=10.0.0.0/8", "--configure-cloud-routes=false"),
            ("cloud-node-lifecycle-controller",),
        ),
    ):
        system = make_cluster().manager(controllers=[SPEC, node_route.SPEC], options=options_of(*flags))
        assert system.enabled == running
        assert {*system.enabled, *system.skipped} == {spec.name for spec in (SPEC, node_route.SPEC)}


@pytest.mark.parametrize("killed", ["controller:cloud-node-lifecycle-controller", "dispatcher"])
def test_node_is_deleted_once_despite_a_crash_during_the_query(
    killed: str, cloud: Cloud, make_cluster: Callable[..., SimulatedCluster]
) -> None:
    cluster = make_cluster(cloud=cloud)
    system = cluster.manager(controllers=[SPEC], options=options_of("--cloud-provider=fake"))
    cluster.calls.latency = 4.0
    cloud.machines.terminate("n1")
    cluster.create(NODES, node(ready="False"))
    cluster.run_for(3.0)
    cluster.world.kill(system.actors, killed)
    cluster.run_for(30.0)
    assert cluster.get(NODES, "n1") is None
    assert events(cluster) == [("Normal", "DeletingNode", NOT_THERE)]


def test_new_node_of_the_same_name_is_not_deleted(cluster: SimulatedCluster, cloud: Cloud) -> None:
    cluster.calls.latency = 30.0
    cloud.machines.terminate("n1")
    cluster.create(NODES, node(ready="False"))
    cluster.run_for(10.0)
    cluster.delete(NODES, "n1")
    cluster.create(NODES, node(ready="False"))
    cluster.run_for(25.0)
    assert cluster.get(NODES, "n1") is not None, "the result was for the previous node"
    cluster.run_for(60.0)
    assert cluster.get(NODES, "n1") is None
    deletions = [request for _, client, request in cluster.network.requests if request.method == "DELETE"]
    assert [b'"uid"' in request.body for request in deletions] == [True]


def test_failed_deletion_is_logged_and_retried_in_the_next_pass(
    cloud: Cloud, make_cluster: Callable[..., SimulatedCluster]
) -> None:
    refused = Fault(kind=FaultKind.COMMAND_ANSWERED, until=8.0, status=500, resource="nodes", object="n1")
    cluster = make_cluster(cloud=cloud, faults=[refused])
    cluster.manager(controllers=[SPEC], options=options_of("--cloud-provider=fake"))
    cloud.machines.terminate("n1")
    cluster.run_for(2.0)
    cluster.create(NODES, node(ready="False"))
    cluster.run_for(3.0)
    assert ("Warning", "DeletingNodeFailed", "Failed deleting node n1: injected: InternalError") in events(cluster)
    cluster.run_for(10.0)
    assert cluster.get(NODES, "n1") is None
