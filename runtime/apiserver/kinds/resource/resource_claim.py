"""ResourceClaims.

Source: kubernetes pkg/registry/resource/resourceclaim/strategy.go, pkg/printers/internalversion/printers.go
(printResourceClaim) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object, is_deleting
from runtime.apiserver.kinds.shared.cells import age_cell, items, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(claim: Object, now: float) -> list[Any]:
    status, states = part(claim, "status"), []
    if is_deleting(claim):
        states.append("deleted")
    if status.get("allocation") is not None:
        states.append("allocated")
        if items(status, "reservedFor"):
            states.append("reserved")
    return [name_cell(claim), ",".join(states) or "pending", age_cell(claim, now)]


RESOURCE = ResourceDefinition(
    group="resource.k8s.io",
    version="v1",
    plural="resourceclaims",
    kind="ResourceClaim",
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_status=True,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("State"),
            AGE,
        ),
        cells=cells,
    ),
)
