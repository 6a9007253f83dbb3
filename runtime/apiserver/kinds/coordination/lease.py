"""Leases (coordination.k8s.io/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/coordination/lease/strategy.go, pkg/apis/coordination/validation/validation.go,
pkg/printers/internalversion/printers.go (printLease) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_subdomain


def set_defaults(lease: Object) -> None:
    """Remove the fields of coordinated leader election, whose feature gate (CoordinatedLeaderElection) is off."""
    for field in ("strategy", "preferredHolder"):
        (lease.get("spec") or {}).pop(field, None)


def validate(lease: Object) -> list[FieldError]:
    spec = lease.get("spec") or {}
    errors: list[FieldError] = []
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
    if (spec.get("leaseTransitions") or 0) < 0:
        detail = "must be greater than or equal to 0"
        errors.append(invalid("spec.leaseTransitions", spec["leaseTransitions"], detail))
    return errors


def cells(lease: Object, now: float) -> list[Any]:
    return [name_cell(lease), part(lease, "spec").get("holderIdentity") or "", age_cell(lease, now)]


RESOURCE = ResourceDefinition(
    group="coordination.k8s.io",
    version="v1",
    plural="leases",
    kind="Lease",
    strategy=Strategy(
        validate_name=dns_subdomain,
        allow_create_on_update=True,
        set_defaults=set_defaults,
        validate=validate,
        allow_unconditional_update=False,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Holder"),
            AGE,
        ),
        cells=cells,
    ),
)
