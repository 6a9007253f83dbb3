"""Ingresses.

Source: kubernetes pkg/registry/networking/ingress/strategy.go, pkg/printers/internalversion/printers.go
(printIngress) (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import NONE, age_cell, items, load_balancer_addresses, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy

_SHOWN = 3  # hosts of an ingress


def cells(ingress: Object, now: float) -> list[Any]:
    spec = part(ingress, "spec")
    return [
        name_cell(ingress),
        spec.get("ingressClassName") or NONE,
        _hosts(spec),
        ",".join(load_balancer_addresses(ingress)),
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


RESOURCE = ResourceDefinition(
    group="networking.k8s.io",
    version="v1",
    plural="ingresses",
    kind="Ingress",
    short_names=("ing",),
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        has_status=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Class"),
            Column("Hosts"),
            Column("Address"),
            Column("Ports"),
            AGE,
        ),
        cells=cells,
    ),
)
