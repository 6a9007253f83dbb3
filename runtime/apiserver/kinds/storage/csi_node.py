"""CSINodes.

Source: kubernetes pkg/registry/storage/csinode/strategy.go, pkg/printers/internalversion/printers.go (printCSINode)
(v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, items, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Printer, number
from runtime.apiserver.registry.strategy import Strategy


def cells(node: Object, now: float) -> list[Any]:
    return [name_cell(node), len(items(part(node, "spec"), "drivers")), age_cell(node, now)]


RESOURCE = ResourceDefinition(
    group="storage.k8s.io",
    version="v1",
    plural="csinodes",
    kind="CSINode",
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        allow_unconditional_update=False,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            number("Drivers"),
            AGE,
        ),
        cells=cells,
    ),
)
