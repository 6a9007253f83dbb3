"""RuntimeClasses.

Source: kubernetes pkg/registry/node/runtimeclass/strategy.go, pkg/printers/internalversion/printers.go
(printRuntimeClass) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, name_cell
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(runtime_class: Object, now: float) -> list[Any]:
    return [name_cell(runtime_class), runtime_class.get("handler") or "", age_cell(runtime_class, now)]


RESOURCE = ResourceDefinition(
    group="node.k8s.io",
    version="v1",
    plural="runtimeclasses",
    kind="RuntimeClass",
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        allow_create_on_update=True,
        allow_unconditional_update=False,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Handler"),
            AGE,
        ),
        cells=cells,
    ),
)
