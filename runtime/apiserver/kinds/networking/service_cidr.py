"""ServiceCIDRs (networking.k8s.io/v1): validation and table columns.

Source: kubernetes pkg/registry/networking/servicecidr/strategy.go, pkg/printers/internalversion/printers.go
(printServiceCIDR) (v1.36).
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, quoted, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, items, name_cell, part
from kcm.runtime.apiserver.rules.ip_addresses import validate_cidr
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE


def validate(cidr: Object) -> list[FieldError]:
    cidrs, field = items(cidr["spec"], "cidrs"), "spec.cidrs"
    if not cidrs:
        return [required(field, "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid(field, {"CIDRs": cidrs}, "may only hold up to 2 values")]
    errors = [error for i, text in enumerate(cidrs) for error in _wrong_range(text, f"{field}[{i}]")]
    if not errors and len(cidrs) == 2 and len({ip_network(text).version for text in cidrs}) == 1:
        detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(invalid(field, cidrs, detail))
    return errors


def _wrong_range(text: str, field: str) -> list[FieldError]:
    errors = validate_cidr(text, field)
    if not errors and str(ip_network(text)) != text:
        errors.append(invalid(field, text, f"must be in canonical form ({quoted(str(ip_network(text)))})"))
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of a ServiceCIDR. CIDRs are immutable; only one of the missing IP family can be appended."""
    now, before = items(new["spec"], "cidrs"), items(old["spec"], "cidrs")
    if len(now) != len(before) and (len(before), len(now)) != (1, 2):
        return [invalid("spec.cidrs", new["spec"].get("cidrs"), IMMUTABLE)]
    changed = [(i, text) for i, (text, was) in enumerate(zip(now, before, strict=False)) if text != was]
    errors = [invalid(f"spec.cidrs[{i}]", text, IMMUTABLE) for i, text in changed]
    return errors if len(now) == len(before) else errors + validate(new)


def prepare_for_status_update(new: Object, _old: Object) -> None:
    for condition in (new.get("status") or {}).get("conditions") or ():
        condition.setdefault("lastTransitionTime", None)  # upstream always encodes these fields
        for field in ("reason", "message"):
            condition.setdefault(field, "")


def cells(cidr: Object, now: float) -> list[Any]:
    return [name_cell(cidr), ",".join(items(part(cidr, "spec"), "cidrs")), age_cell(cidr, now)]


RESOURCE = ResourceDefinition(
    group="networking.k8s.io",
    version="v1",
    plural="servicecidrs",
    kind="ServiceCIDR",
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate=validate,
        validate_update=validate_update,
        update_is_judged_whole=True,
        validate_name=dns_subdomain,
        has_status=True,
        prepare_for_status_update=prepare_for_status_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("CIDRs"),
            AGE,
        ),
        cells=cells,
    ),
)
