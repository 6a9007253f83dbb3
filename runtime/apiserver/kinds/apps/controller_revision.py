"""ControllerRevisions.

Source: kubernetes pkg/registry/apps/controllerrevision/strategy.go, pkg/printers/internalversion/printers.go
(printControllerRevision) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object, controller_of
from runtime.apiserver.kinds.shared.cells import NONE, age_cell, name_cell
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(obj: Object, now: float) -> list[Any]:
    owner = controller_of(obj)
    controller = NONE
    if owner is not None:
        group = owner.api_version.rpartition("/")[0]
        kind = f"{owner.kind}.{group}" if group else owner.kind
        controller = f"{kind.lower()}/{owner.name}"
    return [name_cell(obj), controller, obj.get("revision") or 0, age_cell(obj, now)]


RESOURCE = ResourceDefinition(
    group="apps",
    version="v1",
    plural="controllerrevisions",
    kind="ControllerRevision",
    strategy=Strategy(
        validate_name=dns_subdomain,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Controller"),
            Column("Revision"),
            AGE,
        ),
        cells=cells,
    ),
)
