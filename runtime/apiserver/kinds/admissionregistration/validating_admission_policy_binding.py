"""ValidatingAdmissionPolicyBindings.

Source: kubernetes pkg/registry/admissionregistration/validatingadmissionpolicybinding/strategy.go,
pkg/printers/internalversion/printers.go (printValidatingAdmissionPolicyBinding) (v1.36).
"""

from __future__ import annotations

from runtime.apiserver.kinds.shared.admission_registration import POLICY_BINDING
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.strategy import Strategy

RESOURCE = ResourceDefinition(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicybindings",
    kind="ValidatingAdmissionPolicyBinding",
    categories=("api-extensions",),
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        allow_unconditional_update=False,
    ),
    printer=POLICY_BINDING,
)
