"""Volumes as the attach/detach controller handles them: plugin, unique name, access modes, and attachability.

Source: kubernetes v1.36 pkg/controller/volume/attachdetach/util/util.go, pkg/volume/util/util.go, pkg/volume/{csi,fc,
iscsi}. Difference: Flexvolumes are not attached, because kcm runs no executables of volume plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from kcm.actors.controllers.storage.attach_detach.csi_translation import CSISource, translate
from kcm.actors.controllers.storage.shared.claimed_volumes import UnresolvedError, claimed_volume
from kcm.actors.reconciliation.specs import Index
from kcm.protocols.csi import CsiSource, requires_attach
from kcm.protocols.field_types import NUMBER, TEXT, check
from kcm.protocols.objects import Object, name_of, namespace_of
from kcm.protocols.resources import CSI_DRIVERS, PODS
from kcm.runtime.tables.tables import Tables

CSI, FC, ISCSI = "kubernetes.io/csi", "kubernetes.io/fc", "kubernetes.io/iscsi"
SEPARATOR = "^"  # between driver and handle in the name of a CSI volume
SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})

# Sources of pod volumes that may have to be attached, or are counted in storage_count_attachable_volumes_in_use.
_SOURCES = (
    "persistentVolumeClaim",
    "ephemeral",
    "csi",
    "fc",
    "iscsi",
    "awsElasticBlockStore",
    "gcePersistentDisk",
    "azureDisk",
    "azureFile",
    "cinder",
    "vsphereVolume",
    "portworxVolume",
)
VOLUMES, ANY = "volumes", "any"  # index of pods, and its only value


def has_volumes(pod: Object) -> Iterable[str]:
    """Return ANY for a pod with a volume that may have to be attached."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if any(volume.get(source) is not None for source in _SOURCES):
            return (ANY,)
    return ()


PODS_WITH_VOLUMES = Index(PODS, VOLUMES, has_volumes)


class VolumeSpec(Struct, frozen=True, kw_only=True):
    """Volume of a pod, or PersistentVolume.

    name: name of the PersistentVolume, or of the inline volume in its pod; used in events.
    plugin: CSI, FC, ISCSI; "" for volumes that are never attached.
    volume_name: name for the plugin; of a CSI volume the driver and the handle.
    driver: CSI driver; "" for other plugins.
    shared: it may be attached to several nodes.
    ephemeral: inline CSI volume, which is never attached.
    migrated: the volume belongs to an in-tree plugin that is migrated to CSI.
    inline: spec of the PersistentVolume that a migrated inline volume is translated to.
    """

    name: str
    plugin: str
    volume_name: str = ""
    driver: str = ""
    shared: bool = True
    ephemeral: bool = False
    migrated: bool = False
    inline: Object | None = None

    @property
    def unique_name(self) -> str:
        return f"{self.plugin}/{self.volume_name}"

    @property
    def qualified_plugin(self) -> str:
        """Return the plugin for metrics, with the CSI driver."""
        return f"{self.plugin}:{self.driver}" if self.driver else self.plugin


class Names(NamedTuple):
    """Parts of a unique volume name."""

    plugin: str
    volume_name: str


def split_unique_name(unique_name: str) -> Names | None:
    """Return the parts of a unique volume name, or None if it is invalid."""
    parts = unique_name.split("/", 2)
    return Names(f"{parts[0]}/{parts[1]}", parts[2]) if len(parts) == 3 else None


def source_of(unique_name: str) -> CsiSource | None:
    """Return driver and handle of a CSI volume; None for other plugins, and for an invalid name."""
    names = split_unique_name(unique_name)
    driver, *handles = ("",) if names is None or names.plugin != CSI else names.volume_name.split(SEPARATOR)
    return CsiSource(driver, handles[0]) if len(handles) == 1 else None


