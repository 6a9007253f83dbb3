"""Endpoints.

Source: kubernetes pkg/registry/core/endpoint/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/printers/internalversion/printers.go (printEndpoints) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import NONE, age_cell, items, name_cell, shortened
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def set_defaults(endpoints: Object) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def cells(endpoints: Object, now: float) -> list[Any]:
    addresses: list[str] = []
    for subset in items(endpoints, "subsets"):
        ips = [address.get("ip") or "" for address in items(subset, "addresses")]
        ports = [port.get("port") for port in items(subset, "ports")]
        addresses += [_host_port(ip, port) for port in ports for ip in ips] if ports else ips
    empty = "" if items(endpoints, "subsets") else NONE
    return [name_cell(endpoints), shortened(addresses, empty=empty), age_cell(endpoints, now)]


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


RESOURCE = ResourceDefinition(
    version="v1",
    plural="endpoints",
    kind="Endpoints",
    short_names=("ep",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        allow_create_on_update=True,
        set_defaults=set_defaults,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Endpoints"),
            AGE,
        ),
        cells=cells,
    ),
)
