"""MutatingAdmissionPolicies.

Source: kubernetes pkg/registry/admissionregistration/mutatingadmissionpolicy/strategy.go,
pkg/printers/internalversion/printers.go (printMutatingAdmissionPolicy) (v1.36).
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
    plural="mutatingadmissionpolicies",
    kind="MutatingAdmissionPolicy",
    categories=("api-extensions",),
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        allow_unconditional_update=False,
    ),
    printer=Printer(
        columns=(
            NAME,
            number("Mutations"),
            Column("ParamKind"),
            AGE,
        ),
        cells=policy_cells,
    ),
)
