"""Which plugin of ours looks after a volume, and which are left to others.

Only hostPath volumes can be made and deleted here, and only those and NFS can be recycled: all else is the business of
external provisioners.

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
    """Of ours and of nobody else. The text is the event's."""


def plugin_of(volume: Mapping[str, Any]) -> str:
    """By its source; "" for none of ours."""
    spec = volume.get("spec") or {}
    return next((plugin for source, plugin in SOURCES.items() if spec.get(source) is not None), "")


def is_external(provisioner: str) -> bool:
    """Whether another program makes the volumes of this provisioner. Raises NoPluginError if nobody does."""
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
    """As its claims are annotated: the driver's, for a plugin that has become one."""
    return DRIVERS.get(provisioner, provisioner)


def is_deleted_by_others(volume: Mapping[str, Any]) -> bool:
    """Whether the storage of a released volume is deleted by another program. Raises NoPluginError if by nobody."""
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
