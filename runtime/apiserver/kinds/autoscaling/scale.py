"""Scale (autoscaling/v1), the body of the subresource scale of Deployments and other workloads.

Source: kubernetes pkg/apis/autoscaling/types.go, pkg/printers/internalversion/printers.go (printScale) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, Column, Printer, number
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell, part


def cells(scale: Object, now: float) -> list[Any]:
    desired, available = (part(scale, where).get("replicas") or 0 for where in ("spec", "status"))
    return [name_cell(scale), desired, available, age_cell(scale, now)]


RESOURCE = ResourceDefinition(
    group="autoscaling",
    version="v1",
    plural="scales",
    kind="Scale",
    printer=Printer(
        columns=(
            Column("Name"),
            number("Desired"),
            number("Available"),
            AGE,
        ),
        cells=cells,
    ),
)
