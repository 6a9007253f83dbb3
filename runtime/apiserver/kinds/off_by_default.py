"""Kinds that kube-apiserver serves only if enabled: alpha and beta versions are off by default.

To enable them, pass ApiSettings(resources=(*BUILT_IN, *OFF_BY_DEFAULT)). PodCertificateRequest and ClusterTrustBundle
are built in although they are beta, since a controller of this project acts on them. The command serves them only if
--runtime-config enables them (runtime_config.py).

Source: kubernetes pkg/controlplane/instance.go, DefaultAPIResourceConfigSource (v1.36).
"""

from __future__ import annotations

from kcm.runtime.apiserver.kinds.coordination import lease_candidate
from kcm.runtime.apiserver.kinds.scheduling import pod_group, workload
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

OFF_BY_DEFAULT: tuple[ResourceDefinition, ...] = (lease_candidate.RESOURCE, workload.RESOURCE, pod_group.RESOURCE)
