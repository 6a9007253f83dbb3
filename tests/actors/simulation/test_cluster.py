"""The simulated cluster as tests use it."""

from __future__ import annotations

import pytest

from actors.simulation import SimulatedCluster
from protocols.resources import NODES, PODS

POD = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}


def test_what_goes_without_saying_need_not_be_said(cluster: SimulatedCluster) -> None:
    pod = cluster.create(PODS, POD)
    assert (pod["apiVersion"], pod["kind"], pod["metadata"]["namespace"]) == ("v1", "Pod", "default")
    assert "namespace" not in cluster.create(NODES, {"metadata": {"name": "n"}})["metadata"]
    assert cluster.get(PODS, "default/other") is None


def test_a_refusal_says_what_was_asked_and_what_was_answered(cluster: SimulatedCluster) -> None:
    cluster.create(PODS, POD)
    with pytest.raises(AssertionError) as refusal:
        cluster.create(PODS, POD)
    assert str(refusal.value) == 'POST /api/v1/namespaces/default/pods: 409 pods "web" already exists'
    with pytest.raises(AssertionError, match=r'^DELETE /api/v1/nodes/n: 404 nodes "n" not found$'):
        cluster.delete(NODES, "n")
