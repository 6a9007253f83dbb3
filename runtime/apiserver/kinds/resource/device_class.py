"""DeviceClasses.

Source: kubernetes pkg/registry/resource/deviceclass/strategy.go, pkg/printers/internalversion/printers.go
(printDeviceClass) (v1.36).
"""

from __future__ import annotations

from runtime.apiserver.kinds.shared.cells import NAME_AND_AGE
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.strategy import Strategy

RESOURCE = ResourceDefinition(
    group="resource.k8s.io",
    version="v1",
    plural="deviceclasses",
    kind="DeviceClass",
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        return_deleted_object=True,
    ),
    printer=NAME_AND_AGE,
)
