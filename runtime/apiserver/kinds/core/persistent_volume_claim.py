"""PersistentVolumeClaims.

Source: kubernetes pkg/registry/core/persistentvolumeclaim/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/printers/internalversion/printers.go (printPersistentVolumeClaim) (v1.36).
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


def set_defaults(claim: Object) -> None:
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def cells(claim: Object, now: float) -> list[Any]:
    spec, status = part(claim, "spec"), part(claim, "status")
    bound = bool(spec.get("volumeName"))
    return [
        name_cell(claim),
        phase_of(claim),
        spec.get("volumeName") or "",
        str(part(status, "capacity").get("storage") or "0") if bound else "",
        access_modes(items(status, "accessModes")) if bound else "",
        class_of(claim),
        or_unset(spec, "volumeAttributesClassName"),
        age_cell(claim, now),
        or_unset(spec, "volumeMode"),
    ]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="persistentvolumeclaims",
    kind="PersistentVolumeClaim",
    short_names=("pvc",),
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
            Column("Status"),
            Column("Volume"),
            Column("Capacity"),
            Column("Access Modes"),
            Column("StorageClass"),
            Column("VolumeAttributesClass"),
            AGE,
            wide("VolumeMode"),
        ),
        cells=cells,
    ),
)
