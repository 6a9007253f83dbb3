"""The kinds that kube-apiserver serves only where it is told to: no alpha or beta version is on by default.

A program that wants one hands it over: ApiServer(resources=(*BUILT_IN, *OFF_BY_DEFAULT), …). Two more are among the
built-in ones, since a controller of ours acts on them: PodCertificateRequest and ClusterTrustBundle. The process of the
server serves these, too, only if --runtime-config has them (runtime_config.py).

Source: kubernetes pkg/controlplane/instance.go, DefaultAPIResourceConfigSource (v1.36).
"""

from __future__ import annotations

from kcm.runtime.apiserver.kinds.coordination import lease_candidate
from kcm.runtime.apiserver.kinds.scheduling import pod_group, workload
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

OFF_BY_DEFAULT: tuple[ResourceDefinition, ...] = (lease_candidate.RESOURCE, workload.RESOURCE, pod_group.RESOURCE)
