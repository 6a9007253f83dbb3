"""PriorityClasses.

Source: kubernetes pkg/registry/scheduling/priorityclass/strategy.go, pkg/apis/scheduling/v1/defaults.go,
pkg/printers/internalversion/printers.go (printPriorityClass) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, name_cell
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, boolean, number
from runtime.apiserver.registry.strategy import Strategy


def set_defaults(priority_class: Object) -> None:
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")


def cells(priority: Object, now: float) -> list[Any]:
    return [
        name_cell(priority),
        priority.get("value") or 0,
        bool(priority.get("globalDefault")),
        age_cell(priority, now),
        priority.get("preemptionPolicy") or "",
    ]


RESOURCE = ResourceDefinition(
    group="scheduling.k8s.io",
    version="v1",
    plural="priorityclasses",
    kind="PriorityClass",
    short_names=("pc",),
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
    ),
    printer=Printer(
        columns=(
            NAME,
            number("Value"),
            boolean("Global-Default"),
            AGE,
            Column("PreemptionPolicy"),
        ),
        cells=cells,
    ),
)
