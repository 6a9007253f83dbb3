"""ResourceSlices.

Source: kubernetes pkg/registry/resource/resourceslice/strategy.go, pkg/printers/internalversion/printers.go
(printResourceSlice) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(resource_slice: Object, now: float) -> list[Any]:
    spec = part(resource_slice, "spec")
    return [
        name_cell(resource_slice),
        spec.get("nodeName") or "",
        spec.get("driver") or "",
        part(spec, "pool").get("name") or "",
        age_cell(resource_slice, now),
    ]


RESOURCE = ResourceDefinition(
    group="resource.k8s.io",
    version="v1",
    plural="resourceslices",
    kind="ResourceSlice",
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Node"),
            Column("Driver"),
            Column("Pool"),
            AGE,
        ),
        cells=cells,
    ),
)
