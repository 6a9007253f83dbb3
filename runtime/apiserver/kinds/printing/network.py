"""Services and how they are reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols.objects import Object, annotations_of
from runtime.apiserver.kinds.printing.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Printer,
    age_cell,
    items,
    label_cell,
    name_cell,
    part,
    selector_cell,
    shortened,
    wide,
)

_SHOWN = 3  # hosts of an ingress


def service_cells(service: Object, now: float) -> list[Any]:
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
            return ",".join([*_load_balancer(service), *external]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName") or "")
    return "<unknown>"


def _load_balancer(obj: Object) -> list[str]:
    ingress = items(part(obj, "status", "loadBalancer"), "ingress")
    return sorted({one.get("ip") or one.get("hostname") for one in ingress} - {None, ""})


def endpoints_cells(endpoints: Object, now: float) -> list[Any]:
    addresses: list[str] = []
    for subset in items(endpoints, "subsets"):
        ips = [address.get("ip") or "" for address in items(subset, "addresses")]
        ports = [port.get("port") for port in items(subset, "ports")]
        addresses += [_host_port(ip, port) for port in ports for ip in ips] if ports else ips
    empty = "" if items(endpoints, "subsets") else NONE
    return [name_cell(endpoints), shortened(addresses, empty=empty), age_cell(endpoints, now)]


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def endpoint_slice_cells(endpoint_slice: Object, now: float) -> list[Any]:
    ports = [_slice_port(port) for port in items(endpoint_slice, "ports")]
    addresses = [address for endpoint in items(endpoint_slice, "endpoints") for address in items(endpoint, "addresses")]
    return [
        name_cell(endpoint_slice),
        endpoint_slice.get("addressType") or "",
        shortened(ports),
        shortened(addresses),
        age_cell(endpoint_slice, now),
    ]


def _slice_port(port: Mapping[str, Any]) -> str:
    if port.get("port") is not None:
        return str(port["port"])
    return "*" if port.get("name") is None else str(port["name"])


def ingress_cells(ingress: Object, now: float) -> list[Any]:
    spec = part(ingress, "spec")
    return [
        name_cell(ingress),
        spec.get("ingressClassName") or NONE,
        _hosts(spec),
        ",".join(_load_balancer(ingress)),
        "80, 443" if items(spec, "tls") else "80",
        age_cell(ingress, now),
    ]


def _hosts(spec: Mapping[str, Any]) -> str:
    rules = items(spec, "rules")
    hosts: list[str] = []
    for rule in rules:
        if len(hosts) == _SHOWN:
            # Counts rules, those without a host too.
            return f"{','.join(hosts)} + {len(rules) - _SHOWN} more..."
        if rule.get("host"):
            hosts.append(rule["host"])
    return ",".join(hosts) or "*"


def ingress_class_cells(ingress_class: Object, now: float) -> list[Any]:
    name = name_cell(ingress_class)
    if annotations_of(ingress_class).get("ingressclass.kubernetes.io/is-default-class") == "true":
        name += " (default)"
    spec = part(ingress_class, "spec")
    parameters = NONE
    if (given := spec.get("parameters")) is not None:
        group = f".{given['apiGroup']}" if given.get("apiGroup") is not None else ""
        parameters = f"{given.get('kind', '')}{group}/{given.get('name', '')}"
    return [name, spec.get("controller") or "", parameters, age_cell(ingress_class, now)]


def network_policy_cells(policy: Object, now: float) -> list[Any]:
    return [name_cell(policy), selector_cell(part(policy, "spec", "podSelector")), age_cell(policy, now)]


def service_cidr_cells(cidr: Object, now: float) -> list[Any]:
    return [name_cell(cidr), ",".join(items(part(cidr, "spec"), "cidrs")), age_cell(cidr, now)]


def ip_address_cells(address: Object, now: float) -> list[Any]:  # noqa: ARG001
    parent = part(address, "spec").get("parentRef")
    if parent is None:
        return [name_cell(address), NONE]
    group = f".{parent['group']}" if parent.get("group") else ""
    path = [f"{parent.get('resource', '')}{group}".lower(), parent.get("namespace") or "", parent.get("name") or ""]
    return [name_cell(address), "/".join(step for step in path if step)]


SERVICE = Printer(
    (
        NAME,
        Column("Type"),
        Column("Cluster-IP"),
        Column("External-IP"),
        Column("Port(s)"),
        AGE,
        wide("Selector"),
    ),
    service_cells,
)
ENDPOINTS = Printer((NAME, Column("Endpoints"), AGE), endpoints_cells)
ENDPOINT_SLICE = Printer((NAME, Column("AddressType"), Column("Ports"), Column("Endpoints"), AGE), endpoint_slice_cells)
INGRESS = Printer((NAME, Column("Class"), Column("Hosts"), Column("Address"), Column("Ports"), AGE), ingress_cells)
INGRESS_CLASS = Printer((NAME, Column("Controller"), Column("Parameters"), AGE), ingress_class_cells)
NETWORK_POLICY = Printer((NAME, Column("Pod-Selector"), AGE), network_policy_cells)
SERVICE_CIDR = Printer((NAME, Column("CIDRs"), AGE), service_cidr_cells)
IP_ADDRESS = Printer((NAME, Column("ParentRef")), ip_address_cells)
