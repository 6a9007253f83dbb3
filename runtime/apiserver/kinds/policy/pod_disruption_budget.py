"""PodDisruptionBudgets.

Source: kubernetes pkg/registry/policy/poddisruptionbudget/strategy.go, pkg/printers/internalversion/printers.go
(printPodDisruptionBudget) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, number
from runtime.apiserver.registry.strategy import Strategy


def cells(budget: Object, now: float) -> list[Any]:
    spec = part(budget, "spec")
    bounds = ["N/A" if spec.get(what) is None else str(spec[what]) for what in ("minAvailable", "maxUnavailable")]
    return [name_cell(budget), *bounds, part(budget, "status").get("disruptionsAllowed") or 0, age_cell(budget, now)]


RESOURCE = ResourceDefinition(
    group="policy",
    version="v1",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    short_names=("pdb",),
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        allow_unconditional_update=False,
        has_status=True,
        empty_status={"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Min Available"),
            Column("Max Unavailable"),
            number("Allowed Disruptions"),
            AGE,
        ),
        cells=cells,
    ),
)
