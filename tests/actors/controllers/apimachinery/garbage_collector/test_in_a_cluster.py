"""Garbage collector in a simulated cluster, with custom resources, restarts and failures."""

from __future__ import annotations

import re
from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.apimachinery.garbage_collector import SPEC
from kcm.actors.controllers.apimachinery.garbage_collector.spec import SYNC_ERRORS
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.engine.elector import Election
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, make_key, name_of, uid_of
from kcm.protocols.resources import DEPLOYMENTS, EVENTS, NODES, PODS, REPLICASETS, Resource
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.actors.engine.discovery.test_discovered_resources import CRDS, THINGS, crd

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
SECRETS = Resource(version="v1", plural="secrets", kind="Secret")
NAME = "garbage-collector-controller"
SOON = 20.0  # seconds until a new resource has a table and its objects are synced


class Family:
    """Cluster with a manager that runs only the garbage collector, and builders of owners and dependents."""

    def __init__(self, log: FilteringBoundLogger, *faults: Fault) -> None:
        self.cluster = SimulatedCluster(log=log, faults=faults)
        self.system = self.cluster.manager(controllers=(SPEC,))
        self.cluster.run_for(1.0)

    def make(self, resource: Resource, name: str, *owners: Object, block: bool = True, **more: Any) -> Object:
        """Create an object. owners: results of make(). more: fields of the metadata."""
        references = [self.reference(owner, blockOwnerDeletion=block) for owner in owners]
        obj: dict[str, Any] = {"metadata": {"name": name, **more}}
        if references:
            obj["metadata"]["ownerReferences"] = references
        if resource is PODS:
            obj["spec"] = {"containers": [{"name": "c", "image": "i"}]}
        if resource in (REPLICASETS, DEPLOYMENTS):
            labels = {"app": name}
            pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            obj["spec"] = {"selector": {"matchLabels": labels}, "template": pod}
        return {"apiVersion": resource.api_version, "kind": resource.kind, **self.cluster.create(resource, obj)}

    @staticmethod
    def reference(owner: Object, **more: Any) -> Object:
        return {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": name_of(owner),
            "uid": uid_of(owner),
            **more,
        }

    def generations(self) -> None:
        """Create Deployment d, its ReplicaSet rs with pods p and q, and a pod without an owner."""
        deployment = self.make(DEPLOYMENTS, "d")
        replicaset = self.make(REPLICASETS, "rs", deployment)
        for name in ("p", "q"):
            self.make(PODS, name, replicaset)
        self.make(PODS, "nobodys")
        self.settle()

    def settle(self, seconds: float = 1.0) -> None:
        self.cluster.run_for(seconds)

    def delete(self, resource: Resource, name: str, policy: str = "") -> None:
        self.cluster.delete(resource, make_key("default" if resource.namespaced else "", name), policy=policy)
        self.settle()

    def get(self, resource: Resource, name: str, namespace: str = "default") -> Object | None:
        return self.cluster.get(resource, make_key(namespace if resource.namespaced else "", name))

    def meta(self, resource: Resource, name: str) -> Object:
        found = self.get(resource, name)
        assert found is not None, f"{resource} {name} is deleted"
        meta: Object = found["metadata"]
        return meta

    def names(self, resource: Resource) -> list[str]:
        return sorted(map(name_of, self.cluster.list(resource)))

    def events(self) -> list[str]:
        return [
            event["message"] for event in self.cluster.list(EVENTS) if event["reason"] == "OwnerRefInvalidNamespace"
        ]

    def examined(self) -> float:
        """Return how many times an object was queued for examination."""
        name = "garbage_collector_attempt_to_delete"
        found = re.search(rf'^workqueue_adds_total{{name="{name}"}} (\S+)', self.system.metrics_text(), re.MULTILINE)
        assert found is not None
        return float(found[1])

    def finalizers(self, resource: Resource, name: str, *names: str) -> None:
        self.cluster.merge(resource, make_key("default", name), {"metadata": {"finalizers": list(names) or None}})
        self.settle()


@pytest.fixture
def family(log: FilteringBoundLogger) -> Family:
    return Family(log)


# Propagation policies.


def test_background_deletion_deletes_dependents(family: Family) -> None:
    family.generations()
    family.delete(DEPLOYMENTS, "d", "Background")
    assert family.names(REPLICASETS) == []
    assert family.names(PODS) == ["nobodys"]


def test_orphaned_dependents_are_kept_without_their_owner(family: Family) -> None:
    family.generations()
    family.delete(REPLICASETS, "rs", "Orphan")
    assert family.names(REPLICASETS) == []
    assert "ownerReferences" not in family.meta(PODS, "p")
    assert "ownerReferences" not in family.meta(PODS, "q")


