"""Translation of volumes of migrated in-tree plugins to volumes of their CSI drivers.

Only the fields that a VolumeAttachment needs are translated. The topology of a PersistentVolume is not among them: a
VolumeAttachment names the PersistentVolume itself, and an inline volume has no topology.

Source: kubernetes v1.36 staging/src/k8s.io/csi-translation-lib/plugins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from kcm.protocols.field_types import FLAG, NUMBER, TEXT, check
from kcm.protocols.objects import Object, annotations_of, labels_of, name_of

ZONES = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")  # labels of a PersistentVolume
UNSPECIFIED = "UNSPECIFIED"
RESOURCE_GROUP = "kubernetes.io/azure-file-resource-group"

_EBS_VOLUME = re.compile(r"^vol-[^/]*$")
_AZURE_FILE_SECRET = re.compile(r"azure-storage-account-(.+)-secret")
_FIELDS = {
    "volumeID": TEXT,
    "fsType": TEXT,
    "partition": NUMBER,
    "readOnly": FLAG,
    "pdName": TEXT,
    "diskURI": TEXT,
    "kind": TEXT,
    "cachingMode": TEXT,
    "secretName": TEXT,
    "secretNamespace": TEXT,
    "shareName": TEXT,
    "volumePath": TEXT,
}


class TranslationError(ValueError):
    """Raised if an in-tree volume has no equivalent of its CSI driver."""


class CSISource(Struct, frozen=True, kw_only=True):
    """CSI source of a translated volume.

    name: name of the PersistentVolume that an inline volume is translated to.
    modes: its access modes.
    source: its spec.csi.
    """

    name: str
    driver: str
    handle: str
    modes: tuple[str, ...]
    source: Object


Translate = Callable[[Mapping[str, Any], Mapping[str, Any] | None, str, str], CSISource]


def translate(
    spec: Mapping[str, Any], volume: Mapping[str, Any] | None, *, name: str, namespace: str
) -> CSISource | None:
    """Return the CSI source of a volume; None if it does not belong to a migrated in-tree plugin.

    spec: spec of the PersistentVolume, or the volume of the pod.
    volume: the PersistentVolume; None for an inline volume.
    name: name of the inline volume.
    namespace: namespace of its pod.
    Raises ValueError if the fields of the source have invalid values.
    """
    for field, translation in _TRANSLATIONS.items():
        source = spec.get(field)
        if source is not None:
            check(source, _FIELDS, field)
            return translation(source, volume, name, namespace)
    return None


def _ebs(source: Mapping[str, Any], volume: Mapping[str, Any] | None, _name: str, _namespace: str) -> CSISource:
    driver, handle = "ebs.csi.aws.com", _ebs_handle(source.get("volumeID") or "")
    attributes = {"partition": str(source.get("partition") or 0)}
    return _made(driver, handle, source, volume, f"{driver}-{handle}", ("ReadWriteOnce",), attributes)


def _ebs_handle(volume_id: str) -> str:
    """Return the id of an EBS volume, "vol-1", from its volumeID: the id, "aws://zone/vol-1" or "aws:///vol-1"."""
    if not volume_id.startswith("aws://"):
        return volume_id
    path = volume_id.removeprefix("aws://").partition("/")[2].strip("/")
    if not _EBS_VOLUME.match(path):
        raise TranslationError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        )
    return path


def _gce(source: Mapping[str, Any], volume: Mapping[str, Any] | None, _name: str, _namespace: str) -> CSISource:
    driver, disk = "pd.csi.storage.gke.io", source.get("pdName") or ""
    handle = f"projects/{UNSPECIFIED}/{_gce_location(volume)}/disks/{disk}"
    mode = "ReadOnlyMany" if source.get("readOnly") else "ReadWriteOnce"
    partition = source.get("partition") or 0
    made = _made(
        driver, handle, source, volume, f"{driver}-{disk}", (mode,), {"partition": str(partition) if partition else ""}
    )
    if volume is None:
        return made
    return CSISource(
        name=made.name, driver=driver, handle=handle, modes=compatible_modes(made.modes), source=made.source
    )


def _gce_location(volume: Mapping[str, Any] | None) -> str:
    labels = {} if volume is None else labels_of(volume)
    zones = (labels.get(ZONES[0]) or labels.get(ZONES[1]) or "").split("__")
    if len(zones) == 1:
        return f"zones/{zones[0] or UNSPECIFIED}"
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, "
                f"got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        raise TranslationError(f"failed to get region from zones: multiple or no regions, got: {sorted(regions)}")
    return f"regions/{regions.pop()}"


def compatible_modes(modes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the access mode of a translated GCE disk, which the in-tree plugin enforced. No modes remain no modes.

    Source: backwardCompatibleAccessModes.
    """
    if not modes:
        return ()
    writable = {"ReadWriteOnce", "ReadWriteMany"} & set(modes)
    return ("ReadOnlyMany",) if "ReadOnlyMany" in modes and not writable else ("ReadWriteOnce",)


