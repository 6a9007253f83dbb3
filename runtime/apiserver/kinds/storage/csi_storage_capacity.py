"""CSIStorageCapacities.

Source: kubernetes pkg/registry/storage/csistoragecapacity/strategy.go, pkg/printers/internalversion/printers.go
(printCSIStorageCapacity) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import name_cell, or_unset
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(capacity: Object, now: float) -> list[Any]:  # noqa: ARG001
    return [name_cell(capacity), capacity.get("storageClassName") or "", or_unset(capacity, "capacity")]


RESOURCE = ResourceDefinition(
    group="storage.k8s.io",
    version="v1",
    plural="csistoragecapacities",
    kind="CSIStorageCapacity",
    strategy=Strategy(
        validate_name=dns_subdomain,
        allow_unconditional_update=False,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("StorageClassName"),
            Column("Capacity"),
        ),
        cells=cells,
    ),
)
