"""ComponentStatuses (core/v1): the health of scheduler, controller manager and etcd.

They are not stored: verbs/component_statuses.py computes them for each request.

Source: kubernetes pkg/printers/internalversion/printers.go (printComponentStatus) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.derived import COMPONENTS
from kcm.runtime.apiserver.registry.printers import NAME, Column, Printer
from kcm.runtime.apiserver.rules.cells import condition, name_cell


def cells(component: Object, now: float) -> list[Any]:  # noqa: ARG001
    healthy = condition(component, "Healthy")
    if healthy is None:
        return [name_cell(component), "Unknown", "", ""]
    words = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
    return [name_cell(component), words, healthy.get("message") or "", healthy.get("error") or ""]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="componentstatuses",
    kind="ComponentStatus",
    short_names=("cs",),
    namespaced=False,
    verbs=("get", "list"),
    derived=COMPONENTS,
    printer=Printer(
        columns=(
            NAME,
            Column("Status"),
            Column("Message"),
            Column("Error"),
        ),
        cells=cells,
    ),
)
