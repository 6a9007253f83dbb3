"""Services.

Addresses are IPv4 only. Where upstream draws a free address or port at random, the uid of the service decides, so that
equal runs give equal addresses.

Source: kubernetes pkg/registry/core/service/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/apis/core/validation/validation.go, pkg/registry/core/service/storage/alloc.go,
pkg/printers/internalversion/printers.go (printService) (v1.36).
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from protocols.objects import Object
from runtime.apiserver.errors import status_errors
from runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, not_supported, required
from runtime.apiserver.kinds.shared.cells import (
    NONE,
    age_cell,
    items,
    label_cell,
    load_balancer_addresses,
    name_cell,
    part,
)
from runtime.apiserver.kinds.shared.names import dns_label
from runtime.apiserver.kinds.shared.selectable_fields import FIELD_LABEL_NOT_SUPPORTED, fields_at
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, wide
from runtime.apiserver.registry.strategy import StoredObjects, Strategy

_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
SERVICE_RANGE = ipaddress.ip_network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
_RESERVED_ADDRESSES = 10  # the first ones are only for services that name one, as those of the API and of DNS do


def set_defaults(service: Object) -> None:
    spec = service.setdefault("spec", {})
    for field, value in (("sessionAffinity", "None"), ("type", "ClusterIP")):
        if not spec.get(field):
            spec[field] = value
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def validate(service: Object) -> list[FieldError]:
    spec = service["spec"]
    errors: list[FieldError] = []
    ports = spec.get("ports") or []
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        errors.append(required("spec.ports"))
    if spec["type"] == "ExternalName" and not spec.get("externalName"):
        errors.append(required("spec.externalName"))
    names: set[str] = set()
    for i, port in enumerate(ports):
        number, name = port.get("port") or 0, port.get("name") or ""
        if not 1 <= number <= 65535:
            errors.append(invalid(f"spec.ports[{i}].port", number, "must be between 1 and 65535, inclusive"))
        if not name and len(ports) > 1:
            errors.append(required(f"spec.ports[{i}].name"))
        elif name in names:
            errors.append(duplicate(f"spec.ports[{i}].name", name))
        names.add(name)
    if spec["type"] not in _SERVICE_TYPES:
        errors.append(not_supported("spec.type", spec["type"], _SERVICE_TYPES))
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """A cluster IP is immutable while the service has one."""
    now, then = new["spec"], old["spec"]
    kept = then.get("clusterIP") and "ExternalName" not in (now["type"], then["type"])
    if kept and now.get("clusterIP") != then["clusterIP"]:
        return [invalid("spec.clusterIPs[0]", [now.get("clusterIP") or ""], "may not change once set")]
    return []


def cells(service: Object, now: float) -> list[Any]:
    spec = part(service, "spec")
    cluster_ips = items(spec, "clusterIPs") or [spec.get("clusterIP")]
    return [
        name_cell(service),
        spec.get("type") or "",
        cluster_ips[0] or NONE,
        _external_ip(service),
        ",".join(_port(port) for port in items(spec, "ports")) or NONE,
        age_cell(service, now),
        label_cell(spec.get("selector")),
    ]


def _port(port: Mapping[str, Any]) -> str:
    number, protocol = port.get("port") or 0, port.get("protocol") or ""
    return f"{number}:{port['nodePort']}/{protocol}" if port.get("nodePort") else f"{number}/{protocol}"


def _external_ip(service: Object) -> str:
    spec = part(service, "spec")
    external = list(items(spec, "externalIPs"))
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            return ",".join([*load_balancer_addresses(service), *external]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName") or "")
    return "<unknown>"


def allocate(stored: StoredObjects, service: Object) -> None:
    """Allocates a cluster IP and node ports. Raises StatusError (422) if those that the service names are taken."""
    spec, meta = service["spec"], service["metadata"]
    if spec["type"] == "ExternalName":
        return
    others = [other["spec"] for other in stored.objects("services")]
    seed = zlib.crc32(meta["uid"].encode())
    taken = {other.get("clusterIP") for other in others}
    address = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    if not address:
        address = _free_address(seed, taken)
    elif address != "None" and (error := _unusable(address, taken)):
        raise status_errors.invalid("", "Service", meta.get("name", ""), [error])
    spec["clusterIP"], spec["clusterIPs"] = address, [address]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        taken_ports = {port.get("nodePort") for other in others for port in other.get("ports") or ()}
        ports = spec.get("ports") or ()
        if errors := _unusable_node_ports(ports, taken_ports):
            raise status_errors.invalid("", "Service", meta.get("name", ""), errors)
        _allocate_node_ports(seed, ports, taken_ports)


def _unusable(address: str, taken: set[str | None]) -> FieldError | None:
    try:
        inside = ipaddress.ip_address(address) in SERVICE_RANGE
    except ValueError:
        return invalid("spec.clusterIPs[0]", address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
    if not inside:
        why = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {SERVICE_RANGE}"
    elif address in taken:
        why = "provided IP is already allocated"
    else:
        return None
    return invalid("spec.clusterIPs", [address], f"failed to allocate IP {address}: {why}")


def _free_address(seed: int, taken: set[str | None]) -> str:
    usable = SERVICE_RANGE.num_addresses - _RESERVED_ADDRESSES - 1
    for i in range(usable):
        address = str(SERVICE_RANGE[_RESERVED_ADDRESSES + (seed + i) % usable])
        if address not in taken:
            return address
    raise status_errors.internal("failed to allocate a serviceIP: range is full")


def _unusable_node_ports(ports: Iterable[Object], taken: set[int | None]) -> list[FieldError]:
    errors = []
    for i, port in enumerate(ports):
        number = port.get("nodePort")
        if not number:
            continue
        if number not in NODE_PORTS:
            valid = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            why = f"provided port is not in the valid range. The range of valid ports is {valid}"
        elif number in taken:
            why = "provided port is already allocated"
        else:
            continue
        errors.append(invalid(f"spec.ports[{i}].nodePort", number, why))
    return errors


def _allocate_node_ports(seed: int, ports: Iterable[Object], taken: set[int | None]) -> None:
    for port in ports:
        if port.get("nodePort"):
            continue
        numbers = (NODE_PORTS[(seed + i) % len(NODE_PORTS)] for i in range(len(NODE_PORTS)))
        number = next((one for one in numbers if one not in taken), None)
        if number is None:
            raise status_errors.internal("failed to allocate a nodePort: range is full")
        port["nodePort"] = number
        taken.add(number)


RESOURCE = ResourceDefinition(
    version="v1",
    plural="services",
    kind="Service",
    short_names=("svc",),
    categories=("all",),
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_label,
        allow_create_on_update=True,
        set_defaults=set_defaults,
        allocate=allocate,
        validate=validate,
        validate_update=validate_update,
        has_status=True,
        empty_status={"loadBalancer": {}},
        return_deleted_object=True,
        selectable_fields=fields_at("spec.clusterIP", "spec.type"),
        unsupported_field=FIELD_LABEL_NOT_SUPPORTED,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Type"),
            Column("Cluster-IP"),
            Column("External-IP"),
            Column("Port(s)"),
            AGE,
            wide("Selector"),
        ),
        cells=cells,
    ),
)
