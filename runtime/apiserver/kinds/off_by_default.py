"""List of the alpha and beta kinds that kube-apiserver serves only if they are enabled.

ApiSettings(resources=(*BUILT_IN, *OFF_BY_DEFAULT)) enables them, as does the flag --runtime-config of the command
(runtime_config.py). PodCertificateRequest and ClusterTrustBundle are beta too, but in the list BUILT_IN, because
controllers of this project use them. The command serves these two only if --runtime-config enables them.

Source: kubernetes pkg/controlplane/instance.go, DefaultAPIResourceConfigSource (v1.36).
"""

from __future__ import annotations

from kcm.runtime.apiserver.kinds.apiserverinternal import storage_version
from kcm.runtime.apiserver.kinds.coordination import lease_candidate
from kcm.runtime.apiserver.kinds.resource import device_taint_rule, resource_pool_status_request
from kcm.runtime.apiserver.kinds.scheduling import pod_group, workload
from kcm.runtime.apiserver.kinds.storagemigration import storage_version_migration
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

OFF_BY_DEFAULT: tuple[ResourceDefinition, ...] = (
    lease_candidate.RESOURCE,
    workload.RESOURCE,
    pod_group.RESOURCE,
    device_taint_rule.RESOURCE,
    resource_pool_status_request.RESOURCE,
    storage_version.RESOURCE,
    storage_version_migration.RESOURCE,
)
