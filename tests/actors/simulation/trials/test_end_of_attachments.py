"""Volumes that are still attached at the end of a run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcm.actors.controllers.storage import attach_detach
from kcm.actors.hollow.nodes.fleet import make_fleet
from kcm.actors.hollow.nodes.objects import new_node
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.storage.attach_detach import superfluous
from kcm.protocols.objects import name_of, uid_of
from kcm.protocols.resources import (
    CSI_DRIVERS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
)
from kcm.runtime.logs.standard_log import quiet_log

DRIVER = "disks.example.com"
SPEC = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "csi": {"driver": DRIVER, "volumeHandle": "disk"},
}


@pytest.mark.parametrize(
    ("attach_required", "texts"),
    [
        (None, ["volume disk is still attached to hollow-node-0"]),
        (True, ["volume disk is still attached to hollow-node-0"]),
        (False, []),  # false alarms, seeds 52008 and 881018 of swarm: CSIDriver created after the attachment
    ],
)
def test_unused_volume_must_be_detached_if_its_driver_requires_attachment(
    attach_required: bool | None, texts: list[str]
) -> None:
    cluster = SimulatedCluster(log=quiet_log())
    machine = next(iter(make_fleet(nodes=1, zones=1).values()))
    cluster.create(NODES, new_node(machine, now=cluster.clock.now()))
    cluster.create(PERSISTENT_VOLUMES, {"metadata": {"name": "disk"}, "spec": SPEC})
    attachment = {"attacher": DRIVER, "nodeName": machine.name, "source": {"persistentVolumeName": "disk"}}
    cluster.create(VOLUME_ATTACHMENTS, {"metadata": {"name": "csi-1"}, "spec": attachment})
    if attach_required is not None:
        driver = {"metadata": {"name": DRIVER}, "spec": {"attachRequired": attach_required}}
        cluster.create(CSI_DRIVERS, driver)
    cluster.run_for(1)
    assert [*superfluous(cluster)] == texts


def test_volume_must_be_detached_from_a_deleted_node() -> None:
    """False alarm, seed 28113000193 of swarm: the node was deleted, and 6 minutes later the volume was detached."""
    cluster = SimulatedCluster(log=quiet_log())
    cluster.create(PERSISTENT_VOLUMES, {"metadata": {"name": "disk"}, "spec": SPEC})
    attachment = {"attacher": DRIVER, "nodeName": "deleted", "source": {"persistentVolumeName": "disk"}}
    cluster.create(VOLUME_ATTACHMENTS, {"metadata": {"name": "csi-1"}, "spec": attachment})
    cluster.run_for(1)
    assert [*superfluous(cluster)] == ["volume disk is still attached to deleted"]


def attaching_cluster() -> SimulatedCluster:
    """Return a cluster with a pod on an unready node, and a VolumeAttachment that no attacher carries out.

    Without an attacher, no finalizer protects the PersistentVolume while the VolumeAttachment exists.
    """
    cluster = SimulatedCluster(log=quiet_log())
    machine = next(iter(make_fleet(nodes=1, zones=1).values()))
    cluster.manager(controllers=(attach_detach.SPEC,), keep=True)
    cluster.create(NODES, new_node(machine, now=cluster.clock.now()))
    cluster.merge(NODES, machine.name, {"status": {"conditions": None}}, subresource="status")
    claim = {
        "metadata": {"name": "disk", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": SPEC["capacity"]}, "volumeName": "disk"},
    }
    uid = uid_of(cluster.create(PERSISTENT_VOLUME_CLAIMS, claim))
    cluster.merge(PERSISTENT_VOLUME_CLAIMS, "default/disk", {"status": {"phase": "Bound"}}, subresource="status")
    reference = {"namespace": "default", "name": "disk", "uid": uid}
    cluster.create(PERSISTENT_VOLUMES, {"metadata": {"name": "disk"}, "spec": {**SPEC, "claimRef": reference}})
    spec = {
        "containers": [{"name": "c", "image": "v1"}],
        "nodeName": machine.name,
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}],
    }
    cluster.create(PODS, {"metadata": {"name": "pod", "namespace": "default"}, "spec": spec})
    cluster.run_for(5)
    assert len(cluster.list(VOLUME_ATTACHMENTS)) == 1
    return cluster


def lose_volume(cluster: SimulatedCluster) -> None:
    cluster.delete(PERSISTENT_VOLUMES, "disk")


def require_no_attachment(cluster: SimulatedCluster) -> None:
    cluster.create(CSI_DRIVERS, {"metadata": {"name": DRIVER}, "spec": {"attachRequired": False}})


@pytest.mark.parametrize("change", [lose_volume, require_no_attachment])
def test_attachment_that_a_restarted_controller_would_ignore_must_be_deleted(
    change: Callable[[SimulatedCluster], None],
) -> None:
    """False alarm, seed 281130162634 of swarm: the volume was deleted, and detached 8 minutes after its attachment.

    The attachment fails after 2 minutes. 6 minutes later the volume is detached, as its node is not ready.
    """
    cluster = attaching_cluster()
    change(cluster)
    cluster.delete(PODS, "default/pod", grace_seconds=0)
    for _ in range(8):
        assert [*superfluous(cluster)] == ["volume disk is still attached to hollow-node-0"]
        cluster.run_for(59)
    cluster.run_for(15)
    assert cluster.list(VOLUME_ATTACHMENTS) == []
    assert [*superfluous(cluster)] == []


@pytest.mark.parametrize("change", [lose_volume, require_no_attachment])
def test_attachment_that_a_restarted_controller_ignores_need_not_be_deleted(
    change: Callable[[SimulatedCluster], None],
) -> None:
    cluster = attaching_cluster()
    change(cluster)
    cluster.delete(PODS, "default/pod", grace_seconds=0)
    cluster.crash("manager")
    cluster.start_again("manager")
    cluster.run_for(500)
    assert len(cluster.list(VOLUME_ATTACHMENTS)) == 1
    assert [*superfluous(cluster)] == []


def test_recovered_attachment_that_is_deleted_by_others_is_detached_all_the_same() -> None:
    """False alarm, seed 281130163649 of swarm: upstream deletes it again after 6 minutes, as its node is not ready."""
    cluster = attaching_cluster()
    cluster.delete(PODS, "default/pod", grace_seconds=0)
    cluster.crash("manager")
    cluster.start_again("manager")
    cluster.run_for(5)
    (attachment,) = cluster.list(VOLUME_ATTACHMENTS)
    cluster.delete(VOLUME_ATTACHMENTS, name_of(attachment))
    for _ in range(5):
        assert [*superfluous(cluster)] == ["the controller has yet to detach kubernetes.io/csi/disks.example.com^disk"]
        cluster.run_for(60)
    cluster.run_for(65)
    assert [*superfluous(cluster)] == []


def test_attachment_of_a_deleted_volume_that_a_pod_uses_may_remain() -> None:
    cluster = attaching_cluster()
    lose_volume(cluster)
    for _ in range(8):
        cluster.run_for(60)
        assert [*superfluous(cluster)] == []
