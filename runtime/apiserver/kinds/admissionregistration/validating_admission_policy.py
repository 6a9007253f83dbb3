"""ValidatingAdmissionPolicies.

Source: kubernetes pkg/registry/admissionregistration/validatingadmissionpolicy/strategy.go,
pkg/printers/internalversion/printers.go (printValidatingAdmissionPolicy) (v1.36).
"""

from __future__ import annotations

from runtime.apiserver.kinds.shared.admission_registration import policy_cells
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, number
from runtime.apiserver.registry.strategy import Strategy

RESOURCE = ResourceDefinition(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicies",
    kind="ValidatingAdmissionPolicy",
    categories=("api-extensions",),
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        allow_unconditional_update=False,
        has_status=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            number("Validations"),
            Column("ParamKind"),
            AGE,
        ),
        cells=policy_cells,
    ),
)
