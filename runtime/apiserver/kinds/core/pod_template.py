"""PodTemplates.

Source: kubernetes pkg/registry/core/podtemplate/strategy.go, pkg/printers/internalversion/printers.go
(printPodTemplate) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import container_cells, label_cell, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(template: Object, now: float) -> list[Any]:  # noqa: ARG001
    inner = part(template, "template")
    return [name_cell(template), *container_cells(part(inner, "spec")), label_cell(part(inner, "metadata", "labels"))]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="podtemplates",
    kind="PodTemplate",
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Containers"),
            Column("Images"),
            Column("Pod Labels"),
        ),
        cells=cells,
    ),
)
