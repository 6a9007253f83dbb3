"""FlowSchemas.

Source: kubernetes pkg/registry/flowcontrol/flowschema/strategy.go, pkg/printers/internalversion/printers.go
(printFlowSchema) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import NONE, age_cell, condition, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(schema: Object, now: float) -> list[Any]:
    spec = part(schema, "spec")
    dangling = condition(part(schema, "status"), "Dangling")
    return [
        name_cell(schema),
        part(spec, "priorityLevelConfiguration").get("name") or "",
        spec.get("matchingPrecedence") or 0,
        part(spec, "distinguisherMethod").get("type") or NONE,
        age_cell(schema, now),
        "?" if dangling is None else dangling.get("status") or "",
    ]


RESOURCE = ResourceDefinition(
    group="flowcontrol.apiserver.k8s.io",
    version="v1",
    plural="flowschemas",
    kind="FlowSchema",
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        has_status=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("PriorityLevel"),
            Column("MatchingPrecedence"),
            Column("DistinguisherMethod"),
            AGE,
            Column("MissingPL"),
        ),
        cells=cells,
    ),
)
