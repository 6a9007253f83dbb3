"""List of the built-in resources of the API server, ordered by group as in the discovery documents.

The list is written by hand instead of collected from the package: clients see the order, and the type checker can
follow the imports. A test compares it with the files in kinds/.

Source: the discovery documents of kube-apiserver v1.36.
"""

from __future__ import annotations

from kcm.runtime.apiserver.kinds.admissionregistration import (
    mutating_admission_policy,
    mutating_admission_policy_binding,
    mutating_webhook_configuration,
    validating_admission_policy,
    validating_admission_policy_binding,
    validating_webhook_configuration,
)
from kcm.runtime.apiserver.kinds.apiextensions import custom_resource_definition
from kcm.runtime.apiserver.kinds.apiregistration import api_service
from kcm.runtime.apiserver.kinds.apps import controller_revision, daemon_set, deployment, replica_set, stateful_set
from kcm.runtime.apiserver.kinds.authentication import self_subject_review, token_review
from kcm.runtime.apiserver.kinds.authorization import (
    local_subject_access_review,
    self_subject_access_review,
    self_subject_rules_review,
    subject_access_review,
)
from kcm.runtime.apiserver.kinds.autoscaling import horizontal_pod_autoscaler, horizontal_pod_autoscaler_v1
from kcm.runtime.apiserver.kinds.batch import cron_job, job
from kcm.runtime.apiserver.kinds.certificates import (
    certificate_signing_request,
    cluster_trust_bundle,
    pod_certificate_request,
)
from kcm.runtime.apiserver.kinds.coordination import lease
from kcm.runtime.apiserver.kinds.core import (
    binding,
    component_status,
    config_map,
    endpoints,
    event,
    limit_range,
    namespace,
    node,
    persistent_volume,
    persistent_volume_claim,
    pod,
    pod_template,
    replication_controller,
    resource_quota,
    secret,
    service,
    service_account,
)
from kcm.runtime.apiserver.kinds.discovery import endpoint_slice
from kcm.runtime.apiserver.kinds.events import event as new_event
from kcm.runtime.apiserver.kinds.flowcontrol import flow_schema, priority_level_configuration
from kcm.runtime.apiserver.kinds.networking import ingress, ingress_class, ip_address, network_policy, service_cidr
from kcm.runtime.apiserver.kinds.node import runtime_class
from kcm.runtime.apiserver.kinds.policy import pod_disruption_budget
from kcm.runtime.apiserver.kinds.rbac import cluster_role, cluster_role_binding, role, role_binding
from kcm.runtime.apiserver.kinds.resource import device_class, resource_claim, resource_claim_template, resource_slice
from kcm.runtime.apiserver.kinds.scheduling import priority_class
from kcm.runtime.apiserver.kinds.storage import (
    csi_driver,
    csi_node,
    csi_storage_capacity,
    storage_class,
    volume_attachment,
    volume_attributes_class,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

BUILT_IN: tuple[ResourceDefinition, ...] = (
    pod.RESOURCE,
    node.RESOURCE,
    namespace.RESOURCE,
    event.RESOURCE,
    replication_controller.RESOURCE,
    service.RESOURCE,
    endpoints.RESOURCE,
    config_map.RESOURCE,
    secret.RESOURCE,
    service_account.RESOURCE,
    limit_range.RESOURCE,
    resource_quota.RESOURCE,
    persistent_volume.RESOURCE,
    persistent_volume_claim.RESOURCE,
    pod_template.RESOURCE,
    component_status.RESOURCE,
    binding.RESOURCE,
    api_service.RESOURCE,
    deployment.RESOURCE,
    replica_set.RESOURCE,
    stateful_set.RESOURCE,
    daemon_set.RESOURCE,
    controller_revision.RESOURCE,
    new_event.RESOURCE,
    self_subject_review.RESOURCE,
    token_review.RESOURCE,
    local_subject_access_review.RESOURCE,
    self_subject_access_review.RESOURCE,
    self_subject_rules_review.RESOURCE,
    subject_access_review.RESOURCE,
    horizontal_pod_autoscaler.RESOURCE,
    horizontal_pod_autoscaler_v1.RESOURCE,
    job.RESOURCE,
    cron_job.RESOURCE,
    certificate_signing_request.RESOURCE,
    cluster_trust_bundle.RESOURCE,
    pod_certificate_request.RESOURCE,
    ingress.RESOURCE,
    ingress_class.RESOURCE,
    network_policy.RESOURCE,
    ip_address.RESOURCE,
    service_cidr.RESOURCE,
    pod_disruption_budget.RESOURCE,
    role.RESOURCE,
    role_binding.RESOURCE,
    cluster_role.RESOURCE,
    cluster_role_binding.RESOURCE,
    storage_class.RESOURCE,
    csi_node.RESOURCE,
    csi_driver.RESOURCE,
    csi_storage_capacity.RESOURCE,
    volume_attachment.RESOURCE,
    volume_attributes_class.RESOURCE,
    validating_webhook_configuration.RESOURCE,
    mutating_webhook_configuration.RESOURCE,
    validating_admission_policy.RESOURCE,
    validating_admission_policy_binding.RESOURCE,
    mutating_admission_policy.RESOURCE,
    mutating_admission_policy_binding.RESOURCE,
    custom_resource_definition.RESOURCE,
    priority_class.RESOURCE,
    lease.RESOURCE,
    runtime_class.RESOURCE,
    endpoint_slice.RESOURCE,
    device_class.RESOURCE,
    resource_claim.RESOURCE,
    resource_claim_template.RESOURCE,
    resource_slice.RESOURCE,
    flow_schema.RESOURCE,
    priority_level_configuration.RESOURCE,
)
