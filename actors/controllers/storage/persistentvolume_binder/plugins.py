"""The volume plugins of this controller, and the provisioners that are external.

Only hostPath volumes are provisioned and deleted here, and only hostPath and NFS volumes are recycled. External
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
    """An in-tree plugin is missing or does not support the operation. The text is that of the event."""


def plugin_of(volume: Mapping[str, Any]) -> str:
    """Return the plugin of a volume by its source; "" if it is not one of SOURCES."""
    spec = volume.get("spec") or {}
    return next((plugin for source, plugin in SOURCES.items() if spec.get(source) is not None), "")


def is_external(provisioner: str) -> bool:
    """Report whether a provisioner is external. Raises NoPluginError for an unknown in-tree plugin."""
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
    """Return the name to annotate on claims: the CSI driver for a migrated plugin."""
    return DRIVERS.get(provisioner, provisioner)


def is_deleted_externally(volume: Mapping[str, Any]) -> bool:
    """Report whether an external program deletes a released volume. Raises NoPluginError if no plugin can."""
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
