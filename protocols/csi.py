"""Names and fields of CSI volumes, drivers, CSINodes and VolumeAttachments.

Source: kubernetes v1.36 pkg/volume/csi/{csi_plugin,csi_attacher}.go, pkg/volume/util/util.go (GetUniqueVolumeName).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.protocols.objects import Object

NODE_ID = "csi.volume.kubernetes.io/nodeid"  # annotation of a Node: JSON, the node's ID by driver
ATTACHER = "csi.alpha.kubernetes.io/node-id"  # annotation of a VolumeAttachment: the node's ID for its driver
SINGLE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class CsiSource(NamedTuple):
    """Driver and volume handle of a CSI volume."""

    driver: str
    handle: str

    @property
    def unique_name(self) -> str:
        """Return the name of the volume in volumesInUse and volumesAttached of a node's status."""
        return f"kubernetes.io/csi/{self.driver}^{self.handle}"


def csi_source(volume: Mapping[str, Any]) -> CsiSource | None:
    """Return the CSI source of a PersistentVolume, or None if it has another source."""
    source = (volume.get("spec") or {}).get("csi")
    return None if not source else CsiSource(source.get("driver") or "", source.get("volumeHandle") or "")


def is_single_node(volume: Mapping[str, Any]) -> bool:
    """Report whether all access modes of a PersistentVolume allow only one node at a time."""
    modes = (volume.get("spec") or {}).get("accessModes") or ()
    return bool(modes) and SINGLE_NODE.issuperset(modes)


def attachment_name(source: CsiSource, node: str) -> str:
    """Return the name of the VolumeAttachment of a volume on a node."""
    return f"csi-{hashlib.sha256(f'{source.handle}{source.driver}{node}'.encode()).hexdigest()}"


def attached_volume(attachment: Mapping[str, Any]) -> str:
    """Return the PersistentVolume of a VolumeAttachment; "" for an inline volume."""
    return ((attachment.get("spec") or {}).get("source") or {}).get("persistentVolumeName") or ""


def is_attached(attachment: Mapping[str, Any]) -> bool:
    return (attachment.get("status") or {}).get("attached") is True


def requires_attach(driver: Mapping[str, Any] | None) -> bool:
    """Report whether volumes of a driver must be attached. driver: its CSIDriver; None if it does not exist."""
    return driver is None or (driver.get("spec") or {}).get("attachRequired") is not False


def attach_limits(csi_node: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the number of volumes that can be attached to a node, by driver; drivers without a limit are omitted."""
    limits: dict[str, int] = {}
    for driver in ((csi_node or {}).get("spec") or {}).get("drivers") or ():
        count = (driver.get("allocatable") or {}).get("count")
        if isinstance(count, int):
            limits[driver.get("name") or ""] = count
    return limits


def finalizer_of(driver: str) -> str:
    """Return the finalizer by which the external attacher of a driver protects volumes and VolumeAttachments.

    Source: kubernetes-csi/external-attacher pkg/controller/util.go, GetFinalizerName.
    """
    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter == "-") else "-" for letter in driver)
    return f"external-attacher/{name}{'X' if name.endswith('-') else ''}"


def attached_names(node: Object) -> frozenset[str]:
    """Return the unique names of the volumes that the attach-detach controller reports as attached to a node."""
    attached = (node.get("status") or {}).get("volumesAttached") or ()
    return frozenset(volume.get("name") or "" for volume in attached)


def in_use_names(node: Object) -> tuple[str, ...]:
    """Return the unique names of the volumes that a kubelet reports as in use."""
    return tuple((node.get("status") or {}).get("volumesInUse") or ())
