"""NetworkPolicies.

Source: kubernetes pkg/registry/networking/networkpolicy/strategy.go, pkg/printers/internalversion/printers.go
(printNetworkPolicy) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, name_cell, part, selector_cell
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(policy: Object, now: float) -> list[Any]:
    return [name_cell(policy), selector_cell(part(policy, "spec", "podSelector")), age_cell(policy, now)]


RESOURCE = ResourceDefinition(
    group="networking.k8s.io",
    version="v1",
    plural="networkpolicies",
    kind="NetworkPolicy",
    short_names=("netpol",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Pod-Selector"),
            AGE,
        ),
        cells=cells,
    ),
)