def _azure_disk(source: Mapping[str, Any], volume: Mapping[str, Any] | None, _name: str, _namespace: str) -> CSISource:
    handle, kind = source.get("diskURI") or "", source.get("kind")
    if kind is not None and kind.lower() != "managed":
        raise TranslationError(f"kind({kind}) is not supported in csi migration")
    attributes = {"kind": "Managed"}
    if source.get("cachingMode"):
        attributes["cachingmode"] = source["cachingMode"]
    if source.get("fsType") is not None:
        attributes["fstype"] = source["fsType"]
    return _made("disk.csi.azure.com", handle, source, volume, handle, ("ReadWriteOnce",), attributes)


def _azure_file(source: Mapping[str, Any], volume: Mapping[str, Any] | None, name: str, namespace: str) -> CSISource:
    secret, group = source.get("secretName") or "", ""
    match = _AZURE_FILE_SECRET.search(secret)
    account = secret if match is None else match.group(1)
    if volume is None:
        secret_namespace = namespace or "default"
    else:
        group, name = annotations_of(volume).get(RESOURCE_GROUP) or "", name_of(volume)
        given = source.get("secretNamespace")
        reference = (volume.get("spec") or {}).get("claimRef") or {}
        secret_namespace = given if given is not None else reference.get("namespace") or ""
        if not secret_namespace:
            raise TranslationError("could not find a secret namespace in PersistentVolumeSource or ClaimRef")
    share = source.get("shareName") or ""
    handle = "#".join((group, account, share, name, secret_namespace))
    made = _made("file.csi.azure.com", handle, source, volume, handle, ("ReadWriteMany",), {"sharename": share})
    reference = {"nodeStageSecretRef": {"name": secret, "namespace": secret_namespace}}
    return CSISource(
        name=made.name, driver=made.driver, handle=handle, modes=made.modes, source={**made.source, **reference}
    )


def _cinder(source: Mapping[str, Any], volume: Mapping[str, Any] | None, _name: str, _namespace: str) -> CSISource:
    driver, handle = "cinder.csi.openstack.org", source.get("volumeID") or ""
    return _made(driver, handle, source, volume, f"{driver}-{handle}", ("ReadWriteOnce",), {})


def _vsphere(source: Mapping[str, Any], volume: Mapping[str, Any] | None, _name: str, _namespace: str) -> CSISource:
    # Upstream crashes on an inline volume with a storage policy, because it reads the policy of the missing source.
    driver, handle = "csi.vsphere.vmware.com", source.get("volumePath") or ""
    attributes = {"storagepolicyname": source["storagePolicyName"]} if source.get("storagePolicyName") else {}
    return _made(driver, handle, source, volume, f"{driver}-{handle}", ("ReadWriteOnce",), attributes)


def _portworx(source: Mapping[str, Any], volume: Mapping[str, Any] | None, _name: str, _namespace: str) -> CSISource:
    driver, handle = "pxd.portworx.com", source.get("volumeID") or ""
    mode = "ReadOnlyMany" if source.get("readOnly") else "ReadWriteOnce"
    without_flag = {field: value for field, value in source.items() if field != "readOnly"}  # as upstream
    return _made(driver, handle, without_flag, volume, f"{driver}-{handle}", (mode,), {})


def _made(
    driver: str,
    handle: str,
    source: Mapping[str, Any],
    volume: Mapping[str, Any] | None,
    inline_name: str,
    inline_modes: tuple[str, ...],
    attributes: Mapping[str, str],
) -> CSISource:
    """Return the source.

    driver, handle, attributes: driver, volumeHandle and volumeAttributes of the CSI source.
    source: the in-tree source, whose fsType and readOnly remain.
    volume: the PersistentVolume; None for an inline volume, whose name and access modes are inline_name and
        inline_modes.
    """
    csi: Object = {"driver": driver, "volumeHandle": handle}
    if source.get("readOnly"):
        csi["readOnly"] = True
    if source.get("fsType"):
        csi["fsType"] = source["fsType"]
    if attributes:
        csi["volumeAttributes"] = dict(attributes)
    if volume is None:
        return CSISource(name=inline_name, driver=driver, handle=handle, modes=inline_modes, source=csi)
    modes = tuple((volume.get("spec") or {}).get("accessModes") or ())
    return CSISource(name=name_of(volume), driver=driver, handle=handle, modes=modes, source=csi)


_TRANSLATIONS: Mapping[str, Translate] = MappingProxyType(
    {
        "awsElasticBlockStore": _ebs,
        "gcePersistentDisk": _gce,
        "azureDisk": _azure_disk,
        "azureFile": _azure_file,
        "cinder": _cinder,
        "vsphereVolume": _vsphere,
        "portworxVolume": _portworx,
    }
)
