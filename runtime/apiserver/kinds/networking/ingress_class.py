"""IngressClasses (networking.k8s.io/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/networking/ingressclass/strategy.go, pkg/printers/internalversion/printers.go
(printIngressClass) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object, annotations_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required, too_long
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NONE, age_cell, name_cell, part
from kcm.runtime.apiserver.rules.domain_paths import domain_prefixed_path
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain, path_segment
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE

_LONGEST = 250


def set_defaults(ingress_class: Object) -> None:
    parameters = ingress_class["spec"].get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def validate(ingress_class: Object) -> list[FieldError]:
    spec = ingress_class["spec"]
    controller, parameters = spec.get("controller") or "", spec.get("parameters")
    errors = [too_long("spec.controller", _LONGEST)] if len(controller) > _LONGEST else []
    errors += domain_prefixed_path(controller, "spec.controller")
    if parameters is not None:
        errors += _wrong_parameters(parameters, "spec.parameters")
    return errors


def _wrong_parameters(parameters: Object, field: str) -> Iterator[FieldError]:
    group, scope, namespace = parameters.get("apiGroup"), parameters.get("scope"), parameters.get("namespace")
    if group is not None:
        for text in dns_subdomain(group):
            yield invalid(f"{field}.apiGroup", group, text)
    for name in ("kind", "name"):
        if not parameters.get(name):
            yield required(f"{field}.{name}")
        else:
            for text in path_segment(parameters[name]):
                yield invalid(f"{field}.{name}", parameters[name], text)
    if scope not in ("Cluster", "Namespace"):
        yield not_supported(f"{field}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Namespace":
        if not namespace:
            yield required(f"{field}.namespace", "`parameters.scope` is set to 'Namespace'")
        else:
            for text in dns_label(namespace):
                yield invalid(f"{field}.namespace", namespace, text)
    elif namespace is not None:
        yield forbidden(f"{field}.namespace", "`parameters.scope` is set to 'Cluster'")


def validate_update(new: Object, old: Object) -> list[FieldError]:
    controller = new["spec"].get("controller")
    same = controller == old["spec"].get("controller")
    return [] if same else [invalid("spec.controller", controller or "", IMMUTABLE)]


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
        set_defaults=set_defaults,
        validate=validate,
        validate_update=validate_update,
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
