"""ValidatingAdmissionPolicyBindings (admissionregistration.k8s.io/v1): defaults, validation and authorization.

Source: kubernetes pkg/registry/admissionregistration/validatingadmissionpolicybinding/strategy.go,
pkg/apis/admissionregistration/validation/validation.go,
pkg/printers/internalversion/printers.go (printValidatingAdmissionPolicyBinding) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.admissionregistration.shared.cells import POLICY_BINDING
from kcm.runtime.apiserver.kinds.admissionregistration.shared.param_access import permit_reference
from kcm.runtime.apiserver.kinds.admissionregistration.shared.rules import binding_errors, set_binding_defaults
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.names import dns_subdomain

ACTIONS = ("Audit", "Deny", "Warn")
DENIED_AND_WARNED = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


def validate(binding: Object) -> list[FieldError]:
    spec = binding["spec"]
    return [*binding_errors(spec), *_action_errors(spec.get("validationActions") or [])]


def _action_errors(actions: list[Any]) -> Iterator[FieldError]:
    path = "spec.validationActions"
    for place, action in enumerate(actions):
        if action not in ACTIONS:
            yield not_supported(f"{path}[{place}]", action, ACTIONS)
        if action in actions[:place]:
            yield duplicate(f"{path}[{place}]", action)
    if "Deny" in actions and "Warn" in actions:
        yield invalid(path, actions, DENIED_AND_WARNED)
    if not actions:
        yield required(path, "at least one validation action is required")


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
        set_defaults=set_binding_defaults,
        permit=permit_reference("validatingadmissionpolicies.admissionregistration.k8s.io"),
        validate=validate,
        allow_unconditional_update=False,
    ),
    printer=POLICY_BINDING,
)
