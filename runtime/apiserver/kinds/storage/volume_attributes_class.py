"""VolumeAttributesClasses.

Source: kubernetes pkg/registry/storage/volumeattributesclass/strategy.go, pkg/printers/internalversion/printers.go
(printVolumeAttributesClass) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, name_cell
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(attributes_class: Object, now: float) -> list[Any]:
    return [name_cell(attributes_class), attributes_class.get("driverName") or "", age_cell(attributes_class, now)]


RESOURCE = ResourceDefinition(
    group="storage.k8s.io",
    version="v1",
    plural="volumeattributesclasses",
    kind="VolumeAttributesClass",
    short_names=("vac",),
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("DriverName"),
            AGE,
        ),
        cells=cells,
    ),
)
