"""All contracts that are played as scenarios."""

from __future__ import annotations

from tests.runtime.apiserver.contracts import (
    admission,
    admission_webhooks,
    certificates,
    conversion,
    core,
    custom_resources,
    managed_fields,
    node_restriction,
    policies,
    services,
)
from tests.runtime.apiserver.contracts.contract import Contract

CONTRACTS: tuple[Contract, ...] = (
    core.CONTRACT,
    admission.CONTRACT,
    admission_webhooks.CONTRACT,
    certificates.CONTRACT,
    conversion.CONTRACT,
    custom_resources.CONTRACT,
    managed_fields.CONTRACT,
    node_restriction.CONTRACT,
    policies.CONTRACT,
    services.CONTRACT,
)
