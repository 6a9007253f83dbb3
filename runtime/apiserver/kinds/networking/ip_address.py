"""IPAddresses.

Source: kubernetes pkg/registry/networking/ipaddress/strategy.go, pkg/printers/internalversion/printers.go
(printIPAddress) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import NONE, name_cell, part
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(address: Object, now: float) -> list[Any]:  # noqa: ARG001
    parent = part(address, "spec").get("parentRef")
    if parent is None:
        return [name_cell(address), NONE]
    group = f".{parent['group']}" if parent.get("group") else ""
    path = [f"{parent.get('resource', '')}{group}".lower(), parent.get("namespace") or "", parent.get("name") or ""]
    return [name_cell(address), "/".join(step for step in path if step)]


RESOURCE = ResourceDefinition(
    group="networking.k8s.io",
    version="v1",
    plural="ipaddresses",
    kind="IPAddress",
    short_names=("ip",),
    namespaced=False,
    strategy=Strategy(),
    printer=Printer(
        columns=(
            NAME,
            Column("ParentRef"),
        ),
        cells=cells,
    ),
)