def test_foreground_deletion_deletes_the_owner_last(family: Family) -> None:
    family.generations()
    family.finalizers(PODS, "p", "example.com/wait")
    family.delete(DEPLOYMENTS, "d", "Foreground")
    assert family.names(PODS) == ["nobodys", "p"]
    for resource, name in ((REPLICASETS, "rs"), (DEPLOYMENTS, "d")):
        assert family.meta(resource, name)["finalizers"] == ["foregroundDeletion"]
    family.finalizers(PODS, "p")
    assert family.names(PODS) == ["nobodys"]
    assert family.names(REPLICASETS) + family.names(DEPLOYMENTS) == []


def test_owner_does_not_wait_for_unblocking_dependents(family: Family) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    family.make(CONFIGMAPS, "owned", owner, block=False, finalizers=["example.com/wait"])
    family.settle()
    family.delete(CONFIGMAPS, "owner", "Foreground")
    assert family.get(CONFIGMAPS, "owner") is None
    assert family.meta(CONFIGMAPS, "owned")["deletionTimestamp"]


def test_owner_stops_waiting_when_a_dependent_does_not_block_any_more(family: Family) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    family.make(CONFIGMAPS, "owned", owner, finalizers=["example.com/wait"])
    family.settle()
    family.delete(CONFIGMAPS, "owner", "Foreground")
    assert family.get(CONFIGMAPS, "owner") is not None
    references = [family.reference(owner, blockOwnerDeletion=False)]
    family.cluster.merge(CONFIGMAPS, "default/owned", {"metadata": {"ownerReferences": references}})
    family.settle()
    assert family.get(CONFIGMAPS, "owner") is None


def test_dependent_with_another_owner_is_kept_with_that_owner(family: Family) -> None:
    first, other = family.make(CONFIGMAPS, "one"), family.make(CONFIGMAPS, "other")
    family.make(CONFIGMAPS, "shared", first, other)
    family.settle()
    family.delete(CONFIGMAPS, "one")
    assert [each["name"] for each in family.meta(CONFIGMAPS, "shared")["ownerReferences"]] == ["other"]
    family.delete(CONFIGMAPS, "other", "Foreground")
    assert family.names(CONFIGMAPS) == []


def test_dependent_with_solid_owner_is_detached_from_waiting_owner(family: Family) -> None:
    first, other = family.make(CONFIGMAPS, "one"), family.make(CONFIGMAPS, "other")
    family.make(CONFIGMAPS, "shared", first, other)
    family.settle()
    family.delete(CONFIGMAPS, "one", "Foreground")
    assert family.get(CONFIGMAPS, "one") is None
    assert [each["name"] for each in family.meta(CONFIGMAPS, "shared")["ownerReferences"]] == ["other"]


def test_finalizer_of_the_object_determines_the_propagation_policy(family: Family) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    middle = family.make(CONFIGMAPS, "middle", owner, finalizers=["orphan"])
    family.make(CONFIGMAPS, "last", middle)
    family.settle()
    family.delete(CONFIGMAPS, "owner")
    assert family.names(CONFIGMAPS) == ["last"]
    assert "ownerReferences" not in family.meta(CONFIGMAPS, "last")


def test_cycle_of_owners_is_deleted_in_the_foreground(family: Family) -> None:
    first = family.make(CONFIGMAPS, "first")
    second = family.make(CONFIGMAPS, "second", first)
    third = family.make(CONFIGMAPS, "third", second)
    references = [family.reference(third, blockOwnerDeletion=True)]
    family.cluster.merge(CONFIGMAPS, "default/first", {"metadata": {"ownerReferences": references}})
    family.settle()
    family.delete(CONFIGMAPS, "first", "Foreground")
    assert family.names(CONFIGMAPS) == []


# Absent owners.


def test_object_created_for_a_deleted_owner_is_deleted(family: Family) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    family.delete(CONFIGMAPS, "owner")
    family.make(CONFIGMAPS, "owner")  # a new object with the same name
    family.make(PODS, "p", owner)
    family.settle()
    assert family.names(PODS) == []
    assert family.names(CONFIGMAPS) == ["owner"]


def test_object_adopted_by_a_deleted_owner_is_deleted(family: Family) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    family.make(PODS, "p")
    family.delete(CONFIGMAPS, "owner")
    references = [family.reference(owner)]
    family.cluster.merge(PODS, "default/p", {"metadata": {"ownerReferences": references}})
    family.settle()
    assert family.names(PODS) == []


