"""PriorityLevelConfigurations.

Source: kubernetes pkg/registry/flowcontrol/prioritylevelconfiguration/strategy.go,
pkg/printers/internalversion/printers.go (printPriorityLevelConfiguration) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import NONE, age_cell, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(level: Object, now: float) -> list[Any]:
    spec = part(level, "spec")
    limited = spec.get("limited")
    queuing = part(spec, "limited", "limitResponse").get("queuing") or {}
    return [
        name_cell(level),
        spec.get("type") or "",
        NONE if limited is None else limited.get("nominalConcurrencyShares", NONE),
        *(queuing.get(what, NONE) for what in ("queues", "handSize", "queueLengthLimit")),
        age_cell(level, now),
    ]


RESOURCE = ResourceDefinition(
    group="flowcontrol.apiserver.k8s.io",
    version="v1",
    plural="prioritylevelconfigurations",
    kind="PriorityLevelConfiguration",
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
            Column("Type"),
            Column("NominalConcurrencyShares"),
            Column("Queues"),
            Column("HandSize"),
            Column("QueueLengthLimit"),
            AGE,
        ),
        cells=cells,
    ),
)
