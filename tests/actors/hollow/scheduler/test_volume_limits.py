"""Limits of volumes per node, and claims that only one pod may use, in the hollow scheduler."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kcm.actors.hollow import behaviour
from kcm.actors.hollow.scheduler.volume_limits import TOO_MANY_VOLUMES, USED_BY_ANOTHER_POD, exceeded
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.domain_settings import ATTACHMENTS_SETTING
from kcm.protocols.csi import CsiSource
from kcm.protocols.objects import Object
from kcm.protocols.resources import EVENTS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS


def volumes(*names: str) -> frozenset[CsiSource]:
    """Build volumes from texts "driver/handle"."""
    return frozenset(CsiSource(*name.split("/")) for name in names)


# Cases of upstream's TestCSILimits: volumes of the pod, of pods on the node, with VolumeAttachments, and limits.
CASES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], dict[str, int], bool]] = {
    "the limit is reached": (("ebs/1",), ("ebs/2", "ebs/3"), (), {"ebs": 2}, True),
    "the limit is higher": (("ebs/1",), ("ebs/2", "ebs/3"), (), {"ebs": 4}, False),
    "exactly the limit": (("ebs/1", "ebs/4"), ("ebs/2", "ebs/3"), (), {"ebs": 4}, False),
    "the pod uses a volume of another pod": (("ebs/2",), ("ebs/2", "ebs/3"), (), {"ebs": 2}, False),
    "volumes of another driver": (("ebs/1",), ("gce/2", "gce/3"), (), {"ebs": 1, "gce": 2}, False),
    "both drivers are limited": (("ebs/1", "gce/1"), ("gce/2", "gce/3"), (), {"ebs": 4, "gce": 2}, True),
    "the driver has no limit": (("gce/1",), ("gce/2", "gce/3"), (), {"ebs": 1}, False),
    "an attached volume without a pod counts": (("ebs/1",), (), ("ebs/9",), {"ebs": 1}, True),
    "an attached volume of a pod counts once": (("ebs/1",), ("ebs/9",), ("ebs/9",), {"ebs": 2}, False),
    "the pod's volume is attached already": (("ebs/1",), (), ("ebs/1",), {"ebs": 1}, True),
    "a limit of 0": (("ebs/1",), (), (), {"ebs": 0}, True),
    "no volumes": ((), ("ebs/2",), ("ebs/3",), {"ebs": 1}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_volumes_of_a_node_are_limited(case: str) -> None:
    new, used, attached, limits, expected = CASES[case]
    assert exceeded(volumes(*new), volumes(*used), volumes(*attached), limits) is expected


@pytest.fixture
def small(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster of one node, to which one volume can be attached."""
    cluster.manager(controllers=ATTACHMENTS_SETTING.controllers)
    cluster.hollow_nodes(nodes=1, zones=1, volumes=True, attach=True)
    cluster.run_for(5)
    cluster.merge(NODES, "hollow-node-0", {"metadata": {"annotations": {behaviour.ATTACH_LIMIT: "1"}}})
    cluster.run_for(2)
    return cluster


def create_claim(cluster: SimulatedCluster, name: str, *, mode: str = "ReadWriteOnce", class_: str = "hollow") -> None:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": class_}
    cluster.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def create_pod(cluster: SimulatedCluster, name: str, claim: str, **spec: str) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    whole = {
        "containers": [{"name": "c", "image": "i", "volumeMounts": mounts}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        **spec,
    }
    cluster.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": whole})


def pod_phase(cluster: SimulatedCluster, name: str) -> str:
    pod: Object = cluster.get(PODS, f"default/{name}") or {}
    return str((pod.get("status") or {}).get("phase"))


def messages(cluster: SimulatedCluster) -> set[str]:
    return {event["message"] for event in cluster.list(EVENTS) if event["reason"] == "FailedScheduling"}


@pytest.mark.parametrize("class_", ["hollow", "hollow-wait"])
def test_pod_waits_until_its_volume_can_be_attached(small: SimulatedCluster, class_: str) -> None:
    for name in ("one", "two"):
        create_claim(small, name, class_=class_)
        small.run_for(3)
        create_pod(small, name, name)
        small.run_for(5)
    assert (pod_phase(small, "one"), pod_phase(small, "two")) == ("Running", "Pending")
    assert any(text.startswith(f"0/1 nodes are available: 1 {TOO_MANY_VOLUMES}. ") for text in messages(small))
    small.delete(PODS, "default/one")
    assert small.run_until(lambda: pod_phase(small, "two") == "Running", within=40)


def test_pod_is_scheduled_when_the_limit_is_raised(small: SimulatedCluster) -> None:
    for name in ("one", "two"):
        create_claim(small, name)
        create_pod(small, name, name)
        small.run_for(5)
    assert pod_phase(small, "two") == "Pending"
    small.merge(NODES, "hollow-node-0", {"metadata": {"annotations": {behaviour.ATTACH_LIMIT: "2"}}})
    assert small.run_until(lambda: pod_phase(small, "two") == "Running", within=20)


def test_claim_of_one_pod_is_used_by_one_pod_at_a_time(small: SimulatedCluster) -> None:
    create_claim(small, "own", mode="ReadWriteOncePod")
    for name in ("one", "two"):
        create_pod(small, name, "own")
        small.run_for(5)
    assert (pod_phase(small, "one"), pod_phase(small, "two")) == ("Running", "Pending")
    assert any(text.startswith(f"0/1 nodes are available: 1 {USED_BY_ANOTHER_POD}. ") for text in messages(small))
    small.delete(PODS, "default/one")
    assert small.run_until(lambda: pod_phase(small, "two") == "Running", within=40)


def test_kubelet_mounts_a_claim_of_one_pod_only_once(small: SimulatedCluster) -> None:
    create_claim(small, "own", mode="ReadWriteOncePod")
    create_pod(small, "one", "own")
    small.run_for(5)
    create_pod(small, "two", "own", nodeName="hollow-node-0")  # without the scheduler
    small.run_for(5)
    assert pod_phase(small, "two") == "Pending"
    (text,) = {event["message"] for event in small.list(EVENTS) if event["reason"] == "FailedMount"}
    assert text.endswith("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
    small.delete(PODS, "default/one")
    assert small.run_until(lambda: pod_phase(small, "two") == "Running", within=130)