def test_owner_of_unknown_kind_counts_as_existing(family: Family) -> None:
    stranger = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "u"}}
    family.make(PODS, "p", stranger)
    family.settle(600.0)
    assert family.names(PODS) == ["p"]


def test_owner_in_another_namespace_is_absent_and_recorded_in_an_event(family: Family) -> None:
    owner = family.make(CONFIGMAPS, "owner", namespace="kube-system")
    good = family.make(CONFIGMAPS, "good", owner, namespace="kube-system")
    family.make(CONFIGMAPS, "bad", owner)
    family.settle(5.0)
    assert family.names(CONFIGMAPS) == ["good", "owner"]
    assert uid_of(good)
    coordinates = f"[v1/ConfigMap, namespace: default, name: owner, uid: {uid_of(owner)}]"
    assert family.events() == [f'ownerRef {coordinates} does not exist in namespace "default"']


def test_wrong_name_in_the_same_namespace_records_no_event(family: Family) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    misnamed = {**owner, "metadata": {**owner["metadata"], "name": "wrong"}}
    family.make(CONFIGMAPS, "bad", misnamed)
    family.settle(5.0)
    assert family.names(CONFIGMAPS) == ["owner"]
    assert family.events() == []


def test_owner_in_a_namespace_of_a_cluster_scoped_object_is_reported_once_per_change(family: Family) -> None:
    owner, other = family.make(CONFIGMAPS, "owner"), family.make(CONFIGMAPS, "other")
    family.settle()
    family.make(NODES, "n1", owner)
    for number in range(3):
        family.settle(60.0)
        references = [family.reference(owner, controller=bool(number % 2))]
        family.cluster.merge(NODES, "n1", {"metadata": {"ownerReferences": references}})
    family.settle(60.0)
    assert counts(family) == [1]
    references = [family.reference(owner), family.reference(other)]
    family.cluster.merge(NODES, "n1", {"metadata": {"ownerReferences": references}})
    family.settle(60.0)
    assert counts(family) == [1, 1]


def counts(family: Family) -> list[int]:
    """Return the count of each event OwnerRefInvalidNamespace."""
    return [event["count"] for event in family.cluster.list(EVENTS) if event["reason"] == "OwnerRefInvalidNamespace"]


def test_cluster_scoped_owner_has_dependents_in_all_namespaces(family: Family) -> None:
    node = family.make(NODES, "n1")
    for namespace in ("default", "kube-system"):
        family.make(CONFIGMAPS, "owned", node, namespace=namespace)
    family.settle(30.0)
    assert family.names(CONFIGMAPS) == ["owned", "owned"]
    family.delete(NODES, "n1")
    assert family.names(CONFIGMAPS) == []
    assert family.events() == []


def test_cluster_scoped_object_is_kept_without_its_namespaced_owner(family: Family) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    family.settle()
    family.make(NODES, "n1", owner)
    family.settle(5.0)
    assert family.events() == [
        f'ownerRef [v1/ConfigMap, namespace: , name: owner, uid: {uid_of(owner)}] does not exist in namespace ""'
    ]
    family.delete(CONFIGMAPS, "owner")
    family.settle(600.0)
    assert family.names(NODES) == ["n1"]


def test_dependent_with_wrong_owner_kind_is_deleted_and_valid_one_kept(family: Family) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    family.make(CONFIGMAPS, "good", owner)
    family.make(CONFIGMAPS, "bad", {**owner, "kind": "Secret"})
    family.settle(5.0)
    assert family.names(CONFIGMAPS) == ["good", "owner"]


def test_invalid_dependent_before_a_valid_one_does_not_affect_it(family: Family) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    family.system.halt()
    family.make(CONFIGMAPS, "bad", {**owner, "kind": "Secret"})
    family.make(CONFIGMAPS, "good", owner)
    family.cluster.manager(controllers=(SPEC,))
    family.settle(40.0)
    assert family.names(CONFIGMAPS) == ["good", "owner"]


# Restarts, custom resources and failures.


def test_dependents_of_an_owner_deleted_before_the_start_are_deleted(family: Family) -> None:
    family.generations()
    family.cluster.crash("manager")
    family.delete(DEPLOYMENTS, "d", "Background")
    assert family.names(REPLICASETS) == ["rs"]
    family.cluster.start_again("manager")
    family.settle(40.0)
    assert family.names(REPLICASETS) == []
    assert family.names(PODS) == ["nobodys"]


def test_restarted_collector_examines_no_object_whose_owner_exists(family: Family) -> None:
    family.generations()
    family.settle(SOON)
    before = family.examined()
    family.system.restart(f"controller:{NAME}")
    family.settle(SOON)
    assert family.system.actors.incarnation(f"controller:{NAME}") == 2
    assert family.examined() == before


