"""ResourceClaimTemplates.

Source: kubernetes pkg/registry/resource/resourceclaimtemplate/strategy.go, pkg/printers/internalversion/printers.go
(printResourceClaimTemplate) (v1.36).
"""

from __future__ import annotations

from runtime.apiserver.kinds.shared.cells import NAME_AND_AGE
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.strategy import Strategy

RESOURCE = ResourceDefinition(
    group="resource.k8s.io",
    version="v1",
    plural="resourceclaimtemplates",
    kind="ResourceClaimTemplate",
    strategy=Strategy(
        validate_name=dns_subdomain,
        return_deleted_object=True,
    ),
    printer=NAME_AND_AGE,
)
