"""Controllers do not act on objects that depend on an unreadable object."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import LogCapture

from kcm.actors.app.arguments import read_options
from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.nodes import node_ipam, node_lifecycle, pod_garbage_collector, taint_eviction
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.nodes import LEASE_NAMESPACE
from kcm.protocols.objects import Key, Object, key_of
from kcm.protocols.resources import DEPLOYMENTS, LEASES, NODES, PODS, REPLICASETS, Resource
from tests.actors.controllers.nodes.fleet import Fleet, options_of
from tests.support.objects import deployment, node, pod, replica_set, taint

WHY = "metadata.labels is a map of strings"


class Spoiled:
    """Objects of a resource that a manager cannot decode until heal() is called."""

    def __init__(self, cluster: SimulatedCluster, manager: ControllerSystem, resource: Resource) -> None:
        self.keys: set[Key] = set()
        self._cluster, self._resource = cluster, resource
        table = manager.tables[resource.id]
        make = table.make_entry

        def make_entry(obj: Object, raw: bytes) -> Any:
            if key_of(obj) in self.keys:
                raise ValueError(WHY)
            return make(obj, raw)

        table.make_entry = make_entry  # type: ignore[method-assign]

    def spoil(self, key: Key) -> None:
        """Make an object unreadable, from a change that follows at once."""
        self.keys.add(key)
        self._change(key)

    def heal(self, key: Key) -> None:
        self.keys.discard(key)
        self._change(key)

    def _change(self, key: Key) -> None:
        if self._cluster.get(self._resource, key) is not None:
            now = str(self._cluster.clock.monotonic())
            self._cluster.merge(self._resource, key, {"metadata": {"annotations": {"changed": now}}})


def pods_of(cluster: SimulatedCluster) -> list[Key]:
    return sorted(key_of(pod) for pod in cluster.list(PODS))


@pytest.fixture
def scene(cluster: SimulatedCluster) -> tuple[SimulatedCluster, ControllerSystem, Spoiled, Key]:
    """Return a cluster with a ReplicaSet of one pod, which the manager has never been able to read."""
    first = cluster.manager()
    cluster.create(REPLICASETS, replica_set(replicas=1))
    cluster.run_for(5.0)
    (key,) = pods_of(cluster)
    first.halt()
    manager = cluster.manager()
    spoiled = Spoiled(cluster, manager, PODS)
    spoiled.keys.add(key)
    cluster.run_for(60.0)
    return cluster, manager, spoiled, key


Scene = tuple[SimulatedCluster, ControllerSystem, Spoiled, Key]


def test_replica_set_creates_no_pod_while_one_of_its_pods_is_unreadable(scene: Scene, logs: LogCapture) -> None:
    cluster, manager, spoiled, key = scene
    assert pods_of(cluster) == [key]
    entries = [entry for entry in logs.entries if entry["event"].startswith("object cannot be read")]
    assert [(entry["resource"], entry["key"], entry["error"]) for entry in entries] == [
        ("pods", key, f"ValueError: {WHY}")
    ]
    assert manager.checks()["unreadable-objects"]() == f"pods {key}: ValueError: {WHY}"
    spoiled.heal(key)
    cluster.run_for(60.0)
    assert pods_of(cluster) == [key]
    assert manager.checks()["unreadable-objects"]() is None
    assert [entry["key"] for entry in logs.entries if entry["event"].startswith("object can be read again")] == [key]


def test_metric_counts_unreadable_objects(scene: Scene) -> None:
    _, manager, _, _ = scene
    values = {
        labels: series.value
        for family, all_series in manager.metrics.collect()
        if family.name == "kcm_unreadable_objects"
        for labels, series in all_series
    }
    assert values["pods",] == 1
    assert values["nodes",] == 0


def test_deleted_unreadable_pod_is_replaced(scene: Scene) -> None:
    cluster, _, _, key = scene
    cluster.delete(PODS, key)
    assert cluster.run_until(lambda: len(pods_of(cluster)) == 1 and pods_of(cluster) != [key], within=30.0)


def test_status_is_written_while_a_pod_is_unreadable(scene: Scene) -> None:
    cluster, _, _, _ = scene
    cluster.merge(REPLICASETS, "default/web", {"spec": {"replicas": 3}})
    cluster.run_for(30.0)
    (owner,) = cluster.list(REPLICASETS)
    assert owner["status"]["observedGeneration"] == owner["metadata"]["generation"]
    assert len(pods_of(cluster)) == 1


def test_other_owners_and_namespaces_are_not_affected(scene: Scene) -> None:
    cluster, _, _, _ = scene
    cluster.create(REPLICASETS, replica_set("other", replicas=2))
    assert cluster.run_until(lambda: len(pods_of(cluster)) == 3, within=30.0), (
        "the unreadable pod has another owner, which is readable"
    )


def test_replica_set_deletes_no_pod_while_one_of_its_pods_is_unreadable(cluster: SimulatedCluster) -> None:
    manager = cluster.manager()
    spoiled = Spoiled(cluster, manager, PODS)
    cluster.create(REPLICASETS, replica_set(replicas=3))
    cluster.run_for(5.0)
    key = pods_of(cluster)[0]
    spoiled.spoil(key)
    cluster.run_for(1.0)
    cluster.merge(REPLICASETS, "default/web", {"spec": {"replicas": 1}})
    cluster.run_for(60.0)
    assert len(pods_of(cluster)) == 3, "the unreadable pod may have failed: then two deletions would be too many"
    spoiled.heal(key)
    assert cluster.run_until(lambda: len(pods_of(cluster)) == 1, within=60.0)


def test_unreadable_replica_set_is_not_changed(cluster: SimulatedCluster) -> None:
    manager = cluster.manager()
    spoiled = Spoiled(cluster, manager, REPLICASETS)
    cluster.create(REPLICASETS, replica_set(replicas=2))
    cluster.run_for(5.0)
    spoiled.spoil("default/web")
    cluster.run_for(1.0)
    cluster.delete(PODS, pods_of(cluster)[0])
    cluster.run_for(60.0)
    assert len(pods_of(cluster)) == 1, "its spec is unknown"
    spoiled.heal("default/web")
    assert cluster.run_until(lambda: len(pods_of(cluster)) == 2, within=60.0)


def test_deployment_creates_no_replica_set_while_one_of_its_own_is_unreadable(cluster: SimulatedCluster) -> None:
    first = cluster.manager()
    cluster.create(DEPLOYMENTS, deployment(replicas=1))
    cluster.run_for(5.0)
    (key,) = [key_of(replica_set) for replica_set in cluster.list(REPLICASETS)]
    first.halt()
    manager = cluster.manager()
    spoiled = Spoiled(cluster, manager, REPLICASETS)
    spoiled.keys.add(key)
    cluster.run_for(5.0)
    cluster.merge(DEPLOYMENTS, "default/web", {"spec": {"template": {"metadata": {"annotations": {"new": "x"}}}}})
    cluster.run_for(60.0)
    assert [key_of(replica_set) for replica_set in cluster.list(REPLICASETS)] == [key]
    spoiled.heal(key)
    assert cluster.run_until(lambda: len(cluster.list(REPLICASETS)) == 2, within=60.0)


def test_node_with_unreadable_lease_is_not_marked_unhealthy(cluster: SimulatedCluster, logs: LogCapture) -> None:
    def marked_unhealthy() -> set[str]:
        return {entry["node"] for entry in logs.entries if entry["event"] == "node is silent"}

    fleet = Fleet(cluster)
    manager = cluster.manager(controllers=[node_lifecycle.SPEC], options=options_of())
    spoiled = Spoiled(cluster, manager, LEASES)
    spoiled.keys.add(f"{LEASE_NAMESPACE}/a1")
    cluster.run_for(300.0)
    assert marked_unhealthy() == set(), "its Lease is renewed, but unreadable"
    fleet.silent.add("a2")
    cluster.run_for(120.0)
    assert marked_unhealthy() == {"a2"}, "other nodes are monitored"
    spoiled.heal(f"{LEASE_NAMESPACE}/a1")
    fleet.silent.add("a1")
    cluster.run_for(120.0)
    assert marked_unhealthy() == {"a1", "a2"}


@pytest.mark.parametrize("resource", [PODS, NODES])
def test_pod_is_not_evicted_while_it_or_its_node_is_unreadable(cluster: SimulatedCluster, resource: Resource) -> None:
    cluster.create(NODES, node("n1"))
    cluster.create(NODES, node("n2"))
    cluster.create(PODS, pod("a", node="n1"))
    cluster.create(PODS, pod("b", node="n2"))
    manager = cluster.manager(controllers=[taint_eviction.SPEC])
    spoiled = Spoiled(cluster, manager, resource)
    cluster.run_for(5.0)
    key = "default/a" if resource is PODS else "n1"
    cluster.merge(NODES, "n1", {"spec": {"taints": [taint()]}})
    spoiled.keys.add(key)
    cluster.merge(NODES, "n2", {"spec": {"taints": [taint()]}})
    spoiled.spoil(key)
    cluster.run_for(30.0)
    evicted = [pod["metadata"]["name"] for pod in cluster.list(PODS) if "deletionTimestamp" in pod["metadata"]]
    assert evicted == ["b"], "other pods are evicted"
    spoiled.heal(key)
    assert cluster.run_until(lambda: all("deletionTimestamp" in p["metadata"] for p in cluster.list(PODS)), within=60.0)


def test_pods_of_unreadable_node_are_not_collected(cluster: SimulatedCluster) -> None:
    cluster.create(NODES, node("n1"))
    cluster.create(PODS, pod("a", node="n1"))
    cluster.create(PODS, pod("b", node="gone"))
    manager = cluster.manager(controllers=[pod_garbage_collector.SPEC])
    Spoiled(cluster, manager, NODES).keys.add("n1")
    cluster.run_for(300.0)
    assert pods_of(cluster) == ["default/a"]


def test_unreadable_pod_does_not_block_the_collection(cluster: SimulatedCluster) -> None:
    for name in ("a", "b"):
        cluster.create(PODS, pod(name, node="gone"))
    manager = cluster.manager(controllers=[pod_garbage_collector.SPEC])
    spoiled = Spoiled(cluster, manager, PODS)
    cluster.run_for(5.0)
    spoiled.spoil("default/a")
    cluster.run_for(300.0)
    assert pods_of(cluster) == ["default/a"]
    spoiled.heal("default/a")
    assert cluster.run_until(lambda: pods_of(cluster) == [], within=300.0)


def test_no_cidr_is_allocated_while_a_node_is_unreadable(cluster: SimulatedCluster) -> None:
    flags = ["--cluster-cidr=10.0.0.0/22", "--allocate-node-cidrs=true"]
    manager = cluster.manager(controllers=[node_ipam.SPEC], options=read_options(flags))
    spoiled = Spoiled(cluster, manager, NODES)

    def range_of(name: str) -> Any:
        return (cluster.get(NODES, name) or {})["spec"].get("podCIDR")

    cluster.create(NODES, node("n0"))
    cluster.run_for(5.0)
    assert range_of("n0") == "10.0.0.0/24"
    spoiled.keys.add("n1")
    cluster.create(NODES, node("n1", spec={"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"]}))
    cluster.run_for(1.0)
    cluster.create(NODES, node("n2"))
    cluster.run_for(60.0)
    assert range_of("n2") is None
    spoiled.heal("n1")
    assert cluster.run_until(lambda: range_of("n2") == "10.0.2.0/24", within=60.0)
