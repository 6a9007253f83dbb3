"""DeviceClasses (resource.k8s.io/v1): validation and table columns.

Source: kubernetes pkg/registry/resource/deviceclass/strategy.go, pkg/printers/internalversion/printers.go
(printDeviceClass) (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.protocols.quota.names import is_extended
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid
from kcm.runtime.apiserver.kinds.resource.shared.device_claims import wrong_configurations, wrong_selectors
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NAME_AND_AGE
from kcm.runtime.apiserver.rules.names import dns_subdomain


def validate(class_: Object) -> list[FieldError]:
    spec = class_["spec"]
    errors = [*wrong_selectors(spec.get("selectors") or (), "spec.selectors")]
    errors += wrong_configurations(spec.get("config") or (), "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not ("/" in name and is_extended(name)):
        errors.append(invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return errors


RESOURCE = ResourceDefinition(
    group="resource.k8s.io",
    version="v1",
    plural="deviceclasses",
    kind="DeviceClass",
    namespaced=False,
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        validate=validate,
        return_deleted_object=True,
    ),
    printer=NAME_AND_AGE,
)
