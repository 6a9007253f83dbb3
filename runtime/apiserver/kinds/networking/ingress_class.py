"""IngressClasses.

Source: kubernetes pkg/registry/networking/ingressclass/strategy.go, pkg/printers/internalversion/printers.go
(printIngressClass) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object, annotations_of
from runtime.apiserver.kinds.shared.cells import NONE, age_cell, name_cell, part
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(ingress_class: Object, now: float) -> list[Any]:
    name = name_cell(ingress_class)
    if annotations_of(ingress_class).get("ingressclass.kubernetes.io/is-default-class") == "true":
        name += " (default)"
    spec = part(ingress_class, "spec")
    parameters = NONE
    if (given := spec.get("parameters")) is not None:
        group = f".{given['apiGroup']}" if given.get("apiGroup") is not None else ""
        parameters = f"{given.get('kind', '')}{group}/{given.get('name', '')}"
    return [name, spec.get("controller") or "", parameters, age_cell(ingress_class, now)]


RESOURCE = ResourceDefinition(
    group="networking.k8s.io",
    version="v1",
    plural="ingressclasses",
    kind="IngressClass",
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Controller"),
            Column("Parameters"),
            AGE,
        ),
        cells=cells,
    ),
)
