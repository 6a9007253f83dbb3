"""EndpointSlices (discovery.k8s.io/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/discovery/endpointslice/strategy.go, pkg/apis/discovery/v1/defaults.go,
pkg/printers/internalversion/printers.go (printEndpointSlice) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, not_supported, required, too_many
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, items, name_cell, shortened
from kcm.runtime.apiserver.rules.ip_addresses import family_of, wrong_endpoint_address
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain, label_key
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.warnings import of_address

_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_MANAGERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")
_FAMILIES, _PROTOCOLS = ("FQDN", "IPv4", "IPv6"), ("SCTP", "TCP", "UDP")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_HINTS = 1000, 100, 20_000, 8


def set_defaults(slice_: Object) -> None:
    for port in slice_.get("ports") or ():
        port.setdefault("name", "")
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for endpoint in slice_.get("endpoints") or ():
        endpoint.setdefault("conditions", {})


def validate(slice_: Object) -> list[FieldError]:
    family = slice_.get("addressType") or ""
    if not family:
        return [required("addressType")]
    if family not in _FAMILIES:
        return [not_supported("addressType", family, _FAMILIES)]
    errors: list[FieldError] = []
    endpoints = slice_.get("endpoints") or ()
    if len(endpoints) > _MOST_ENDPOINTS:
        errors.append(too_many("endpoints", len(endpoints), _MOST_ENDPOINTS))
    for i, endpoint in enumerate(endpoints):
        errors += _wrong_endpoint(endpoint, f"endpoints[{i}]", family)
    return [*errors, *_wrong_ports(slice_.get("ports") or ())]


def _wrong_endpoint(endpoint: Object, field: str, family: str) -> list[FieldError]:
    addresses, errors = endpoint.get("addresses") or (), []
    if not addresses:
        errors.append(required(f"{field}.addresses", "must contain at least 1 address"))
    elif len(addresses) > _MOST_ADDRESSES:
        errors.append(too_many(f"{field}.addresses", len(addresses), _MOST_ADDRESSES))
    for i, address in enumerate(addresses):
        if family == "FQDN":
            problems = dns_subdomain(address)
            errors += [invalid(f"{field}.addresses[{i}]", address, text) for text in problems]
        else:
            errors += wrong_endpoint_address(address, f"{field}.addresses[{i}]")
            if family_of(address) not in (family, "unknown"):
                errors.append(invalid(f"{field}.addresses", address, f"must be an {family} address"))
    for name, rule in (("hostname", dns_label), ("nodeName", dns_subdomain)):
        if endpoint.get(name):
            errors += [invalid(f"{field}.{name}", endpoint[name], text) for text in rule(endpoint[name])]
    if endpoint.get("hints"):
        errors += _wrong_hints(endpoint["hints"], f"{field}.hints")
    return errors


def _wrong_hints(hints: Object, field: str) -> Iterator[FieldError]:
    for name in ("forZones", "forNodes"):
        given, seen = hints.get(name) or (), set()
        if len(given) > _MOST_HINTS:
            yield too_many(f"{field}.{name}", len(given), _MOST_HINTS)
            continue
        for i, hint in enumerate(given):
            value = hint.get("name") or ""
            if value in seen:
                yield duplicate(f"{field}.{name}[{i}].name", value)
            seen.add(value)


def _wrong_ports(ports: Sequence[Object]) -> Iterator[FieldError]:
    names: set[str] = set()
    if len(ports) > _MOST_PORTS:
        yield too_many("ports", len(ports), _MOST_PORTS)
    for i, port in enumerate(ports):
        name, protocol, at = port["name"], port["protocol"], f"ports[{i}]"
        for text in dns_label(name) if name else ():
            yield invalid(f"{at}.name", name, text)
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        if protocol not in _PROTOCOLS:
            yield not_supported(f"{at}.protocol", protocol, _PROTOCOLS)
        if port.get("appProtocol") is not None:
            for text in label_key(port["appProtocol"]):
                yield invalid(f"{at}.appProtocol", port["appProtocol"], text)


def validate_update(new: Object, old: Object) -> list[FieldError]:
    same = new.get("addressType") == old.get("addressType")
    return [] if same else [invalid("addressType", new.get("addressType") or "", IMMUTABLE)]


def warn(slice_: Object, old: Object | None) -> Iterator[str]:
    """Yield warnings about deprecated FQDN endpoints and, in slices that no controller manages, about addresses."""
    if old is None and slice_.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
    if (slice_["metadata"].get("labels") or {}).get(_MANAGED_BY) in _MANAGERS:
        return
    for i, endpoint in enumerate(slice_.get("endpoints") or ()):
        for j, address in enumerate(endpoint.get("addresses") or ()):
            yield from of_address(address, f"endpoints[{i}].addresses[{j}]")


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
        warn=warn,
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        validate=validate,
        validate_update=validate_update,
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
