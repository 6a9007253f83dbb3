"""Decision whether a volume is handled by an in-tree plugin of this controller or by an external provisioner.

The in-tree plugins provision and delete only hostPath volumes, and recycle only hostPath and NFS volumes. External
provisioners handle all other volumes.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/pv_controller.go (findProvisionablePlugin,
findDeletablePlugin), pkg/volume/plugins.go, cmd/kube-controller-manager/app/plugins.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.controllers.storage.persistentvolume_binder.host_path import HOST_PATH
from kcm.actors.controllers.storage.persistentvolume_binder.migration import DRIVERS, IN_TREE
from kcm.protocols.objects import annotations_of, name_of
from kcm.protocols.volumes import MIGRATED_TO, PROVISIONED_BY

NFS = "kubernetes.io/nfs"
NONE = "N/A"
SOURCES = {"hostPath": HOST_PATH, "nfs": NFS}


class NoPluginError(Exception):
    """Raised if an in-tree plugin is unknown or does not support the operation. The text is used for an event."""


def plugin_of(volume: Mapping[str, Any]) -> str:
    """Return the name of the in-tree plugin for a volume by its source (hostPath or nfs); "" for other sources."""
    spec = volume.get("spec") or {}
    return next((plugin for source, plugin in SOURCES.items() if spec.get(source) is not None), "")


def is_external(provisioner: str) -> bool:
    """Report whether an external program provisions the volumes of this provisioner.

    provisioner: field of a StorageClass.
    Raises NoPluginError if it names an in-tree plugin that is unknown or cannot provision volumes.
    """
    if provisioner in DRIVERS:
        return True
    if provisioner == HOST_PATH:
        return False
    if not provisioner.startswith(IN_TREE):
        return True
    if provisioner == NFS:
        raise NoPluginError("no provisionable volume plugin matched")
    raise NoPluginError(f"no volume plugin matched name: {provisioner}")


def provisioner_name(provisioner: str) -> str:
    """Return the provisioner name for the annotations of a claim.

    This is the provisioner of the StorageClass, or the CSI driver that replaces a migrated in-tree plugin.
    """
    return DRIVERS.get(provisioner, provisioner)


def is_deleted_externally(volume: Mapping[str, Any]) -> bool:
    """Report whether an external provisioner deletes a released volume, and not this controller.

    Raises NoPluginError if the volume has an in-tree plugin that is unknown or cannot delete volumes.
    """
    annotations, spec = annotations_of(volume), volume.get("spec") or {}
    provisioner = annotations.get(PROVISIONED_BY)
    if provisioner == HOST_PATH:
        return False
    if provisioner:
        if not provisioner.startswith(IN_TREE):
            return True
        if provisioner == NFS:
            raise NoPluginError("no deletable volume plugin matched")
        raise NoPluginError(f"no volume plugin matched name: {provisioner}")
    if MIGRATED_TO in annotations or spec.get("csi") is not None:
        return True
    plugin = plugin_of(volume)
    if plugin == HOST_PATH:
        return False
    why = "no deletable volume plugin matched" if plugin else "no volume plugin matched"
    raise NoPluginError(f'error getting deleter volume plugin for volume "{name_of(volume)}": {why}')
