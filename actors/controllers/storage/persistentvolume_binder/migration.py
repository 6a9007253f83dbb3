"""Annotations and finalizers for the migration of in-tree volume plugins to CSI drivers.

Source: kubernetes v1.36 staging/src/k8s.io/csi-translation-lib; pkg/controller/volume/persistentvolume/
pv_controller_base.go (updateMigrationAnnotations, modifyDeletionFinalizers).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kcm.actors.controllers.storage.persistentvolume_binder.binding import with_annotations
from kcm.protocols.objects import Object, annotations_of, finalizers_of, metadata
from kcm.protocols.volumes import (
    BETA_PROVISIONER,
    EXTERNAL_PROTECTION,
    IN_TREE_PROTECTION,
    MIGRATED_TO,
    PROVISIONED_BY,
    PROVISIONER,
)

IN_TREE = "kubernetes.io/"
DRIVERS: Mapping[str, str] = MappingProxyType(
    {
        "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
        "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
        "kubernetes.io/azure-disk": "disk.csi.azure.com",
        "kubernetes.io/azure-file": "file.csi.azure.com",
        "kubernetes.io/cinder": "cinder.csi.openstack.org",
        "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
        "kubernetes.io/portworx-volume": "pxd.portworx.com",
    }
)

# In-tree plugin by the field of a PersistentVolume's spec that is its source.
SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "awsElasticBlockStore": "kubernetes.io/aws-ebs",
        "gcePersistentDisk": "kubernetes.io/gce-pd",
        "azureDisk": "kubernetes.io/azure-disk",
        "azureFile": "kubernetes.io/azure-file",
        "cinder": "kubernetes.io/cinder",
        "vsphereVolume": "kubernetes.io/vsphere-volume",
        "portworxVolume": "kubernetes.io/portworx-volume",
    }
)


def migrated_plugin(volume: Mapping[str, Any]) -> str | None:
    """Return the in-tree plugin of a volume, if a CSI driver has replaced the plugin; otherwise None."""
    spec = volume.get("spec") or {}
    return next((plugin for source, plugin in SOURCES.items() if spec.get(source) is not None), None)


def migrated_to(provisioner: str | None, mark: str | None) -> str | None:
    """Return the value that the annotation migrated-to should have; None if the annotation must be removed.

    provisioner: provisioner of the claim or volume; None if unknown, which keeps the annotation.
    mark: current value of the annotation.
    """
    return mark if provisioner is None else DRIVERS.get(provisioner)


def migrated_claim(claim: Mapping[str, Any]) -> Object | None:
    """Return a copy of the claim with the correct annotation migrated-to; None if it does not change.

    Source: updateMigrationAnnotations.
    """
    annotations = annotations_of(claim)
    provisioner = annotations.get(PROVISIONER, annotations.get(BETA_PROVISIONER))
    return _with_migrated_to(claim, migrated_to(provisioner, annotations.get(MIGRATED_TO)))


def migrated_volume(volume: Mapping[str, Any]) -> Object | None:
    """Return a copy of the volume with the correct annotation migrated-to and the correct deletion finalizers.

    The result is None if the volume does not change.
    """
    annotations = annotations_of(volume)
    marked = _with_migrated_to(volume, migrated_to(annotations.get(PROVISIONED_BY), annotations.get(MIGRATED_TO)))
    before = finalizers_of(volume)
    after = deletion_finalizers(volume)
    if after == before:
        return marked
    obj = dict(volume) if marked is None else marked
    meta = {name: value for name, value in metadata(obj).items() if name != "finalizers"}
    return {**obj, "metadata": {**meta, "finalizers": list(after)} if after else meta}


def deletion_finalizers(volume: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the finalizers that a volume should have. Source: modifyDeletionFinalizers.

    A volume of an in-tree plugin with reclaim policy Delete has the in-tree protection finalizer. A volume of a
    migrated plugin does not have it.
    """
    names, provisioner = finalizers_of(volume), annotations_of(volume).get(PROVISIONED_BY)
    if provisioner is None:
        return names
    if provisioner in DRIVERS:
        return tuple(name for name in names if name != IN_TREE_PROTECTION)
    if not provisioner.startswith(IN_TREE):
        return names
    policy = (volume.get("spec") or {}).get("persistentVolumeReclaimPolicy")
    if policy == "Delete" and IN_TREE_PROTECTION not in names:
        names = (*names, IN_TREE_PROTECTION)
    elif policy in ("Retain", "Recycle"):
        names = tuple(name for name in names if name != IN_TREE_PROTECTION)
    return tuple(name for name in names if name != EXTERNAL_PROTECTION)


def _with_migrated_to(obj: Mapping[str, Any], mark: str | None) -> Object | None:
    if (annotations_of(obj).get(MIGRATED_TO) or None) == mark:
        return None
    return with_annotations(obj, {MIGRATED_TO: mark})