def of_persistent_volume(volume: Mapping[str, Any]) -> VolumeSpec:
    """Return the VolumeSpec of a PersistentVolume. Raises ValueError for invalid fields."""
    spec = volume.get("spec") or {}
    modes = spec.get("accessModes") or ()
    csi = translate(spec, volume, name="", namespace="")
    if csi is not None:
        return _translated(csi, inline=False)
    return _with_plugin(name_of(volume), spec, shared=not modes or bool(SHARED_MODES & set(modes)))


def of_pod_volume(tables: Tables, pod: Mapping[str, Any], volume: Mapping[str, Any]) -> VolumeSpec:
    """Return the VolumeSpec of a volume of a pod.

    Raises UnresolvedError unless the volume's claim is bound (see claimed_volume), ValueError for invalid fields.
    Source: CreateVolumeSpec.
    """
    name, namespace = volume.get("name") or "", namespace_of(pod)
    if volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
        csi = translate(volume, None, name=name, namespace=namespace)
        if csi is not None:
            return _translated(csi, inline=True)
        return _with_plugin(name, volume, shared=True, inline=True)
    return of_persistent_volume(claimed_volume(tables, pod, volume))


def is_attachable(tables: Tables, spec: VolumeSpec) -> bool:
    """Report whether the volume must be attached before it is mounted. CSI drivers may not require it.

    A driver without a CSIDriver object requires it.
    """
    if not spec.plugin or spec.ephemeral:
        return False
    return spec.plugin != CSI or requires_attach(tables[CSI_DRIVERS].get(spec.driver))


def _translated(csi: CSISource, *, inline: bool) -> VolumeSpec:
    modes = list(csi.modes)
    whole: Object = {"csi": csi.source, "accessModes": modes, "volumeMode": "Filesystem"}
    return VolumeSpec(
        name=csi.name,
        plugin=CSI,
        volume_name=f"{csi.driver}{SEPARATOR}{csi.handle}",
        driver=csi.driver,
        shared=not modes or bool(SHARED_MODES & set(modes)),
        migrated=True,
        inline=whole if inline else None,
    )


def _with_plugin(name: str, sources: Mapping[str, Any], *, shared: bool, inline: bool = False) -> VolumeSpec:
    """Return the VolumeSpec for a source that is not migrated. sources: spec of the volume, with one source."""
    if (csi := sources.get("csi")) is not None:
        check(csi, {"driver": TEXT, "volumeHandle": TEXT}, "csi")
        driver = csi.get("driver") or ""
        if inline:
            return VolumeSpec(name=name, plugin=CSI, driver=driver, ephemeral=True)
        handle = csi.get("volumeHandle") or ""
        return VolumeSpec(
            name=name, plugin=CSI, volume_name=f"{driver}{SEPARATOR}{handle}", driver=driver, shared=shared
        )
    if (fc := sources.get("fc")) is not None:
        check(fc, {"targetWWNs": [TEXT], "wwids": [TEXT], "lun": NUMBER}, "fc")
        return VolumeSpec(name=name, plugin=FC, volume_name=_fc_name(fc), shared=shared)
    if (iscsi := sources.get("iscsi")) is not None:
        check(iscsi, {"targetPortal": TEXT, "iqn": TEXT, "lun": NUMBER}, "iscsi")
        target = f"{iscsi.get('targetPortal') or ''}:{iscsi.get('iqn') or ''}:{iscsi.get('lun') or 0}"
        return VolumeSpec(name=name, plugin=ISCSI, volume_name=target, shared=shared)
    return VolumeSpec(name=name, plugin="")


def _fc_name(fc: Mapping[str, Any]) -> str:
    """Return the name of a Fibre Channel volume. Raises UnresolvedError if its source names no target."""
    targets, lun, wwids = fc.get("targetWWNs") or (), fc.get("lun"), fc.get("wwids") or ()
    if targets and lun is not None:
        return f"[{' '.join(targets)}]:{lun}"
    if wwids:
        return f"[{' '.join(wwids)}]"
    raise UnresolvedError("the source of a Fibre Channel volume names no target")
