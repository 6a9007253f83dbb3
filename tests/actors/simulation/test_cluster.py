"""The simulated cluster."""

from __future__ import annotations

import pytest

from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import AlreadyExists, Invalid
from kcm.protocols.resources import NODES, PODS, Resource

POD = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}


def test_created_object_gets_kind_version_and_namespace(cluster: SimulatedCluster) -> None:
    pod = cluster.create(PODS, POD)
    assert (pod["apiVersion"], pod["kind"], pod["metadata"]["namespace"]) == ("v1", "Pod", "default")
    assert "namespace" not in cluster.create(NODES, {"metadata": {"name": "n"}})["metadata"]
    assert cluster.get(PODS, "default/other") is None


def test_refused_request_raises_its_outcome(cluster: SimulatedCluster) -> None:
    cluster.create(PODS, POD)
    with pytest.raises(CommandError) as refusal:
        cluster.create(PODS, POD)
    assert str(refusal.value) == 'create pods default/web: AlreadyExists: pods "web" already exists'
    assert isinstance(refusal.value.failure, AlreadyExists)
    with pytest.raises(CommandError, match=r'^delete nodes n: NotFound: nodes "n" not found$'):
        cluster.delete(NODES, "n")
    with pytest.raises(CommandError, match=r'^create pods default/a: Invalid: Pod "a" is invalid: ') as refusal:
        cluster.create(PODS, {"metadata": {"name": "a"}, "spec": {"containers": []}})
    assert isinstance(refusal.value.failure, Invalid)
    assert refusal.value.failure.code == 422
    with pytest.raises(CommandError, match=r"^patch pods default/web: (Invalid|Forbidden): "):
        cluster.merge(PODS, "default/web", {"spec": {"nodeName": 3}})
    with pytest.raises(CommandError, match="NotFound"):
        cluster.list(Resource(version="v1", plural="nothings", kind="Nothing"))
    assert cluster.get(PODS, "default/b") is None


def test_only_changed_objects_are_decoded_again(cluster: SimulatedCluster) -> None:
    cluster.create(PODS, POD)
    cluster.create(PODS, {**POD, "metadata": {"name": "other"}})
    other, web = cluster.shown(PODS)
    cluster.merge(PODS, "default/web", {"metadata": {"labels": {"app": "web"}}})
    same, changed = cluster.shown(PODS)
    assert same is other
    assert (web["metadata"].get("labels"), changed["metadata"]["labels"]) == (None, {"app": "web"})


def test_pods_are_shown_with_the_facts_of_their_newest_version(cluster: SimulatedCluster) -> None:
    cluster.create(PODS, POD)
    [(_, before)] = cluster.shown_pods("default")
    cluster.merge(PODS, "default/web", {"status": {"phase": "Running"}}, subresource="status")
    [(pod, facts)] = cluster.shown_pods("default")
    assert (before.phase, facts.phase, pod["status"]["phase"]) == ("Pending", "Running", "Running")
