"""ValidatingWebhookConfigurations (admissionregistration.k8s.io/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/admissionregistration/validatingwebhookconfiguration/strategy.go,
pkg/printers/internalversion/printers.go (printValidatingWebhook) (v1.36).
"""

from __future__ import annotations

from kcm.runtime.apiserver.kinds.admissionregistration.shared import webhook_configurations
from kcm.runtime.apiserver.kinds.admissionregistration.shared.cells import WEBHOOKS
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.names import dns_subdomain

RESOURCE = ResourceDefinition(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingwebhookconfigurations",
    kind="ValidatingWebhookConfiguration",
    categories=("api-extensions",),
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=webhook_configurations.set_defaults,
        validate_create=webhook_configurations.validate_create,
        validate_update=webhook_configurations.validate_update,
        allow_unconditional_update=False,
    ),
    printer=WEBHOOKS,
)
