"""Volumes that are still attached at the end of a run."""

from __future__ import annotations

import pytest

from kcm.actors.hollow.nodes.fleet import make_fleet
from kcm.actors.hollow.nodes.objects import new_node
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.storage.attach_detach import superfluous
from kcm.protocols.resources import CSI_DRIVERS, NODES, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS
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
