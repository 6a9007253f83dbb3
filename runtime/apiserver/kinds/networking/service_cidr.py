"""ServiceCIDRs.

Source: kubernetes pkg/registry/networking/servicecidr/strategy.go, pkg/printers/internalversion/printers.go
(printServiceCIDR) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, items, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(cidr: Object, now: float) -> list[Any]:
    return [name_cell(cidr), ",".join(items(part(cidr, "spec"), "cidrs")), age_cell(cidr, now)]


RESOURCE = ResourceDefinition(
    group="networking.k8s.io",
    version="v1",
    plural="servicecidrs",
    kind="ServiceCIDR",
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_status=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("CIDRs"),
            AGE,
        ),
        cells=cells,
    ),
)
