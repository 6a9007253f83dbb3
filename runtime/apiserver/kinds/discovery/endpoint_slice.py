"""EndpointSlices.

Source: kubernetes pkg/registry/discovery/endpointslice/strategy.go, pkg/apis/discovery/v1/defaults.go,
pkg/printers/internalversion/printers.go (printEndpointSlice) (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, items, name_cell, shortened
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def set_defaults(slice_: Object) -> None:
    for port in slice_.get("ports") or ():
        port.setdefault("name", "")
        if not port.get("protocol"):
            port["protocol"] = "TCP"


def cells(endpoint_slice: Object, now: float) -> list[Any]:
    ports = [_port(port) for port in items(endpoint_slice, "ports")]
    addresses = [address for endpoint in items(endpoint_slice, "endpoints") for address in items(endpoint, "addresses")]
    return [
        name_cell(endpoint_slice),
        endpoint_slice.get("addressType") or "",
        shortened(ports),
        shortened(addresses),
        age_cell(endpoint_slice, now),
    ]


def _port(port: Mapping[str, Any]) -> str:
    if port.get("port") is not None:
        return str(port["port"])
    return "*" if port.get("name") is None else str(port["name"])


RESOURCE = ResourceDefinition(
    group="discovery.k8s.io",
    version="v1",
    plural="endpointslices",
    kind="EndpointSlice",
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("AddressType"),
            Column("Ports"),
            Column("Endpoints"),
            AGE,
        ),
        cells=cells,
    ),
)
