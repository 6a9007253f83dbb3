"""Endpoints (core/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/core/endpoint/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/printers/internalversion/printers.go (printEndpoints) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.addresses import host_port
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_supported, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NONE, age_cell, items, name_cell, shortened
from kcm.runtime.apiserver.rules.ip_addresses import family_of, wrong_endpoint_address
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain, label_key
from kcm.runtime.apiserver.rules.numbers import port_problems
from kcm.runtime.apiserver.rules.warnings import of_address

_PROTOCOLS = ("SCTP", "TCP", "UDP")


def set_defaults(endpoints: Object) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def validate(endpoints: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for i, subset in enumerate(items(endpoints, "subsets")):
        at, ports = f"subsets[{i}]", items(subset, "ports")
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(at, "must specify `addresses` or `notReadyAddresses`"))
        for part in ("addresses", "notReadyAddresses"):
            for j, address in enumerate(items(subset, part)):
                errors += _wrong_address(address, f"{at}.{part}[{j}]")
        for j, port in enumerate(ports):
            errors += _wrong_port(port, f"{at}.ports[{j}]", named=len(ports) > 1)
    return errors


def _wrong_address(address: Object, field: str) -> list[FieldError]:
    ip = address.get("ip") or ""
    errors = wrong_endpoint_address(ip, f"{field}.ip")
    if family_of(ip) == "unknown":
        errors.append(invalid(f"{field}.ip", ip, "must be a valid IP address"))
    for name, rule in (("hostname", dns_label), ("nodeName", dns_subdomain)):
        if address.get(name):
            errors += [invalid(f"{field}.{name}", address[name], text) for text in rule(address[name])]
    return errors


def _wrong_port(port: Object, field: str, *, named: bool) -> list[FieldError]:
    """Validate a port of Endpoints. named: whether the port must have a name."""
    name, number, errors = port.get("name") or "", port.get("port") or 0, []
    if not name and named:
        errors.append(required(f"{field}.name"))
    if name:
        errors += [invalid(f"{field}.name", name, text) for text in dns_label(name)]
    errors += [invalid(f"{field}.port", number, text) for text in port_problems(number)]
    if port["protocol"] not in _PROTOCOLS:
        errors.append(not_supported(f"{field}.protocol", port["protocol"], _PROTOCOLS))
    if port.get("appProtocol") is not None:
        errors += [
            invalid(f"{field}.appProtocol", port["appProtocol"], text) for text in label_key(port["appProtocol"])
        ]
    return errors


def warn(endpoints: Object, _old: Object | None) -> Iterator[str]:
    for i, subset in enumerate(endpoints.get("subsets") or ()):
        for field in ("addresses", "notReadyAddresses"):
            for j, address in enumerate(subset.get(field) or ()):
                yield from of_address(address.get("ip") or "", f"subsets[{i}].{field}[{j}].ip")


def cells(endpoints: Object, now: float) -> list[Any]:
    addresses: list[str] = []
    for subset in items(endpoints, "subsets"):
        ips = [address.get("ip") or "" for address in items(subset, "addresses")]
        ports = [port.get("port") for port in items(subset, "ports")]
        addresses += [host_port(ip, port) for port in ports for ip in ips] if ports else ips
    empty = "" if items(endpoints, "subsets") else NONE
    return [name_cell(endpoints), shortened(addresses, empty=empty), age_cell(endpoints, now)]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="endpoints",
    kind="Endpoints",
    short_names=("ep",),
    strategy=Strategy(
        warn=warn,
        validate_name=dns_subdomain,
        allow_create_on_update=True,
        set_defaults=set_defaults,
        validate=validate,
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
