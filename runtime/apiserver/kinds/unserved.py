"""The kinds whose rows and columns are written but that are not served yet. Shrinks to nothing.

To serve one, move its line to built_in.py, and write in its file the defaults and checks that its controller needs.
"""

from __future__ import annotations

from runtime.apiserver.kinds.admissionregistration import (
    mutating_admission_policy,
    mutating_admission_policy_binding,
    mutating_webhook_configuration,
    validating_admission_policy,
    validating_admission_policy_binding,
    validating_webhook_configuration,
)
from runtime.apiserver.kinds.autoscaling import horizontal_pod_autoscaler
from runtime.apiserver.kinds.coordination import lease_candidate
from runtime.apiserver.kinds.core import component_status
from runtime.apiserver.kinds.flowcontrol import flow_schema, priority_level_configuration
from runtime.apiserver.kinds.networking import ingress_class, ip_address, service_cidr
from runtime.apiserver.kinds.node import runtime_class
from runtime.apiserver.kinds.resource import device_class, resource_claim, resource_claim_template, resource_slice
from runtime.apiserver.kinds.storage import csi_storage_capacity, volume_attachment, volume_attributes_class
from runtime.apiserver.registry.definitions import ResourceDefinition

UNSERVED: tuple[ResourceDefinition, ...] = (
    mutating_admission_policy.RESOURCE,
    mutating_admission_policy_binding.RESOURCE,
    mutating_webhook_configuration.RESOURCE,
    validating_admission_policy.RESOURCE,
    validating_admission_policy_binding.RESOURCE,
    validating_webhook_configuration.RESOURCE,
    horizontal_pod_autoscaler.RESOURCE_V1,
    lease_candidate.RESOURCE,
    component_status.RESOURCE,
    flow_schema.RESOURCE,
    priority_level_configuration.RESOURCE,
    ingress_class.RESOURCE,
    ip_address.RESOURCE,
    service_cidr.RESOURCE,
    runtime_class.RESOURCE,
    device_class.RESOURCE,
    resource_claim.RESOURCE,
    resource_claim_template.RESOURCE,
    resource_slice.RESOURCE,
    csi_storage_capacity.RESOURCE,
    volume_attachment.RESOURCE,
    volume_attributes_class.RESOURCE,
)
