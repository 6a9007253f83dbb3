"""IPAddresses (networking.k8s.io/v1): validation and table columns.

Source: kubernetes pkg/registry/networking/ipaddress/strategy.go, pkg/printers/internalversion/printers.go
(printIPAddress) (v1.36).
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, quoted, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NONE, name_cell, part
from kcm.runtime.apiserver.rules.ip_addresses import validate_ip
from kcm.runtime.apiserver.rules.names import dns_subdomain, path_segment
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE


def validate(address: Object) -> list[FieldError]:
    name, parent = address["metadata"].get("name") or "", address["spec"].get("parentRef")
    errors = validate_ip(name, "metadata.name")
    if not errors and str(ip_address(name)) != name:
        errors.append(invalid("metadata.name", name, f"must be in canonical form ({quoted(str(ip_address(name)))})"))
    if parent is None:
        return [*errors, required("spec.parentRef")]
    group = parent.get("group") or ""
    errors += [invalid("spec.parentRef.group", group, text) for text in dns_subdomain(group) if group]
    for field in ("resource", "name", "namespace"):
        value = parent.get(field) or ""
        if not value and field != "namespace":
            errors.append(required(f"spec.parentRef.{field}"))
        errors += [invalid(f"spec.parentRef.{field}", value, text) for text in path_segment(value) if value]
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    parent = new["spec"].get("parentRef") or {}
    if parent == old["spec"].get("parentRef"):
        return []
    fields = ("group", "resource", "namespace", "name")
    is_missing = new["spec"].get("parentRef") is None
    shown = None if is_missing else {field.capitalize(): parent.get(field) or "" for field in fields}
    return [invalid("spec.parentRef", shown, IMMUTABLE)]


def cells(address: Object, now: float) -> list[Any]:  # noqa: ARG001
    parent = part(address, "spec").get("parentRef")
    if parent is None:
        return [name_cell(address), NONE]
    group = f".{parent['group']}" if parent.get("group") else ""
    path = [f"{parent.get('resource', '')}{group}".lower(), parent.get("namespace") or "", parent.get("name") or ""]
    return [name_cell(address), "/".join(step for step in path if step)]


RESOURCE = ResourceDefinition(
    group="networking.k8s.io",
    version="v1",
    plural="ipaddresses",
    kind="IPAddress",
    short_names=("ip",),
    namespaced=False,
    strategy=Strategy(
        validate=validate,
        validate_update=validate_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("ParentRef"),
        ),
        cells=cells,
    ),
)
