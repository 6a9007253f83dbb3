"""CSIDrivers.

Source: kubernetes pkg/registry/storage/csidriver/strategy.go, pkg/printers/internalversion/printers.go
(printCSIDriver) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import NONE, UNSET, age_cell, items, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, boolean
from runtime.apiserver.registry.strategy import Strategy


def cells(driver: Object, now: float) -> list[Any]:
    spec = part(driver, "spec")
    tokens = spec.get("tokenRequests")
    return [
        name_cell(driver),
        spec.get("attachRequired") is not False,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        UNSET if tokens is None else ",".join(token.get("audience") or "" for token in tokens),
        bool(spec.get("requiresRepublish")),
        ",".join(items(spec, "volumeLifecycleModes")) or NONE,
        age_cell(driver, now),
    ]


RESOURCE = ResourceDefinition(
    group="storage.k8s.io",
    version="v1",
    plural="csidrivers",
    kind="CSIDriver",
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        allow_unconditional_update=False,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            boolean("AttachRequired"),
            boolean("PodInfoOnMount"),
            boolean("StorageCapacity"),
            Column("TokenRequests"),
            boolean("RequiresRepublish"),
            Column("Modes"),
            AGE,
        ),
        cells=cells,
    ),
)
