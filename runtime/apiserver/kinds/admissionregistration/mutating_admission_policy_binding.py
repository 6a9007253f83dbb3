"""MutatingAdmissionPolicyBindings (admissionregistration.k8s.io/v1): defaults, validation and authorization.

Source: kubernetes pkg/registry/admissionregistration/mutatingadmissionpolicybinding/strategy.go,
pkg/apis/admissionregistration/validation/validation.go,
pkg/printers/internalversion/printers.go (printMutatingAdmissionPolicyBinding) (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.kinds.admissionregistration.shared.cells import POLICY_BINDING
from kcm.runtime.apiserver.kinds.admissionregistration.shared.param_access import permit_reference
from kcm.runtime.apiserver.kinds.admissionregistration.shared.rules import (
    binding_errors,
    mutating_operations_errors,
    set_binding_defaults,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.names import dns_subdomain


def validate(binding: Object) -> list[FieldError]:
    spec = binding["spec"]
    return [*binding_errors(spec), *mutating_operations_errors(spec.get("matchResources"), "spec.matchResources")]


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
        set_defaults=set_binding_defaults,
        permit=permit_reference("mutatingadmissionpolicies.admissionregistration.k8s.io", swapped=True),
        validate=validate,
        allow_unconditional_update=False,
    ),
    printer=POLICY_BINDING,
)
