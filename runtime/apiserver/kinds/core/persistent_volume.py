"""PersistentVolumes.

Source: kubernetes pkg/registry/core/persistentvolume/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/printers/internalversion/printers.go (printPersistentVolume) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, items, name_cell, or_unset, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.kinds.shared.volumes import access_modes, class_of, phase_of, set_pending
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, wide
from runtime.apiserver.registry.strategy import Strategy


def set_defaults(volume: Object) -> None:
    spec = volume.setdefault("spec", {})
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    spec.setdefault("volumeMode", "Filesystem")


def cells(volume: Object, now: float) -> list[Any]:
    spec = part(volume, "spec")
    claim = spec.get("claimRef")
    return [
        name_cell(volume),
        str(part(spec, "capacity").get("storage") or "0"),
        access_modes(items(spec, "accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        phase_of(volume),
        "" if claim is None else f"{claim.get('namespace') or ''}/{claim.get('name') or ''}",
        class_of(volume),
        or_unset(spec, "volumeAttributesClassName"),
        part(volume, "status").get("reason") or "",
        age_cell(volume, now),
        or_unset(spec, "volumeMode"),
    ]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="persistentvolumes",
    kind="PersistentVolume",
    short_names=("pv",),
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        prepare_for_create=set_pending,
        has_status=True,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
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
        cells=cells,
    ),
)
