"""MutatingAdmissionPolicyBindings.

Source: kubernetes pkg/registry/admissionregistration/mutatingadmissionpolicybinding/strategy.go,
pkg/printers/internalversion/printers.go (printMutatingAdmissionPolicyBinding) (v1.36).
"""

from __future__ import annotations

from runtime.apiserver.kinds.shared.admission_registration import POLICY_BINDING
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.strategy import Strategy

RESOURCE = ResourceDefinition(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingadmissionpolicybindings",
    kind="MutatingAdmissionPolicyBinding",
    categories=("api-extensions",),
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        allow_unconditional_update=False,
    ),
    printer=POLICY_BINDING,
)
