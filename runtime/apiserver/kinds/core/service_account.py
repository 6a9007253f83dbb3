"""ServiceAccounts (core/v1): validation and table columns.

Source: kubernetes pkg/registry/core/serviceaccount/strategy.go, pkg/printers/internalversion/printers.go
(printServiceAccount) (v1.36).
"""

from __future__ import annotations

from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NAME_AND_AGE
from kcm.runtime.apiserver.rules.names import dns_subdomain

RESOURCE = ResourceDefinition(
    version="v1",
    plural="serviceaccounts",
    kind="ServiceAccount",
    short_names=("sa",),
    subresources=("token",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        return_deleted_object=True,
    ),
    printer=NAME_AND_AGE,
)
