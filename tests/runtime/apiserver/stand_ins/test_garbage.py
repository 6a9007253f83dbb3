"""Dependents follow their owners, by propagation policy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.apiserver.conftest import Api


@pytest.fixture
def family(api: Api) -> Api:
    """Create a Deployment d, its ReplicaSet rs, its pods p and q, and a pod without an owner."""
    deployment = api.create("deployments", api.replicaset("d")).obj
    replicaset = api.create("replicasets", api.owned(api.replicaset("rs"), deployment)).obj
    for name in ("p", "q"):
        api.create("pods", api.owned(api.pod(name), replicaset))
    api.create("pods", api.pod("nobodys"))
    return api


def test_background_deletion_deletes_dependents(family: Api) -> None:
    family.delete("deployments", "d", {"propagationPolicy": "Background"})
    assert not family.exists("replicasets", "rs")
    assert family.list("pods").names == ["nobodys"]


def test_orphans_are_kept_without_the_owner_reference(family: Api) -> None:
    family.delete("replicasets", "rs", {"propagationPolicy": "Orphan"})
    assert not family.exists("replicasets", "rs")
    pod = family.get("pods", "p").obj
    assert "ownerReferences" not in pod["metadata"]
    assert pod["metadata"]["generation"] == 1


def test_replication_controller_orphans_its_pods_by_default(api: Api) -> None:
    body = {"metadata": {"name": "rc"}, "spec": {"template": api.template()}}
    controller = api.create("replicationcontrollers", body).obj
    api.create("pods", api.owned(api.pod("p"), controller))
    api.delete("replicationcontrollers", "rc")
    assert not api.exists("replicationcontrollers", "rc")
    assert api.exists("pods", "p")


def test_foreground_deletion_deletes_the_owner_last(family: Api) -> None:
    family.patch("pods", "p", {"metadata": {"finalizers": ["example.com/wait"]}})

    marked = family.delete("replicasets", "rs", {"propagationPolicy": "Foreground"})

    assert marked.meta["finalizers"] == ["foregroundDeletion"]
    assert marked.meta["generation"] == 2
    assert not family.exists("pods", "q")
    assert family.get("pods", "p").meta["deletionTimestamp"]
    family.patch("pods", "p", {"metadata": {"finalizers": None}})
    assert not family.exists("replicasets", "rs")


def test_foreground_deletion_proceeds_from_the_lowest_dependents(family: Api) -> None:
    family.delete("deployments", "d", {"propagationPolicy": "Foreground"})
    assert not family.exists("deployments", "d")
    assert not family.exists("replicasets", "rs")
    assert family.list("pods").names == ["nobodys"]


def test_owner_does_not_wait_for_non_blocking_dependents(api: Api) -> None:
    owner = api.create("configmaps", {"metadata": {"name": "owner"}}).obj
    body = api.owned({"metadata": {"name": "owned", "finalizers": ["example.com/wait"]}}, owner, block=False)
    api.create("configmaps", body)
    api.delete("configmaps", "owner", {"propagationPolicy": "Foreground"})
    assert not api.exists("configmaps", "owner")
    assert api.get("configmaps", "owned").meta["deletionTimestamp"]


def test_dependent_with_another_owner_is_kept(api: Api) -> None:
    first, second = (api.create("configmaps", {"metadata": {"name": name}}).obj for name in ("one", "other"))
    body = api.owned({"metadata": {"name": "shared"}}, first)
    body["metadata"]["ownerReferences"] += api.owned(body, second)["metadata"]["ownerReferences"]
    body["metadata"]["ownerReferences"][1]["controller"] = False
    api.create("configmaps", body)

    api.delete("configmaps", "one")
    assert [reference["name"] for reference in api.get("configmaps", "shared").meta["ownerReferences"]] == ["other"]
    api.delete("configmaps", "other")
    assert not api.exists("configmaps", "shared")


def test_object_created_for_a_deleted_owner_is_deleted(api: Api) -> None:
    owner = api.create("configmaps", {"metadata": {"name": "owner"}}).obj
    api.delete("configmaps", "owner")
    api.create("configmaps", {"metadata": {"name": "owner"}})  # another object with the same name
    assert api.create("pods", api.owned(api.pod(), owner)).status == 201
    assert not api.exists("pods", "web")


def test_object_adopted_by_a_deleted_owner_is_deleted(api: Api) -> None:
    owner = api.create("replicasets", api.replicaset("rs")).obj
    api.create("pods", api.pod("p"))
    api.delete("replicasets", "rs")
    references = api.owned(api.pod("p"), owner)["metadata"]["ownerReferences"]
    api.patch("pods", "p", {"metadata": {"ownerReferences": references}})
    assert not api.exists("pods", "p")


def test_owner_of_an_unknown_kind_counts_as_existing(api: Api) -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "u"}}
    api.create("pods", api.owned(api.pod(), owner))
    assert api.exists("pods", "web")


def test_pod_on_a_node_is_deleted_gracefully_with_its_owner(api: Api) -> None:
    replicaset = api.create("replicasets", api.replicaset("rs")).obj
    api.create("pods", api.owned(api.pod(nodeName="n"), replicaset))
    api.delete("replicasets", "rs", {"propagationPolicy": "Background"})
    assert api.get("pods", "web").meta["deletionGracePeriodSeconds"] == 30


def test_stand_in_is_off_with_a_real_garbage_collector(make_api: type[Any]) -> None:
    api = make_api(collect_garbage=False, empty_namespaces=False)
    replicaset = api.create("replicasets", api.replicaset("rs")).obj
    api.create("pods", api.owned(api.pod(), replicaset))
    api.delete("replicasets", "rs", {"propagationPolicy": "Background"})
    assert api.exists("pods", "web")
    deployment = api.create("deployments", api.replicaset("d"))
    assert deployment.status == 201
    waiting = api.delete("deployments", "d", {"propagationPolicy": "Foreground"})
    assert waiting.meta["finalizers"] == ["foregroundDeletion"]
    assert api.exists("deployments", "d")
    api.delete("namespaces", "kube-node-lease")
    assert api.get("namespaces", "kube-node-lease").obj["status"]["phase"] == "Terminating"


def test_foreground_deletion_of_a_cycle_of_owners_completes(api: Api) -> None:
    first = api.create("configmaps", {"metadata": {"name": "first"}}).obj
    second = api.create("configmaps", api.owned({"metadata": {"name": "second"}}, first)).obj
    third = api.create("configmaps", api.owned({"metadata": {"name": "third"}}, second)).obj
    api.patch("configmaps", "first", api.owned({"metadata": {}}, third))
    api.delete("configmaps", "first", {"propagationPolicy": "Foreground"})
    assert api.list("configmaps").names == []


def test_cycle_of_owners_waits_for_a_finalizer(api: Api) -> None:
    first = api.create("configmaps", {"metadata": {"name": "first", "finalizers": ["example.com/wait"]}}).obj
    second = api.create("configmaps", api.owned({"metadata": {"name": "second"}}, first)).obj
    api.patch("configmaps", "first", api.owned({"metadata": {}}, second))
    api.delete("configmaps", "first", {"propagationPolicy": "Foreground"})
    assert api.list("configmaps").names == ["first", "second"]
    api.patch("configmaps", "first", {"metadata": {"finalizers": None}})
    assert api.list("configmaps").names == []
