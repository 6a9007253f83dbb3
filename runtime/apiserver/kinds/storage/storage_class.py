"""StorageClasses.

Source: kubernetes pkg/registry/storage/storageclass/strategy.go, pkg/apis/storage/v1/defaults.go,
pkg/printers/internalversion/printers.go (printStorageClass) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object, annotations_of
from runtime.apiserver.kinds.shared.cells import age_cell, name_cell
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy

_DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def set_defaults(storage_class: Object) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def cells(storage_class: Object, now: float) -> list[Any]:
    annotations = annotations_of(storage_class)
    is_default = any(annotations.get(name) == "true" for name in _DEFAULT_CLASS_ANNOTATIONS)
    return [
        name_cell(storage_class) + (" (default)" if is_default else ""),
        storage_class.get("provisioner") or "",
        storage_class.get("reclaimPolicy") or "Delete",
        storage_class.get("volumeBindingMode") or "Immediate",
        bool(storage_class.get("allowVolumeExpansion")),
        age_cell(storage_class, now),
    ]


RESOURCE = ResourceDefinition(
    group="storage.k8s.io",
    version="v1",
    plural="storageclasses",
    kind="StorageClass",
    short_names=("sc",),
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Provisioner"),
            Column("ReclaimPolicy"),
            Column("VolumeBindingMode"),
            Column("AllowVolumeExpansion"),
            AGE,
        ),
        cells=cells,
    ),
)
