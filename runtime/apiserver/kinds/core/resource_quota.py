"""ResourceQuotas.

Source: kubernetes pkg/registry/core/resourcequota/strategy.go, pkg/printers/internalversion/printers.go
(printResourceQuota) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(quota: Object, now: float) -> list[Any]:
    status = part(quota, "status")
    hard, used = part(status, "hard"), part(status, "used")
    columns: tuple[list[str], list[str]] = ([], [])
    for resource in sorted(hard):
        columns[resource.startswith("limits.")].append(f"{resource}: {used.get(resource, '0')}/{hard[resource]}")
    return [name_cell(quota), ", ".join(columns[0]), ", ".join(columns[1]), age_cell(quota, now)]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="resourcequotas",
    kind="ResourceQuota",
    short_names=("quota",),
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_status=True,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Request"),
            Column("Limit"),
            AGE,
        ),
        cells=cells,
    ),
)
