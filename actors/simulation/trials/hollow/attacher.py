"""Simulation trial of the hollow attacher: all VolumeAttachments are attached, and terminating ones disappear."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.hollow.behaviour import has_csi_driver
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.mounts import MountedWhileUsed
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.csi import attached_volume, finalizer_of, is_attached
from kcm.protocols.objects import finalizers_of, is_deleting, name_of
from kcm.protocols.resources import CSI_DRIVERS, NODES, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    """Yield a text for each VolumeAttachment of a registered driver that the attacher has to change."""
    nodes = {name_of(node): node for node in cluster.shown(NODES)}
    usable = {name_of(volume) for volume in cluster.shown(PERSISTENT_VOLUMES) if not is_deleting(volume)}
    for attachment in cluster.shown(VOLUME_ATTACHMENTS):
        name, spec = name_of(attachment), attachment["spec"]
        if is_deleting(attachment) and finalizer_of(spec["attacher"]) in finalizers_of(attachment):
            yield f"VolumeAttachment {name} is terminating"
        node = nodes.get(spec["nodeName"])
        if node is None or not has_csi_driver(node, spec["attacher"]) or attached_volume(attachment) not in usable:
            continue
        if not is_deleting(attachment) and not is_attached(attachment):
            yield f"VolumeAttachment {name} is not attached"
    if not cluster.shown(CSI_DRIVERS):
        yield "the CSIDriver does not exist"


TRIAL = Trial(
    controller="hollow-attacher-controller",
    unsettled=_unsettled,
    invariants=lambda _cluster, _options: (MountedWhileUsed(),),
    deletes=(CSI_DRIVERS, VOLUME_ATTACHMENTS),
)
