"""Volumes, claims, classes, attachments, and what devices claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocols.objects import Object, annotations_of, is_deleting
from runtime.apiserver.kinds.printing.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Printer,
    age_cell,
    items,
    name_cell,
    number,
    part,
    wide,
)

_CLASS_BEFORE_THE_FIELD = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _class(obj: Object) -> str:
    older = annotations_of(obj).get(_CLASS_BEFORE_THE_FIELD)
    return str(part(obj, "spec").get("storageClassName") or "") if older is None else older


def _phase(obj: Object) -> str:
    return "Terminating" if is_deleting(obj) else str(part(obj, "status").get("phase") or "")


def _or_unset(spec: Mapping[str, Any], name: str) -> str:
    return UNSET if spec.get(name) is None else str(spec[name])


def persistent_volume_cells(volume: Object, now: float) -> list[Any]:
    spec = part(volume, "spec")
    claim = spec.get("claimRef")
    return [
        name_cell(volume),
        str(part(spec, "capacity").get("storage") or "0"),
        _modes(items(spec, "accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(volume),
        "" if claim is None else f"{claim.get('namespace') or ''}/{claim.get('name') or ''}",
        _class(volume),
        _or_unset(spec, "volumeAttributesClassName"),
        part(volume, "status").get("reason") or "",
        age_cell(volume, now),
        _or_unset(spec, "volumeMode"),
    ]


def persistent_volume_claim_cells(claim: Object, now: float) -> list[Any]:
    spec, status = part(claim, "spec"), part(claim, "status")
    bound = bool(spec.get("volumeName"))
    return [
        name_cell(claim),
        _phase(claim),
        spec.get("volumeName") or "",
        str(part(status, "capacity").get("storage") or "0") if bound else "",
        _modes(items(status, "accessModes")) if bound else "",
        _class(claim),
        _or_unset(spec, "volumeAttributesClassName"),
        age_cell(claim, now),
        _or_unset(spec, "volumeMode"),
    ]


def storage_class_cells(storage_class: Object, now: float) -> list[Any]:
    annotations = annotations_of(storage_class)
    is_default = any(annotations.get(name) == "true" for name in _DEFAULT_CLASS)
    return [
        name_cell(storage_class) + (" (default)" if is_default else ""),
        storage_class.get("provisioner") or "",
        storage_class.get("reclaimPolicy") or "Delete",
        storage_class.get("volumeBindingMode") or "Immediate",
        bool(storage_class.get("allowVolumeExpansion")),
        age_cell(storage_class, now),
    ]


def volume_attributes_class_cells(attributes_class: Object, now: float) -> list[Any]:
    return [name_cell(attributes_class), attributes_class.get("driverName") or "", age_cell(attributes_class, now)]


def volume_attachment_cells(attachment: Object, now: float) -> list[Any]:
    spec = part(attachment, "spec")
    return [
        name_cell(attachment),
        spec.get("attacher") or "",
        part(spec, "source").get("persistentVolumeName") or "",
        spec.get("nodeName") or "",
        bool(part(attachment, "status").get("attached")),
        age_cell(attachment, now),
    ]


def csi_node_cells(node: Object, now: float) -> list[Any]:
    return [name_cell(node), len(items(part(node, "spec"), "drivers")), age_cell(node, now)]


def csi_driver_cells(driver: Object, now: float) -> list[Any]:
    spec = part(driver, "spec")
    tokens = spec.get("tokenRequests")
    return [
        name_cell(driver),
        spec.get("attachRequired") is not False,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        UNSET if tokens is None else ",".join(token.get("audience") or "" for token in tokens),
        bool(spec.get("requiresRepublish")),
        ",".join(items(spec, "volumeLifecycleModes")) or NONE,
        age_cell(driver, now),
    ]


def csi_storage_capacity_cells(capacity: Object, now: float) -> list[Any]:  # noqa: ARG001
    return [name_cell(capacity), capacity.get("storageClassName") or "", _or_unset(capacity, "capacity")]


def resource_claim_cells(claim: Object, now: float) -> list[Any]:
    status, states = part(claim, "status"), []
    if is_deleting(claim):
        states.append("deleted")
    if status.get("allocation") is not None:
        states.append("allocated")
        if items(status, "reservedFor"):
            states.append("reserved")
    return [name_cell(claim), ",".join(states) or "pending", age_cell(claim, now)]


def resource_slice_cells(resource_slice: Object, now: float) -> list[Any]:
    spec = part(resource_slice, "spec")
    return [
        name_cell(resource_slice),
        spec.get("nodeName") or "",
        spec.get("driver") or "",
        part(spec, "pool").get("name") or "",
        age_cell(resource_slice, now),
    ]


PERSISTENT_VOLUME = Printer(
    (
        NAME,
        Column("Capacity"),
        Column("Access Modes"),
        Column("Reclaim Policy"),
        Column("Status"),
        Column("Claim"),
        Column("StorageClass"),
        Column("VolumeAttributesClass"),
        Column("Reason"),
        AGE,
        wide("VolumeMode"),
    ),
    persistent_volume_cells,
)
PERSISTENT_VOLUME_CLAIM = Printer(
    (
        NAME,
        Column("Status"),
        Column("Volume"),
        Column("Capacity"),
        Column("Access Modes"),
        Column("StorageClass"),
        Column("VolumeAttributesClass"),
        AGE,
        wide("VolumeMode"),
    ),
    persistent_volume_claim_cells,
)
STORAGE_CLASS = Printer(
    (
        NAME,
        Column("Provisioner"),
        Column("ReclaimPolicy"),
        Column("VolumeBindingMode"),
        Column("AllowVolumeExpansion"),
        AGE,
    ),
    storage_class_cells,
)
VOLUME_ATTRIBUTES_CLASS = Printer((NAME, Column("DriverName"), AGE), volume_attributes_class_cells)
VOLUME_ATTACHMENT = Printer(
    (NAME, Column("Attacher", format="name"), Column("PV"), Column("Node"), Column("Attached", "boolean"), AGE),
    volume_attachment_cells,
)
CSI_NODE = Printer((NAME, number("Drivers"), AGE), csi_node_cells)
CSI_DRIVER = Printer(
    (
        NAME,
        Column("AttachRequired", "boolean"),
        Column("PodInfoOnMount", "boolean"),
        Column("StorageCapacity", "boolean"),
        Column("TokenRequests"),
        Column("RequiresRepublish", "boolean"),
        Column("Modes"),
        AGE,
    ),
    csi_driver_cells,
)
CSI_STORAGE_CAPACITY = Printer((NAME, Column("StorageClassName"), Column("Capacity")), csi_storage_capacity_cells)
RESOURCE_CLAIM = Printer((NAME, Column("State"), AGE), resource_claim_cells)
RESOURCE_SLICE = Printer((NAME, Column("Node"), Column("Driver"), Column("Pool"), AGE), resource_slice_cells)
