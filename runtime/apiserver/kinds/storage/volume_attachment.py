"""VolumeAttachments.

Source: kubernetes pkg/registry/storage/volumeattachment/strategy.go, pkg/printers/internalversion/printers.go
(printVolumeAttachment) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, boolean
from runtime.apiserver.registry.strategy import Strategy


def cells(attachment: Object, now: float) -> list[Any]:
    spec = part(attachment, "spec")
    return [
        name_cell(attachment),
        spec.get("attacher") or "",
        part(spec, "source").get("persistentVolumeName") or "",
        spec.get("nodeName") or "",
        bool(part(attachment, "status").get("attached")),
        age_cell(attachment, now),
    ]


RESOURCE = ResourceDefinition(
    group="storage.k8s.io",
    version="v1",
    plural="volumeattachments",
    kind="VolumeAttachment",
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        allow_unconditional_update=False,
        has_status=True,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Attacher", format="name"),
            Column("PV"),
            Column("Node"),
            boolean("Attached"),
            AGE,
        ),
        cells=cells,
    ),
)
