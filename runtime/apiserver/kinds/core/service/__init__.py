"""Services (core/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/core/service/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/printers/internalversion/printers.go (printService) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.kinds.core.service.allocation import allocate, reallocate
from kcm.runtime.apiserver.kinds.core.service.fields import is_external
from kcm.runtime.apiserver.kinds.core.service.validation import validate, validate_status_update, validate_update
from kcm.runtime.apiserver.kinds.core.service.warnings import warnings_of_service
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, wide
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import (
    NONE,
    age_cell,
    items,
    label_cell,
    load_balancer_addresses,
    name_cell,
    part,
)
from kcm.runtime.apiserver.rules.names import dns_label
from kcm.runtime.apiserver.rules.selectable_fields import FIELD_LABEL_NOT_SUPPORTED, fields_at

_AFFINITY = 10800  # seconds


def set_defaults(service: Object) -> None:
    spec = service.setdefault("spec", {})
    for field, value in (("sessionAffinity", "None"), ("type", "ClusterIP")):
        if not spec.get(field):
            spec[field] = value
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        if part(part(spec, "sessionAffinityConfig"), "clientIP").get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY}}
    if not spec.get("ports"):
        spec.pop("ports", None)
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if spec["type"] == "ExternalName":
        spec.pop("internalTrafficPolicy", None)
    else:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if is_external(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in part(part(service, "status"), "loadBalancer").get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def warn(service: Object, _old: Object | None) -> Iterator[str]:
    return warnings_of_service(service)


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


RESOURCE = ResourceDefinition(
    version="v1",
    plural="services",
    kind="Service",
    short_names=("svc",),
    categories=("all",),
    subresources=("status",),
    strategy=Strategy(
        warn=warn,
        validate_name=dns_label,
        allow_create_on_update=True,
        set_defaults=set_defaults,
        allocate=allocate,
        reallocate=reallocate,
        validate=validate,
        validate_update=validate_update,
        change_is_judged_first=True,
        validate_status_update=validate_status_update,
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