def test_interrupted_deletion_is_completed_by_the_next_manager(family: Family) -> None:
    family.generations()
    family.cluster.crash("manager")
    family.delete(DEPLOYMENTS, "d", "Foreground")
    family.delete(REPLICASETS, "rs", "Orphan")
    family.cluster.start_again("manager")
    family.settle(40.0)
    assert family.names(DEPLOYMENTS) + family.names(REPLICASETS) == []
    assert "ownerReferences" not in family.meta(PODS, "p")


def test_custom_resources_are_owners_and_dependents(family: Family) -> None:
    family.cluster.create(CRDS, crd())
    family.settle(SOON)
    thing = family.make(THINGS, "thing")
    family.make(THINGS, "part", thing)
    family.make(PODS, "p", thing)
    family.settle()
    family.delete(THINGS, "thing", "Foreground")
    assert family.names(THINGS) + family.names(PODS) == []
    shared = [family.make(CONFIGMAPS, "one"), family.make(CONFIGMAPS, "other")]
    family.make(THINGS, "shared", *shared)
    family.settle()
    family.delete(CONFIGMAPS, "one")
    assert len(family.meta(THINGS, "shared")["ownerReferences"]) == 1, "custom resources support merge patches only"
    family.delete(CONFIGMAPS, "other", "Orphan")
    assert "ownerReferences" not in family.meta(THINGS, "shared")


def test_dependent_waits_until_the_kind_of_its_owner_is_served(family: Family) -> None:
    family.cluster.create(CRDS, crd())
    thing = family.make(THINGS, "thing")
    family.cluster.delete(CRDS, "things.example.com")
    family.make(CONFIGMAPS, "owned", thing)
    family.settle(60.0)
    assert family.names(CONFIGMAPS) == ["owned"], "it is unknown whether the owner exists"
    family.cluster.create(CRDS, crd())
    family.settle(SOON + 60.0)
    assert family.names(CONFIGMAPS) == []


def test_unlistable_resource_delays_only_its_dependents(log: FilteringBoundLogger) -> None:
    broken = Fault(
        kind=FaultKind.COMMAND_ANSWERED, start=0.0, until=300.0, resource="things", process="manager", status=500
    )
    family = Family(log, broken)
    family.cluster.create(CRDS, crd())
    thing = family.make(THINGS, "thing")
    family.make(CONFIGMAPS, "things-own", thing)
    family.generations()
    family.settle(60.0)
    family.delete(DEPLOYMENTS, "d", "Foreground")
    assert family.names(REPLICASETS) == []
    assert family.names(PODS) == ["nobodys"]
    family.delete(THINGS, "thing")
    family.settle(60.0)
    assert family.names(CONFIGMAPS) == ["things-own"], "it is unknown whether the owner exists"
    assert family.system.checks()[NAME]() is None
    assert family.system.metrics.counter(SYNC_ERRORS).value > 0
    assert family.cluster.run_until(lambda: family.names(CONFIGMAPS) == [], within=300.0)


def test_finalizer_of_another_controller_is_kept(family: Family) -> None:
    owner = family.make(CONFIGMAPS, "owner", finalizers=["example.com/mine"])
    family.make(CONFIGMAPS, "owned", owner)
    family.settle()
    family.delete(CONFIGMAPS, "owner", "Foreground")
    assert family.names(CONFIGMAPS) == ["owner"]
    assert family.meta(CONFIGMAPS, "owner")["finalizers"] == ["example.com/mine"]


def test_disabled_collector_deletes_nothing(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log)
    specs = (spec for spec in BUILT_IN if spec.discovers is not None and not spec.discovers.only_shared)
    others = ",".join(f"-{spec.name}" for spec in specs)
    flags = ["--enable-garbage-collector=false", f"--controllers=*,{others.replace(f'-{NAME},', '')}"]
    system = cluster.manager(options=read_options(flags))
    assert NAME not in system.enabled
    assert "namespace-controller" in system.enabled  # it uses only tables that other controllers discover
    cluster.run_for(1.0)
    assert not system.actors.is_alive("discovery")


def test_two_managers_delete_each_object_once(log: FilteringBoundLogger) -> None:
    family = Family(log)
    family.system.halt()
    for number in range(2):
        election = Election(identity=f"m{number}", namespace="kube-system", name="kcm")
        family.cluster.manager(controllers=(SPEC,), election=election)
    family.settle(60.0)
    family.generations()
    family.delete(DEPLOYMENTS, "d", "Background")
    assert family.cluster.run_until(lambda: family.names(PODS) == ["nobodys"], within=30.0)
